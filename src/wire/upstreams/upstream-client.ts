import type { LookupFunction } from 'node:net'
import type { AwsKeys, GoogleServiceAccount } from '../../base/domain/cloud-credential.ts'
import type { Endpoint } from '../../base/domain/offer.ts'
import { Cancelled, hasClientLeft, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { RatePool } from '../../base/runtime/rate-pool.ts'
import { type Clock, systemClock } from '../../base/runtime/scheduler.ts'
import { awsSignatureHeaders } from '../credentials/aws-signature.ts'
import { GoogleToken } from '../credentials/google-token.ts'
import { AgentConnections } from './agents/agent-connections.ts'
import type { AgentStock } from './agents/agent-stock.ts'
import { IdleConnections } from './connection.ts'
import { EndpointConnections } from './endpoint-connections.ts'
import type { ExchangeRequest } from './exchange-request.ts'
import { Deadlines } from './exchange-timer.ts'
import { requestHead } from './request-head.ts'
import { UpstreamExchange } from './upstream-exchange.ts'

export interface UpstreamClientOptions {
  /** Sent as `user-agent: switchyard/<version>`. */
  readonly version: string
  /** Resolves the host names of `public_only` endpoints. Without it, requests to them fail. */
  readonly publicLookup?: LookupFunction
  /** Called when an endpoint sent bytes that no request asked for. Its connections are not reused for 5 minutes. */
  readonly onUnsolicited?: (endpoint: Endpoint) => void
  /**
   * Called when this machine has no descriptor, port or memory for a connection, at most once a minute. Idle
   * connections are closed then.
   */
  readonly onUsedUp?: () => void
  /** The connections of hosters' agents. Without it, requests to them fail. */
  readonly agents?: Pick<AgentStock, 'take'>
  /** The tick of IdleConnections in ms. */
  readonly tickMs?: number
  /** Measures the lifetime of tokens. */
  readonly clock?: Clock
}

export interface UpstreamRequest extends ExchangeRequest {
  readonly endpoint: Endpoint
  /** A connection to a hoster carries requests of one customer only. */
  readonly customerId: string
  /** Appended to the base URL of the endpoint, for example `/chat/completions`. */
  readonly path: string
  /** The model at the server. Only an agent is chosen by it. */
  readonly upstreamModel?: string
  /** More lines of the head, the same for every request to a path. */
  readonly headers?: readonly string[] | undefined
  /** Lines of the head of this request only. */
  readonly requestHeaders?: readonly string[] | undefined
  /** JSON text. */
  readonly body: string
}

/** The parts that are the same for every request to one path of an endpoint. */
interface Target {
  readonly connections: EndpointConnections | AgentConnections
  readonly wholeHead: string
  readonly streamHead: string
}

const USED_UP_REPORT_MS = 60_000

/**
 * Speaks HTTP/1.1 to upstreams: kept connections for each endpoint, no pipelining, no redirects, no proxy
 * from the environment. Sends only the headers that are listed here. No header of the customer's request
 * reaches an upstream, and no header of its response reaches the customer.
 */
export class UpstreamClient {
  readonly #options: UpstreamClientOptions
  readonly #endpoints = new Map<string, EndpointConnections | AgentConnections>()
  readonly #targets = new WeakMap<Endpoint, Map<string, Target>>()
  readonly #deadlines = new Deadlines()
  readonly #idle: IdleConnections
  readonly #tokens = new WeakMap<GoogleServiceAccount, GoogleToken>()
  #isClosed = false
  #usedUpReportedMs = Number.NEGATIVE_INFINITY

  constructor(options: UpstreamClientOptions) {
    this.#options = options
    this.#idle = new IdleConnections(options.tickMs)
  }

  /** Sends one request. Resolves as `UpstreamExchange.arrived` does; rejects only with UpstreamFailure. */
  send(request: UpstreamRequest): Promise<UpstreamExchange> {
    const { credential } = request.endpoint
    if (credential === undefined) return this.#send(request, '')
    if (credential.kind === 'aws_keys') return this.#send(request, this.#signatureLines(request, credential))
    return this.#sendWithToken(request, credential)
  }

  /**
   * A token that the server refuses is replaced once: it may have been revoked, or have ended while this machine slept.
   */
  async #sendWithToken(request: UpstreamRequest, account: GoogleServiceAccount): Promise<UpstreamExchange> {
    const token = this.#tokenOf(account)
    const text = await untilAborted(token.get(), request.signal)
    const exchange = await this.#send(request, bearerLine(text))
    if (exchange.head.status !== 401 || !token.replace(text)) return exchange
    exchange.release()
    return this.#send(request, bearerLine(await untilAborted(token.get(), request.signal)))
  }

  #signatureLines({ endpoint, path, body }: UpstreamRequest, keys: AwsKeys): string {
    const { epochMs } = this.#options.clock ?? systemClock
    const url = new URL(`${endpoint.baseUrl}${path}`)
    const headers = awsSignatureHeaders(keys, { method: 'POST', url, body, epochMs: epochMs() })
    return Object.entries(headers)
      .map(([name, value]) => `\r\n${name}: ${value}`)
      .join('')
  }

  #tokenOf(account: GoogleServiceAccount): GoogleToken {
    let token = this.#tokens.get(account)
    if (token === undefined) {
      token = new GoogleToken(account, this.#options.clock ?? systemClock)
      this.#tokens.set(account, token)
    }
    return token
  }

  /** @param lines more lines of the head, each after a line break */
  #send(request: UpstreamRequest, lines: string): Promise<UpstreamExchange> {
    const first = this.#start(request, lines, false)
    return first.arrived.then(onArrived, failure => {
      if (failure instanceof Cancelled && failure.reason === 'connections_used_up') this.#onUsedUp()
      if (!first.lostBeforeResponse) throw failure
      // The upstream was probably closing the idle connection, which says nothing about its health. Try once more
      // on a new connection.
      return this.#start(request, lines, true).arrived
    })
  }

  /** What the streams of the endpoint may parse together, in the units of `ParsingRate`. */
  parsingPool(request: UpstreamRequest): RatePool {
    return this.#target(request).connections.parsingPool
  }

  /** Closes all connections and fails their exchanges. Later requests fail without being sent. */
  close(): void {
    this.#isClosed = true
    for (const connections of this.#endpoints.values()) connections.close(new Cancelled('gateway_stopping', true))
  }

  #onUsedUp(): void {
    this.#idle.closeReady()
    const nowMs = performance.now()
    if (nowMs < this.#usedUpReportedMs + USED_UP_REPORT_MS) return
    this.#usedUpReportedMs = nowMs
    this.#options.onUsedUp?.()
  }

  #start(request: UpstreamRequest, lines: string, onNewConnection: boolean): UpstreamExchange {
    const { requestHeaders, body, stream } = request
    const exchange = new UpstreamExchange(request, this.#deadlines)
    try {
      if (request.signal.aborted) throw exchange.cancellation()
      if (this.#isClosed) throw new Cancelled('gateway_stopping', false)
      const { connections, wholeHead, streamHead } = this.#target(request)
      const own =
        requestHeaders === undefined ? lines : requestHeaders.reduce((all, line) => `${all}\r\n${line}`, lines)
      const text = `${stream ? streamHead : wholeHead}${Buffer.byteLength(body)}${own}\r\n\r\n${body}`
      connections.pool(request.customerId).send(text, exchange, onNewConnection)
    } catch (error) {
      exchange.onResponseError(error as Error)
    }
    return exchange
  }

  #target({ endpoint, path, headers, upstreamModel = '' }: UpstreamRequest): Target {
    let targets = this.#targets.get(endpoint)
    if (targets === undefined) {
      targets = new Map()
      this.#targets.set(endpoint, targets)
    }
    const agentModel = endpoint.transport === 'agent' ? upstreamModel : null
    const key = agentModel === null ? path : `${path} ${agentModel}`
    let target = targets.get(key)
    if (target === undefined || target.connections.isForgotten) {
      const { version } = this.#options
      const url = new URL(`${endpoint.baseUrl}${path}`)
      target = {
        connections: this.#connections(endpoint, agentModel),
        wholeHead: requestHead(url, endpoint, 'application/json', version, headers),
        streamHead: requestHead(url, endpoint, 'text/event-stream', version, headers),
      }
      targets.set(key, target)
    }
    return target
  }

  /** Returns the connections to one address with one key: after a change of either, they are others. */
  #connections(endpoint: Endpoint, agentModel: string | null): EndpointConnections | AgentConnections {
    const { endpointId, kind, egress, baseUrl, apiKey } = endpoint
    const key = JSON.stringify([endpointId, kind, egress, baseUrl, apiKey, agentModel])
    const known = this.#endpoints.get(key)
    if (known !== undefined) return known
    for (const [otherKey, other] of this.#endpoints) if (other.forgetIfUnused()) this.#endpoints.delete(otherKey)
    const onUnsolicited = () => this.#options.onUnsolicited?.(endpoint)
    const connections =
      agentModel === null
        ? new EndpointConnections(endpoint, this.#idle, this.#lookupFor(egress), onUnsolicited)
        : new AgentConnections(endpointId, agentModel, this.#agents(), this.#idle, onUnsolicited)
    this.#endpoints.set(key, connections)
    return connections
  }

  #agents(): Pick<AgentStock, 'take'> {
    const { agents } = this.#options
    if (!agents) throw new UpstreamFailure('connect_failed', 'No connections of agents are configured.')
    return agents
  }

  #lookupFor(egress: Endpoint['egress']): LookupFunction | undefined {
    const { publicLookup } = this.#options
    if (egress === 'any') return undefined
    if (!publicLookup) throw new UpstreamFailure('connect_failed', 'No lookup for public addresses is configured.')
    return publicLookup
  }
}

function onArrived(exchange: UpstreamExchange): UpstreamExchange {
  failpoint('upstream-headers')
  return exchange
}

const bearerLine = (token: string) => `\r\nauthorization: Bearer ${token}`

/** Waits for a token, at most until the request is aborted. */
async function untilAborted(token: string | Promise<string>, signal: UpstreamRequest['signal']): Promise<string> {
  if (typeof token === 'string' || signal.aborted) return token
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(new Cancelled(hasClientLeft(signal) ? 'client_left' : 'gateway_stopping', false))
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([token, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
