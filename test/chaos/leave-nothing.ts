import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** The process is ended when this one is gone, however it went. */
export function endWithUs(child: ChildProcess): void {
  tell(`+${child.pid}`)
  child.once('exit', () => tell(`-${child.pid}`))
}

/** The directory is removed when this process is gone; if it holds an embedded PostgreSQL, that is stopped first. */
export function removeWithUs(directory: string, holds: 'data' | 'files'): void {
  tell(`${holds} ${directory}`)
}

let executor: ChildProcess | undefined

function tell(line: string): void {
  if (executor === undefined) {
    const script = fileURLToPath(new URL('./last-will.ts', import.meta.url))
    executor = spawn(process.execPath, [script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
    executor.unref()
    // A socket, although the type says less: it must not keep us from ending.
    ;(executor.stdin as unknown as { unref(): void }).unref()
  }
  executor.stdin!.write(`${line}\n`)
}
