import type { OnReadOpts } from 'node:net'
import { RatePool } from '../../../base/runtime/rate-pool.ts'
import type { ByteChannel } from '../byte-channel.ts'
import type { Connection, IdleConnections } from '../connection.ts'
import { ConnectionPool, PARSING_UNITS_MAX, PARSING_UNITS_PER_S, type PoolEndpoint } from '../endpoint-connections.ts'
import { AgentChannel } from './agent-channel.ts'
import type { AgentStock } from './agent-stock.ts'

/** How long the pool is kept after the last request. */
const FORGET_AFTER_MS = 10 * 60_000

/**
 * The connections to one model of an endpoint that is served by agents. Each connection carries one request, so two
 * customers never share one, and the response to one request cannot reach another.
 */
export class AgentConnections implements PoolEndpoint {
  readonly open = new Set<Connection>()
  readonly parsingPool = new RatePool(PARSING_UNITS_PER_S, PARSING_UNITS_MAX)
  readonly allowsReuse = false
  isForgotten = false
  readonly #endpointId: string
  readonly #upstreamModel: string
  readonly #stock: Pick<AgentStock, 'take'>
  readonly #pool: ConnectionPool
  readonly #onUnsolicited: () => void
  #emptySinceMs = performance.now()

  constructor(
    endpointId: string,
    upstreamModel: string,
    stock: Pick<AgentStock, 'take'>,
    idle: IdleConnections,
    onUnsolicited: () => void,
  ) {
    this.#endpointId = endpointId
    this.#upstreamModel = upstreamModel
    this.#stock = stock
    this.#onUnsolicited = onUnsolicited
    this.#pool = new ConnectionPool(this, idle, () => {
      this.#emptySinceMs = performance.now()
    })
  }

  pool(_customerId: string): ConnectionPool {
    return this.#pool
  }

  stopReuse(): void {
    this.#onUnsolicited()
  }

  forgetIfUnused(): boolean {
    this.isForgotten = this.open.size === 0 && performance.now() >= this.#emptySinceMs + FORGET_AFTER_MS
    return this.isForgotten
  }

  close(reason: Error): void {
    for (const connection of this.open) connection.fail(reason)
  }

  connect(onread: OnReadOpts, onConnected: () => void): ByteChannel {
    return new AgentChannel(
      onread,
      (onTaken, onRefused) => this.#stock.take(this.#endpointId, this.#upstreamModel, onTaken, onRefused),
      onConnected,
    )
  }
}
