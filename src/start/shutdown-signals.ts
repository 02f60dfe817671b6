/** Shutdown requests from the operator, sent as signals. */
export interface ShutdownSignals {
  /** Resolves at the first SIGTERM, SIGINT or SIGHUP. */
  readonly requested: Promise<void>
  readonly isRequested: boolean
  /** Aborted by a second signal: cuts the drain short. */
  readonly force: AbortSignal
  /** Requests a shutdown, as a signal does. */
  now(): void
  /**
   * Call this as soon as there is something to drain. Before the call, a second signal ends the process, because
   * startup can wait for other processes without a time limit.
   */
  serving(): void
  readonly isServing: boolean
}

/** npm and the terminal both forward Ctrl-C, so one key press can arrive twice. */
const SAME_KEY_PRESS_MS = 1_000

/**
 * Handles SIGTERM, SIGINT and SIGHUP from now on: the first signal requests a drain, a later one cuts it
 * short.
 */
export function shutdownSignals(): ShutdownSignals {
  const requested = Promise.withResolvers<void>()
  const force = new AbortController()
  let requestedAtMs: number | undefined
  let isServing = false
  const now = () => {
    requestedAtMs ??= performance.now()
    if (performance.now() - requestedAtMs > SAME_KEY_PRESS_MS) {
      if (!isServing) {
        process.stderr.write('Stopped by a second signal before startup was complete.\n')
        process.exit(1)
      }
      force.abort()
    }
    requested.resolve()
  }
  for (const signal of SHUTDOWN_SIGNALS) process.on(signal, now)
  // The terminal has just printed ^C.
  if (process.stderr.isTTY) process.prependListener('SIGINT', () => process.stderr.write('\n'))
  return {
    requested: requested.promise,
    get isRequested() {
      return requestedAtMs !== undefined
    },
    force: force.signal,
    now,
    serving() {
      isServing = true
    },
    get isServing() {
      return isServing
    },
  }
}

export const SHUTDOWN_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
