import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { quoteForShell } from '../../src/base/runtime/quote-for-shell.ts'
import { watchChanges } from '../harness/changes.ts'

/** Whether `script` of util-linux is installed, which runs a program on a terminal of its own. */
export const hasTerminals =
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') === true

export interface Terminal {
  /** Returns everything that was written to the terminal until now, with its control characters. */
  screen(): string
  /** Resolves once the screen contains the text. Rejects when the program ends without it. */
  shows(text: string): Promise<void>
  /** Types text. `\x03` is Ctrl-C. */
  type(text: string): void
  /** Resolves with the exit code of the program. */
  readonly ended: Promise<number | null>
  readonly process: ChildProcess
}

/** Runs a program on a terminal with this number of columns. */
export function openTerminal(
  command: readonly string[],
  { columns = 80, cwd, env = {} }: { columns?: number; cwd: string; env?: Readonly<Record<string, string>> },
): Terminal {
  const line = `stty cols ${columns} rows 24; exec ${command.map(quoteForShell).join(' ')}`
  const child = spawn('script', ['--quiet', '--return', '--command', line, '/dev/null'], {
    cwd,
    env: { PATH: process.env.PATH!, TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  let screen = ''
  const { changed, waitFor } = watchChanges(closed)
  child.stdout.setEncoding('utf8').on('data', text => {
    screen += text
    changed()
  })
  // What is typed while the program ends reaches nobody.
  child.stdin.on('error', () => {})
  return {
    screen: () => screen,
    async shows(text) {
      await waitFor(
        () => screen.includes(text) || undefined,
        () => `The program ended without showing ${text}. It showed:\n${screen}`,
      )
    },
    type: text => child.stdin.write(text),
    ended: closed.then(([code]) => code as number | null),
    process: child,
  }
}
