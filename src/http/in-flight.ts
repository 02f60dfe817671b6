import { ApiError } from '../domain/errors.ts'
import { type CancelSignal, CancelSource } from '../runtime/cancel-signal.ts'
import { type LinkedItem, LinkedSet } from '../runtime/linked-set.ts'

/**
 * The generation requests that run on this node. Limits their number, and aborts them when the gateway must
 * stop.
 */
export interface InFlight {
  enter(): Running
  readonly count: number
  /** Refuses new requests with `server_shutdown` from now on. */
  close(): void
  readonly isClosed: boolean
  /** Ends all running requests; streams get an error event. */
  abortAll(): void
  /**
   * Resolves when no request is running, after `timeoutMs`, or when `signal` is aborted, whichever comes
   * first.
   */
  idleWithin(timeoutMs: number, signal?: AbortSignal): Promise<void>
}

export interface Running {
  readonly signal: CancelSignal
  /** The error that refuses the request; null when it may run. */
  readonly refusal: ApiError | null
  abort(reason: unknown): void
  leave(): void
}

export function createInFlight({ max }: { max: number }): InFlight {
  const running = new LinkedSet<RunningRequest>()
  let closed = false
  let onIdle: (() => void)[] = []
  const leave = (request: RunningRequest) => {
    running.remove(request)
    if (running.size > 0) return
    for (const resolve of onIdle) resolve()
    onIdle = []
  }
  return {
    enter() {
      const refusal = closed ? new ApiError('server_shutdown') : running.size >= max ? new ApiError('overloaded') : null
      const request = new RunningRequest(refusal, leave)
      running.add(request)
      return request
    },
    get count() {
      return running.size
    },
    close() {
      closed = true
    },
    get isClosed() {
      return closed
    },
    abortAll() {
      for (const request of running) request.abort(new ApiError('server_shutdown'))
    },
    async idleWithin(timeoutMs, signal) {
      if (running.size === 0 || signal?.aborted) return
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, timeoutMs)
        const done = () => {
          clearTimeout(timer)
          resolve()
        }
        onIdle.push(done)
        signal?.addEventListener('abort', done, { once: true })
      })
    },
  }
}

class RunningRequest extends CancelSource implements Running, LinkedItem<RunningRequest> {
  older: RunningRequest | undefined = undefined
  newer: RunningRequest | undefined = undefined
  isListed = false
  readonly signal: CancelSignal = this
  readonly refusal: ApiError | null
  readonly #onLeave: (request: RunningRequest) => void

  constructor(refusal: ApiError | null, onLeave: (request: RunningRequest) => void) {
    super()
    this.refusal = refusal
    this.#onLeave = onLeave
  }

  leave(): void {
    this.#onLeave(this)
  }
}
