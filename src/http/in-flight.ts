import { ApiError, memoryUsedUp } from '../base/domain/errors.ts'
import { type CancelSignal, CancelSource } from '../base/runtime/cancel-signal.ts'
import { type LinkedItem, LinkedSet } from '../base/runtime/collections.ts'
import type { ByteAccount, ByteBudget } from '../base/runtime/counted-memory.ts'
import type { UnreadAnswer } from './generation-exchange.ts'

/**
 * The generation requests on this node. Limits how many run and how much memory they occupy, in total and for each
 * customer, and aborts them when the gateway must stop.
 */
export interface InFlight {
  /** Call it before the body is read. The request must `start` before it runs, and must `leave`. */
  open(customerId: string): Running
  /** Running requests. */
  readonly count: number
  /** From now on answers ask their clients to open another connection. Requests are still served. */
  announceClose(): void
  readonly isClosing: boolean
  /**
   * Refuses new requests with `server_shutdown` from now on, except on connections that are already open. Their clients
   * do not know that the gateway is stopping, and a proxy may be sending the next request. Each of these connections serves
   * at most one more, because the answer closes it.
   */
  close(): void
  readonly isClosed: boolean
  /** Refuses all new requests, and ends the running ones; streams get an error event. */
  abortAll(): void
  /**
   * Resolves when no request is running, after `timeoutMs`, or when `signal` is aborted, whichever comes
   * first.
   */
  idleWithin(timeoutMs: number, signal?: AbortSignal): Promise<void>
}

export interface Running {
  readonly signal: CancelSignal
  /** The memory that the request takes of the node's budget. `leave` gives it back. */
  readonly memory: ByteAccount
  /**
   * Takes one of the places. Returns the error that refuses the request, or null if it may run.
   *
   * @param connectedMs performance.now() when its connection was accepted
   */
  start(connectedMs: number): ApiError | null
  abort(reason: unknown): void
  /** Frees the place, and the memory except that of the unread answer, which is freed when the client has read it. */
  leave(unread?: UnreadAnswer | null): void
}

/**
 * A customer may have up to this multiple of the free places. A customer alone gets three quarters of all places. When
 * others run requests too, each gets less. Some places always stay free for a customer that has none (dynamic
 * thresholds, Choudhury and Hahne 1998).
 */
const FREE_PLACES_MULTIPLE = 3
/** The same for memory, of which a customer alone gets half before its bodies are refused, and two thirds in all. */
const FREE_BYTES_MULTIPLE = 2

export function createInFlight({ max, memory }: { max: number; memory: ByteBudget }): InFlight {
  return new Requests(max, memory)
}

class Requests implements InFlight {
  readonly #running = new LinkedSet<RunningRequest>()
  readonly #shares = new CustomerShares()
  readonly #max: number
  readonly #memory: ByteBudget
  #isClosing = false
  /** performance.now() at `close`. */
  #closedMs = Number.POSITIVE_INFINITY
  #isOver = false
  #onIdle: (() => void)[] = []

  constructor(max: number, memory: ByteBudget) {
    this.#max = max
    this.#memory = memory
  }

  open(customerId: string): Running {
    return new RunningRequest(this, this.#shares.of(customerId))
  }

  /** Adds the request to the running ones, or returns its refusal. */
  start(request: RunningRequest, share: CustomerShare, connectedMs: number): ApiError | null {
    const refusal =
      this.#isOver || connectedMs > this.#closedMs ? new ApiError('server_shutdown') : this.#refusal(share)
    if (refusal !== null) return refusal
    this.#running.add(request)
    share.running++
    return null
  }

  #refusal(share: CustomerShare): ApiError | null {
    const free = this.#max - this.#running.size
    if (free <= 0) return new ApiError('overloaded')
    if (share.running >= free * FREE_PLACES_MULTIPLE) {
      return new ApiError('too_many_concurrent_requests', {
        message: `Your account already runs ${share.running} requests on this server, and the other places are kept for others. Retry when some have finished.`,
        retryAfterS: 1,
      })
    }
    return this.#memory.hasRoomForNew ? null : memoryUsedUp()
  }

  /** Takes memory for a request, if its customer may have it. Otherwise returns what is used up. */
  take(bytes: number, share: CustomerShare, isRunning: boolean): 'taken' | 'share' | 'node' {
    const free = isRunning ? this.#memory.freeBytes : this.#memory.freeForNewBytes
    if (share.bytes + bytes > (free - bytes) * FREE_BYTES_MULTIPLE) {
      return share.bytes > 0 && bytes <= free ? 'share' : 'node'
    }
    if (!this.#memory.take(bytes)) return 'node'
    share.bytes += bytes
    return 'taken'
  }

  give(bytes: number, share: CustomerShare): void {
    share.bytes -= bytes
    this.#memory.give(bytes)
  }

  leave(request: RunningRequest, share: CustomerShare): void {
    share.running--
    this.#running.remove(request)
    if (this.#running.size > 0) return
    for (const resolve of this.#onIdle) resolve()
    this.#onIdle = []
  }

  get count(): number {
    return this.#running.size
  }

  announceClose(): void {
    this.#isClosing = true
  }

  get isClosing(): boolean {
    return this.#isClosing
  }

  close(): void {
    this.#isClosing = true
    this.#closedMs = performance.now()
  }

  get isClosed(): boolean {
    return this.#closedMs < Number.POSITIVE_INFINITY
  }

  abortAll(): void {
    this.#isOver = true
    for (const request of this.#running) request.abort(new ApiError('server_shutdown'))
  }

  async idleWithin(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#running.size === 0 || signal?.aborted) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, timeoutMs)
      const done = () => {
        clearTimeout(timer)
        resolve()
      }
      this.#onIdle.push(done)
      signal?.addEventListener('abort', done, { once: true })
    })
  }
}

/** One object per request: its place in the list, its signal and its account. */
class RunningRequest extends CancelSource implements Running, ByteAccount, LinkedItem<RunningRequest> {
  older: RunningRequest | undefined = undefined
  newer: RunningRequest | undefined = undefined
  isListed = false
  readonly signal: CancelSignal = this
  readonly memory: ByteAccount = this
  isOverShare = false
  readonly #requests: Requests
  readonly #share: CustomerShare
  #takenBytes = 0
  #hasLeft = false

  constructor(requests: Requests, share: CustomerShare) {
    super()
    this.#requests = requests
    this.#share = share
    share.opened++
  }

  start(connectedMs: number): ApiError | null {
    return this.#requests.start(this, this.#share, connectedMs)
  }

  take(bytes: number): boolean {
    if (this.#hasLeft) return false
    const outcome = this.#requests.take(bytes, this.#share, this.isListed)
    this.isOverShare = outcome === 'share'
    if (outcome !== 'taken') return false
    this.#takenBytes += bytes
    return true
  }

  /** After `leave` nothing is left to give back. */
  give(bytes: number): void {
    const given = Math.min(bytes, this.#takenBytes)
    this.#takenBytes -= given
    this.#requests.give(given, this.#share)
  }

  leave(unread: UnreadAnswer | null = null): void {
    const requests = this.#requests
    const share = this.#share
    const unreadBytes = unread === null ? 0 : this.#takeUpTo(unread.bytes)
    this.give(this.#takenBytes - unreadBytes)
    this.#takenBytes = 0
    this.#hasLeft = true
    if (this.isListed) requests.leave(this, share)
    if (unread === null) share.opened--
    else {
      unread.onceRead(() => {
        requests.give(unreadBytes, share)
        share.opened--
      })
    }
  }

  /** Takes what is missing of these bytes, which are allocated already. Returns how many of them are counted. */
  #takeUpTo(bytes: number): number {
    const missing = bytes - this.#takenBytes
    return missing <= 0 || this.take(missing) ? bytes : this.#takenBytes
  }
}

/** What the requests of one customer occupy on this node. */
interface CustomerShare {
  /** Requests that have been opened and have not left, and those with unread answers. */
  opened: number
  /** The part of `opened` that runs. */
  running: number
  /** Bytes of their bodies and answers. */
  bytes: number
}

const SHARES_KEPT_MAX = 10_000

/** The shares of all customers with requests on this node. Shares without requests are dropped now and then. */
class CustomerShares {
  readonly #shares = new Map<string, CustomerShare>()

  of(customerId: string): CustomerShare {
    const known = this.#shares.get(customerId)
    if (known !== undefined) return known
    if (this.#shares.size >= SHARES_KEPT_MAX) this.#dropUnused()
    const share: CustomerShare = { opened: 0, running: 0, bytes: 0 }
    this.#shares.set(customerId, share)
    return share
  }

  #dropUnused(): void {
    for (const [customerId, { opened }] of this.#shares) if (opened === 0) this.#shares.delete(customerId)
  }
}
