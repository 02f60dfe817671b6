import { ApiError, MEMORY_USED_UP } from '../domain/errors.ts'
import type { ByteAccount, ByteBudget } from '../runtime/byte-budget.ts'
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
  /** The memory that the request takes of the node's budget. `leave` gives all of it back. */
  readonly memory: ByteAccount
  /** The error that refuses the request; null when it may run. */
  readonly refusal: ApiError | null
  abort(reason: unknown): void
  leave(): void
}

export function createInFlight({ max, memory }: { max: number; memory: ByteBudget }): InFlight {
  const running = new LinkedSet<RunningRequest>()
  let closed = false
  let onIdle: (() => void)[] = []
  const refusal = () => {
    if (closed) return new ApiError('server_shutdown')
    if (running.size >= max) return new ApiError('overloaded')
    return memory.hasRoomForNew ? null : memoryUsedUp()
  }
  const leave = (request: RunningRequest) => {
    running.remove(request)
    if (running.size > 0) return
    for (const resolve of onIdle) resolve()
    onIdle = []
  }
  return {
    enter() {
      const request = new RunningRequest(refusal(), memory, leave)
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

/** The refusal of a request when the bodies and answers in memory have reached their limit. */
function memoryUsedUp(): ApiError {
  return new ApiError('overloaded', { message: MEMORY_USED_UP })
}

/** One object per request: its place in the list, its signal and its account. */
class RunningRequest extends CancelSource implements Running, ByteAccount, LinkedItem<RunningRequest> {
  older: RunningRequest | undefined = undefined
  newer: RunningRequest | undefined = undefined
  isListed = false
  readonly signal: CancelSignal = this
  readonly memory: ByteAccount = this
  readonly refusal: ApiError | null
  readonly #budget: ByteAccount
  readonly #onLeave: (request: RunningRequest) => void
  #takenBytes = 0
  #hasLeft = false

  constructor(refusal: ApiError | null, budget: ByteAccount, onLeave: (request: RunningRequest) => void) {
    super()
    this.refusal = refusal
    this.#budget = budget
    this.#onLeave = onLeave
  }

  take(bytes: number): boolean {
    if (this.#hasLeft || !this.#budget.take(bytes)) return false
    this.#takenBytes += bytes
    return true
  }

  /** After `leave` nothing is left to give back. */
  give(bytes: number): void {
    const given = Math.min(bytes, this.#takenBytes)
    this.#takenBytes -= given
    this.#budget.give(given)
  }

  leave(): void {
    this.#hasLeft = true
    this.give(this.#takenBytes)
    this.#onLeave(this)
  }
}
