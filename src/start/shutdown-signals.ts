/** Shutdown requests from the operator, sent as signals. */
export interface ShutdownSignals {
  /** Resolves at the first SIGTERM or SIGINT. */
  readonly requested: Promise<void>
  readonly isRequested: boolean
  /**
   * Resolves when the drain must begin. Until then requests are served: for `delayMs` after SIGTERM, unless another
   * signal arrives. Ctrl-C begins the drain at once, since a person waits for it.
   */
  readonly draining: Promise<void>
  /** Whether a shutdown is requested, and the drain has not begun. */
  readonly isDelayed: boolean
  /** Aborted by a further signal: cuts the drain short. */
  readonly force: AbortSignal
  /** Requests a drain, as Ctrl-C does. */
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
 * Handles SIGTERM and SIGINT from now on: the first one requests a shutdown, after `delayMs` if it is SIGTERM. A later
 * one ends the delay, or else cuts the drain short.
 */
export function shutdownSignals(delayMs: number): ShutdownSignals {
  const requested = Promise.withResolvers<void>()
  const draining = Promise.withResolvers<void>()
  const force = new AbortController()
  let requestedAtMs: number | undefined
  let delay: NodeJS.Timeout | undefined
  let isServing = false
  const drain = () => {
    clearTimeout(delay)
    delay = undefined
    draining.resolve()
  }
  const onFirst = (mayDelay: boolean) => {
    if (mayDelay && isServing && delayMs > 0) delay = setTimeout(drain, delayMs)
    else drain()
    requested.resolve()
  }
  const onFurther = () => {
    if (!isServing) {
      process.stderr.write('Stopped by a second signal before startup was complete.\n')
      process.exit(1)
    }
    if (delay === undefined) force.abort()
    else drain()
  }
  const onRequest = (mayDelay: boolean) => {
    const nowMs = performance.now()
    const isFirst = requestedAtMs === undefined
    if (requestedAtMs !== undefined && nowMs - requestedAtMs <= SAME_KEY_PRESS_MS) return
    requestedAtMs = nowMs
    if (isFirst) onFirst(mayDelay)
    else onFurther()
  }
  const now = () => onRequest(false)
  process.on('SIGTERM', () => onRequest(true))
  process.on('SIGINT', now)
  // The terminal has just printed ^C.
  if (process.stderr.isTTY) process.prependListener('SIGINT', () => process.stderr.write('\n'))
  return {
    requested: requested.promise,
    get isRequested() {
      return requestedAtMs !== undefined
    },
    draining: draining.promise,
    get isDelayed() {
      return delay !== undefined
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

export const SHUTDOWN_SIGNALS = ['SIGTERM', 'SIGINT'] as const
