/** What the operator asks of the process with signals. */
export interface ShutdownSignals {
  /** Resolves at the first SIGTERM, SIGINT or SIGHUP. */
  readonly requested: Promise<void>
  /** Aborted by a second one: the drain is cut short. */
  readonly hurry: AbortSignal
  /** As if a signal had come. */
  now(): void
  /** To be called when there is something to drain. Before, a second signal ends the process: a start may wait for others as long as it takes. */
  serving(): void
}

/** npm and the terminal both pass Ctrl-C on, so one keypress can arrive twice. */
const SAME_KEYPRESS_MS = 1_000

/** The first signal asks for a drain, another one cuts it short. From now on the first signal does not end the process by itself. */
export function shutdownSignals(): ShutdownSignals {
  const requested = Promise.withResolvers<void>()
  const hurry = new AbortController()
  let askedAtMs: number | undefined
  let isServing = false
  const now = () => {
    askedAtMs ??= performance.now()
    if (performance.now() - askedAtMs > SAME_KEYPRESS_MS) {
      if (!isServing) {
        process.stderr.write('Ended before it was ready, at a second signal.\n')
        process.exit(1)
      }
      hurry.abort()
    }
    requested.resolve()
  }
  for (const signal of SHUTDOWN_SIGNALS) process.on(signal, now)
  const serving = () => {
    isServing = true
  }
  return { requested: requested.promise, hurry: hurry.signal, now, serving }
}

export const SHUTDOWN_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
