import { ApiError } from '../domain/errors.ts'
import { type CancelSignal, CancelSource } from '../runtime/cancel-signal.ts'
import { type LinkedItem, LinkedSet } from '../runtime/linked-set.ts'

/** The chat requests under way on this node: bounds them, and ends them when the gateway has to stop. */
export interface InFlight {
  enter(): Running
  readonly count: number
  /** From now on new requests are refused with `server_shutdown`. */
  close(): void
  readonly isClosed: boolean
  /** Ends what is still running; streams get an error chunk. */
  abortAll(): void
  /** Resolves when nothing runs any more, after `timeoutMs`, or when `signal` is aborted, whichever comes first. */
  idleWithin(timeoutMs: number, signal?: AbortSignal): Promise<void>
}

export interface Running {
  readonly signal: CancelSignal
  /** Set when this request may not start. */
  readonly refusal: ApiError | null
  abort(reason: unknown): void
  leave(): void
}

export function createInFlight({ max }: { max: number }): InFlight {
  const running = new LinkedSet<RunningRequest>()
  let closed = false
  let onIdle: (() => void)[] = []
  return {
    enter() {
      const refusal = closed ? new ApiError('server_shutdown') : running.size >= max ? new ApiError('overloaded') : null
      const stop = new RunningRequest()
      running.add(stop)
      return {
        signal: stop,
        refusal,
        abort: reason => stop.abort(reason),
        leave() {
          running.remove(stop)
          if (running.size > 0) return
          for (const resolve of onIdle) resolve()
          onIdle = []
        },
      }
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
      for (const stop of running) stop.abort(new ApiError('server_shutdown'))
    },
    async idleWithin(timeoutMs, signal) {
      if (running.size === 0 || signal?.aborted) return
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, timeoutMs)
        const stop = () => {
          clearTimeout(timer)
          resolve()
        }
        onIdle.push(stop)
        signal?.addEventListener('abort', stop, { once: true })
      })
    },
  }
}

class RunningRequest extends CancelSource implements LinkedItem<RunningRequest> {
  older: RunningRequest | undefined = undefined
  newer: RunningRequest | undefined = undefined
  isListed = false
}
