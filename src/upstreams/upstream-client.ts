import type { LookupFunction } from 'node:net'
import { credentialHeader } from '../domain/credential-header.ts'
import type { Endpoint } from '../domain/offer.ts'
import { Cancelled, UpstreamFailure } from '../domain/upstream-failure.ts'
import { failpoint } from '../runtime/failpoint.ts'
import { ConnectionPool } from './connection-pool.ts'
import { Deadlines } from './deadlines.ts'
import type { ExchangeRequest } from './exchange-request.ts'
import { UpstreamExchange } from './upstream-exchange.ts'

export interface UpstreamClientOptions {
  /** Sent as `user-agent: switchyard/<version>`. */
  readonly version: string
  /** Resolves the host names of `public_only` endpoints. Without it, requests to them fail. */
  readonly publicLookup?: LookupFunction
}

export interface UpstreamRequest extends ExchangeRequest {
  readonly endpoint: Endpoint
  /** Appended to the base URL of the endpoint, for example `/chat/completions`. */
  readonly path: string
  /** JSON text. */
  readonly body: string
}

/** The parts that are the same for every request to one path of an endpoint. */
interface Target {
  readonly pool: ConnectionPool
  readonly wholeHead: string
  readonly streamHead: string
}

/** A line break in a key would start another header, and servers decode bytes beyond ASCII differently. */
const headerValuePattern = /^[\t\x20-\x7e]*$/

/**
 * Speaks HTTP/1.1 to upstreams: one keep-alive pool for each origin, no pipelining, no redirects, no proxy
 * from the environment. Sends only the headers that are listed here. No header of the customer's request
 * reaches an upstream, and no header of its response reaches the customer.
 */
export class UpstreamClient {
  readonly #options: UpstreamClientOptions
  readonly #pools = new Map<string, ConnectionPool>()
  readonly #targets = new WeakMap<Endpoint, Map<string, Target>>()
  readonly #deadlines = new Deadlines()
  #isClosed = false

  constructor(options: UpstreamClientOptions) {
    this.#options = options
  }

  /** Sends one request. Resolves as `UpstreamExchange.arrived` does; rejects only with UpstreamFailure. */
  send(request: UpstreamRequest): Promise<UpstreamExchange> {
    const first = this.#start(request, false)
    return first.arrived.then(onArrived, failure => {
      if (!first.lostBeforeResponse) throw failure
      // The upstream was closing the idle connection, which says nothing about its health. Try once more on a
      // new connection.
      return this.#start(request, true).arrived
    })
  }

  /** Closes all connections and fails their exchanges. Later requests fail without being sent. */
  close(): void {
    this.#isClosed = true
    for (const pool of this.#pools.values()) pool.destroy(new Cancelled('gateway_stopping', true))
  }

  #start(request: UpstreamRequest, onNewConnection: boolean): UpstreamExchange {
    const { endpoint, path, body, stream } = request
    const exchange = new UpstreamExchange(endpoint.timeouts, request, this.#deadlines)
    try {
      if (request.signal.aborted) throw exchange.cancellation()
      if (this.#isClosed) throw new Cancelled('gateway_stopping', false)
      const { pool, wholeHead, streamHead } = this.#target(endpoint, path)
      const text = `${stream ? streamHead : wholeHead}${Buffer.byteLength(body)}\r\n\r\n${body}`
      pool.send(text, exchange, onNewConnection)
    } catch (error) {
      exchange.onResponseError(error as Error)
    }
    return exchange
  }

  #target(endpoint: Endpoint, path: string): Target {
    let targets = this.#targets.get(endpoint)
    if (targets === undefined) {
      targets = new Map()
      this.#targets.set(endpoint, targets)
    }
    let target = targets.get(path)
    if (target === undefined) {
      const url = new URL(`${endpoint.baseUrl}${path}`)
      target = {
        pool: this.#pool(url.origin, endpoint.egress),
        wholeHead: this.#head(url, endpoint, 'application/json'),
        streamHead: this.#head(url, endpoint, 'text/event-stream'),
      }
      targets.set(path, target)
    }
    return target
  }

  #head(url: URL, endpoint: Endpoint, accept: string): string {
    const credential = credentialHeader(endpoint)
    if (credential !== null && !headerValuePattern.test(credential[1])) {
      throw new UpstreamFailure(
        'connect_failed',
        'The key of the endpoint contains characters that a header cannot carry.',
      )
    }
    return [
      `POST ${url.pathname}${url.search} HTTP/1.1`,
      `host: ${url.host}`,
      'content-type: application/json',
      `accept: ${accept}`,
      // Without this header any coding would be acceptable (RFC 9110, 12.5.3). The gateway decodes none.
      'accept-encoding: identity',
      'connection: keep-alive',
      `user-agent: switchyard/${this.#options.version}`,
      ...(credential === null ? [] : [credential.join(': ')]),
      'content-length: ',
    ].join('\r\n')
  }

  #pool(origin: string, egress: Endpoint['egress']): ConnectionPool {
    const key = `${egress} ${origin}`
    let pool = this.#pools.get(key)
    if (pool === undefined) {
      pool = new ConnectionPool(origin, this.#deadlines, egress === 'public_only' ? this.#publicLookup() : undefined)
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

function onArrived(exchange: UpstreamExchange): UpstreamExchange {
  failpoint('upstream-headers')
  return exchange
}
