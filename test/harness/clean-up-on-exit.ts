import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Kills the process when this one has ended, also after SIGKILL. */
export function killOnExit(child: ChildProcess): void {
  send(`+${child.pid}`)
  child.once('exit', () => send(`-${child.pid}`))
}

/**
 * Removes the directory when this process has ended. Stops the PostgreSQL of a `data` directory first, and with `run` every process
 * whose TMPDIR is the directory.
 */
export function removeOnExit(directory: string, holds: 'data' | 'files' | 'run'): void {
  send(`${holds} ${directory}`)
}

let cleaner: ChildProcess | undefined

function send(line: string): void {
  if (cleaner === undefined) {
    const script = fileURLToPath(new URL('./cleanup-process.ts', import.meta.url))
    cleaner = spawn(process.execPath, [script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
    cleaner.unref()
    // Its type is only Writable, but it is a socket, which must not keep this process alive.
    ;(cleaner.stdin as unknown as { unref(): void }).unref()
  }
  cleaner.stdin!.write(`${line}\n`)
}
