import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { vi } from 'vitest'
import type { Connection } from '../../src/base/db/open-database.ts'

export interface CliRun {
  readonly code: number | null
  /** Empty if stdout was redirected to a file. */
  readonly stdout: string
  readonly stderr: string
}

/** The command line that runs `switchyard` from the sources, under the Node of the tests. */
export const sourceProgram: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL('../../src/cli.js', import.meta.url)),
]

/** Runs `switchyard` as a child process with its own directory and environment. `stdout` may be an open file descriptor. */
export async function runCli(
  args: readonly string[],
  {
    env = {},
    cwd,
    input = '',
    stdout = 'pipe',
    program: [command, ...words] = sourceProgram,
  }: {
    env?: Readonly<Record<string, string>>
    cwd: string
    input?: string
    stdout?: 'pipe' | number
    program?: readonly string[]
  },
): Promise<CliRun> {
  const child = spawn(command!, [...words, ...args], {
    cwd,
    env: { PATH: process.env.PATH!, ...env },
    stdio: ['pipe', stdout, 'pipe'],
  })
  child.stdin!.end(input)
  const output = child.stdout === null ? '' : text(child.stdout)
  const [out, err, [code]] = await Promise.all([output, text(child.stderr!), once(child, 'close')])
  return { code, stdout: out, stderr: err }
}

let last: Promise<unknown> = Promise.resolve()

/**
 * Runs `switchyard` in this process, which takes a hundredth of a start: one command after the other, with its own directory and environment. No
 * terminal is there. For commands that end by themselves, and read nothing from stdin.
 */
export function runInProcess(
  args: readonly string[],
  { env = {}, cwd }: { env?: Readonly<Record<string, string>>; cwd: string },
): Promise<CliRun> {
  const run = last.then(() => runAlone(args, env, cwd))
  last = run.catch(() => {})
  return run
}

async function runAlone(args: readonly string[], env: Readonly<Record<string, string>>, cwd: string): Promise<CliRun> {
  const before = { env: process.env, cwd: process.cwd(), isTTY: process.stdin.isTTY }
  const output = { stdout: '', stderr: '' }
  const capture = (name: 'stdout' | 'stderr') =>
    vi.spyOn(process[name], 'write').mockImplementation((chunk, ...rest) => {
      output[name] += chunk
      rest.forEach(each => {
        if (typeof each === 'function') each()
      })
      return true
    })
  const spies = [capture('stdout'), capture('stderr')]
  process.env = { PATH: process.env.PATH, ...env }
  process.chdir(cwd)
  process.stdin.isTTY = false
  try {
    const { run } = await import('../../src/cli/run.ts')
    const code = await run([...sourceProgram, ...args])
    return { code, ...output }
  } finally {
    for (const spy of spies) spy.mockRestore()
    process.chdir(before.cwd)
    process.env = before.env
    process.stdin.isTTY = before.isTTY
  }
}

/** Returns the connection as a DATABASE_URL. The host is the directory of PostgreSQL's socket. */
export function databaseUrl({ host, port, user, password, database }: Connection): string {
  const url = new URL(`postgres://${user}:${password}@localhost:${port}/${database}`)
  url.searchParams.set('host', String(host))
  return url.href
}
