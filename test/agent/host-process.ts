import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { vi } from 'vitest'
import { sourceProgram } from '../cli/run-cli.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'

/** `switchyard host` in a process of its own, as a hoster runs it. */
export interface HostProcess {
  readonly child: ChildProcess
  readonly output: () => string
  /** Waits until it has printed a text. */
  printed(text: string): Promise<void>
  /** Resolves with the exit code, or with the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
}

export function startHostProcess(key: string, args: readonly string[]): HostProcess {
  const [command, ...words] = sourceProgram
  const child = spawn(command!, [...words, 'host', ...args], {
    env: { PATH: process.env.PATH!, SWITCHYARD_HOST_KEY: key },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  return {
    child,
    output: () => output,
    printed: text =>
      vi.waitFor(() => {
        if (!output.includes(text)) throw new Error(`${JSON.stringify(text)} is not in: ${output}`)
      }, WAIT_OPTIONS),
    ended: once(child, 'close').then(([code, signal]) => code ?? signal),
  }
}
