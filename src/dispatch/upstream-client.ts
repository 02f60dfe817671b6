import type { LookupFunction } from 'node:net'
import { Pool } from 'undici'
import { credentialHeader } from '../domain/credential-header.ts'
import type { Endpoint } from '../domain/offer.ts'
import type { StopSignal } from '../domain/stop-signal.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { failpoint } from '../failpoint.ts'
import { Deadlines } from './deadlines.ts'
import { UpstreamExchange } from './upstream-exchange.ts'

export interface UpstreamClientOptions {
  /** Sent as `user-agent: switchyard/<version>`. */
  readonly version: string
  /** Connections per origin; null (the default) for as many as there are requests. */
  readonly connectionsPerOrigin?: number | null
  /** Resolves the names of `public_only` endpoints; without it they are refused. */
  readonly publicLookup?: LookupFunction
}

export interface UpstreamAsk {
  readonly endpoint: Endpoint
  /** JSON. */
  readonly body: string
  readonly stream: boolean
  /** No attempt lasts longer than this, whatever the endpoint's own limits, ms from now. */
  readonly remainingMs: number
  readonly signal: StopSignal
}

interface Target {
  readonly pool: Pool
  readonly path: string
}

/** Kernel limit on how long an abandoned connection attempt lingers; the endpoint's own `connectMs` decides for the request. */
const CONNECT_MS_MAX = 15_000
const KEPT_IDLE_MS_MAX = 30_000

/**
 * Speaks HTTP/1.1 to upstreams: one keep-alive pool for each origin, no pipelining, no redirects, no proxy from the
 * environment. Sends only the headers written here; nothing of the customer's request and nothing of the upstream's
 * response headers passes through.
 */
export class UpstreamClient {
  readonly #options: UpstreamClientOptions
  readonly #pools = new Map<string, Pool>()
  readonly #targets = new Map<string, Target>()
  readonly #deadlines = new Deadlines()

  constructor(options: UpstreamClientOptions) {
    this.#options = options
  }

  /** Sends one chat request; resolves when it has `arrived`. Rejects with UpstreamFailure, and nothing else. */
  ask(ask: UpstreamAsk): Promise<UpstreamExchange> {
    if (ask.signal.aborted) {
      return Promise.reject(new UpstreamFailure('cancelled', 'The request was given up before it was sent.'))
    }
    const first = this.#send(ask)
    return first.arrived.then(answered, failure => {
      if (!first.lostAtOnce) throw failure
      // A kept connection that the upstream was just closing says nothing about the upstream. A second one will.
      return this.#send(ask).arrived
    })
  }

  /** Cuts off what is still running and closes all connections. */
  async close(): Promise<void> {
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    this.#targets.clear()
    await Promise.all(pools.map(pool => pool.destroy()))
  }

  #send(ask: UpstreamAsk): UpstreamExchange {
    const exchange = new UpstreamExchange(
      ask.endpoint.timeouts,
      ask.stream,
      ask.remainingMs,
      ask.signal,
      this.#deadlines,
    )
    try {
      const { pool, path } = this.#target(ask.endpoint)
      pool.dispatch({ method: 'POST', path, headers: this.#headers(ask), body: ask.body }, exchange)
    } catch (error) {
      exchange.onResponseError(null, error as Error)
    }
    return exchange
  }

  #headers({ endpoint, stream }: UpstreamAsk): string[] {
    const headers = [
      'content-type',
      'application/json',
      'accept',
      stream ? 'text/event-stream' : 'application/json',
      'user-agent',
      `switchyard/${this.#options.version}`,
    ]
    const credential = credentialHeader(endpoint)
    if (credential !== null) headers.push(...credential)
    return headers
  }

  #target({ baseUrl, egress }: Endpoint): Target {
    const key = `${egress} ${baseUrl}`
    let target = this.#targets.get(key)
    if (target === undefined) {
      const url = new URL(`${baseUrl}/chat/completions`)
      target = { pool: this.#pool(url.origin, egress), path: url.pathname + url.search }
      this.#targets.set(key, target)
    }
    return target
  }

  #pool(origin: string, egress: Endpoint['egress']): Pool {
    const key = `${egress} ${origin}`
    let pool = this.#pools.get(key)
    if (pool === undefined) {
      pool = new Pool(origin, {
        connections: this.#options.connectionsPerOrigin ?? null,
        pipelining: 1,
        // undici 8 would speak HTTP/2 where it is offered: one lost connection would then be a hundred lost streams.
        allowH2: false,
        // Upstreams may offer ten minutes; after a rush a thousand connections would stand by for that long.
        keepAliveMaxTimeout: KEPT_IDLE_MS_MAX,
        // All waiting is timed by the exchange.
        headersTimeout: 0,
        bodyTimeout: 0,
        connect: { timeout: CONNECT_MS_MAX, ...(egress === 'public_only' && { lookup: this.#publicLookup() }) },
      })
      this.#pools.set(key, pool)
    }
    return pool
  }

  #publicLookup(): LookupFunction {
    const { publicLookup } = this.#options
    if (!publicLookup) throw new UpstreamFailure('connect_failed', 'No lookup for public addresses is configured.')
    return publicLookup
  }
}

function answered(exchange: UpstreamExchange): UpstreamExchange {
  failpoint('upstream-headers')
  return exchange
}
