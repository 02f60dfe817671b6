import type { Log } from '../../base/runtime/log.ts'

interface DrainingWorker {
  readonly number: number
  /** Resolves with whether the process exited with code 0. */
  readonly ended: Promise<boolean>
  send(message: { kind: 'drain' } | { kind: 'force' }): void
  kill(): void
}

interface DrainOptions {
  /** The current workers. */
  readonly running: () => readonly DrainingWorker[]
  /** Closes the port without waiting for workers that still drain. */
  readonly closePort: () => void
  readonly drainMs: number
  /** Cuts the drain short. */
  readonly force: AbortSignal
  readonly log: Pick<Log, 'error'>
}

/**
 * A worker aborts its remaining requests within five seconds after its drain. The port then closes even if a
 * worker hangs.
 */
const CLOSE_PORT_MS = 6_000

/**
 * A drained worker commits its charges and closes. It is killed if it still runs this long after the end of
 * its drain; the journal keeps the charges that it did not commit.
 */
const KILL_MS = 25_000

/** Drains all workers and waits until they have ended. Returns how many did not shut down cleanly. */
export async function drainWorkers({ running, closePort, drainMs, force, log }: DrainOptions): Promise<number> {
  const workers = running()
  let deadlines = startDeadlines(drainMs)
  const forceAll = () => {
    sendAll('force')
    clearDeadlines()
    deadlines = startDeadlines(0)
  }
  sendAll('drain')
  if (force.aborted) forceAll()
  else force.addEventListener('abort', forceAll, { once: true })
  const ended = await Promise.all(workers.map(worker => worker.ended))
  clearDeadlines()
  force.removeEventListener('abort', forceAll)
  return ended.filter(isClean => !isClean).length

  function sendAll(kind: 'drain' | 'force'): void {
    for (const worker of running()) worker.send({ kind })
  }

  function startDeadlines(drainMs: number): NodeJS.Timeout[] {
    return [setTimeout(closePort, drainMs + CLOSE_PORT_MS), setTimeout(killAll, drainMs + KILL_MS)]
  }

  function clearDeadlines(): void {
    for (const deadline of deadlines) clearTimeout(deadline)
  }

  function killAll(): void {
    for (const worker of running()) {
      log.error({ worker: worker.number }, 'killing a worker that does not exit')
      worker.kill()
    }
  }
}
