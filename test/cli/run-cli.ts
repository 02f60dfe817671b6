import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Connection } from '../../src/db/embedded.ts'

export interface CliRun {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** Runs `switchyard` for real, in a directory and an environment of its own. */
export async function runCli(
  args: readonly string[],
  { env = {}, cwd, input = '' }: { env?: Record<string, string>; cwd: string; input?: string },
): Promise<CliRun> {
  const child = spawn(process.execPath, [cli, ...args], {
    cwd,
    env: { PATH: process.env.PATH!, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(input)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code, stdout, stderr }
}

/** The connection as an operator would write it. The host is the directory of PostgreSQL's socket. */
export function databaseUrl({ host, port, user, password, database }: Connection): string {
  const url = new URL(`postgres://${user}:${password}@localhost:${port}/${database}`)
  url.searchParams.set('host', String(host))
  return url.href
}
