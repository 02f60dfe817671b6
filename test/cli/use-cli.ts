import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestDatabase } from '../harness/database.ts'
import { useResource } from '../harness/use-resource.ts'
import { type CliRun, databaseUrl, runCli, runInProcess } from './run-cli.ts'

export interface Cli {
  /** The working directory and SWITCHYARD_DATA of the commands. */
  readonly directory: string
  /** Runs a command on the database: in a process of its own with `input` or `stdout`, else in this one. */
  run(
    args: readonly string[],
    options?: { env?: Record<string, string>; input?: string; stdout?: number },
  ): Promise<CliRun>
}

/** Runs commands of `switchyard` on this database, in a temporary directory that lives as long as the tests of the file. */
export function useCli(database: Pick<TestDatabase, 'connection'>): Cli {
  const start = async (): Promise<Cli> => {
    const directory = await mkdtemp(join(tmpdir(), 'switchyard-cli-'))
    return {
      directory,
      run(args, { env, ...options } = {}) {
        const common = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_DATA: directory }
        const own = { cwd: directory, env: { ...common, ...env } }
        return options.input === undefined && options.stdout === undefined
          ? runInProcess(args, own)
          : runCli(args, { ...options, ...own })
      },
    }
  }
  return useResource(start, cli => rm(cli.directory, { recursive: true }))
}
