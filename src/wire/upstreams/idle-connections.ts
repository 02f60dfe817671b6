import { type LinkedItem, LinkedSet } from '../../base/runtime/linked-set.ts'
import { endOfTurn } from '../../base/runtime/scheduler.ts'

export interface IdleConnection extends LinkedItem<IdleConnection> {
  /** performance.now() when the connection may no longer be reused. */
  readonly usableUntilMs: number
  /** True while the connection is idle and not in quarantine. Written by IdleConnections, as is the next field. */
  isReady: boolean
  idleSinceTick: number
  /** Called at the end of the quarantine. */
  onReady(): void
  /** Closes the connection and calls `remove`. */
  destroy(): void
}

/** How often the quarantine and the idle times are checked. */
const TICK_MS = 25
/** The ticks in quarantine: 250 to 275 ms. */
const QUARANTINE_TICKS = 11
/**
 * With more connections in quarantine than this, the oldest leave it early, after 50 to 75 ms or more. Otherwise
 * thousands of quick answers per second would pass through thousands of connections, too many for the processor's
 * caches: 1,100 connections cost 4 us of CPU time more per request than 128.
 */
const QUARANTINED_MAX = 128
const QUARANTINE_TICKS_MIN = 3
/** Leaves most of 10,000 descriptors to clients and to connections in use. */
const IDLE_MAX = 2_048

/**
 * The idle connections to all endpoints. A connection that becomes idle is in quarantine first: a server that
 * answers a request twice must not answer the next request with its second answer, so the connection has to be
 * silent for a while before it is ready for another request.
 *
 * The quarantine is counted in ticks and not in ms. Each tick waits until every readable socket was read, so a
 * stall of this process cannot hide bytes that arrived during the quarantine.
 */
export class IdleConnections {
  readonly #tickMs: number
  /** Both in the order in which the connections became idle. */
  readonly #quarantined = new LinkedSet<IdleConnection>()
  readonly #ready = new LinkedSet<IdleConnection>()
  #tick = 0
  #timer: NodeJS.Timeout | undefined

  /** @param tickMs shorter ticks shorten the quarantine */
  constructor(tickMs = TICK_MS) {
    this.#tickMs = tickMs
  }

  /**
   * Puts a connection in quarantine. At the limit, closes the ready connection that has been idle for the longest
   * time, or this connection if none is ready.
   */
  add(connection: IdleConnection): void {
    if (this.#quarantined.size + this.#ready.size >= IDLE_MAX) {
      const closed = this.#ready.oldest ?? connection
      closed.destroy()
      if (closed === connection) return
    }
    connection.idleSinceTick = this.#tick
    this.#quarantined.add(connection)
    this.#timer ??= setInterval(() => endOfTurn(() => this.#onTick()), this.#tickMs)
  }

  /** Removes a connection that is reused or closed. Does nothing for a connection that is not idle. */
  remove(connection: IdleConnection): void {
    if (connection.isReady) this.#ready.remove(connection)
    else this.#quarantined.remove(connection)
    connection.isReady = false
  }

  /** Closes the connections that wait for requests, to free their descriptors. */
  closeReady(): void {
    for (const connection of this.#ready) connection.destroy()
  }

  #onTick(): void {
    this.#tick++
    this.#endQuarantines()
    const nowMs = performance.now()
    for (const connection of this.#ready) if (nowMs >= connection.usableUntilMs) connection.destroy()
    if (this.#quarantined.size + this.#ready.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #endQuarantines(): void {
    const quarantined = this.#quarantined
    for (let oldest = quarantined.oldest; oldest !== undefined; oldest = quarantined.oldest) {
      const ticks = this.#tick - oldest.idleSinceTick
      if (ticks < (quarantined.size > QUARANTINED_MAX ? QUARANTINE_TICKS_MIN : QUARANTINE_TICKS)) return
      quarantined.remove(oldest)
      this.#ready.add(oldest)
      oldest.isReady = true
      oldest.onReady()
    }
  }
}
