import { randomUUIDv7 } from 'node:crypto'
import type { Agent, ClientRequest, IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, pipeline } from 'node:stream'
import { ApiError } from '../../base/domain/errors.ts'
import { jsonHeaders } from '../../base/runtime/header-list.ts'
import type { Log } from '../../base/runtime/log.ts'
import { http } from '../../base/runtime/node-http.ts'
import type { CellDirectory, CellOfKey } from '../../identity/auth/cell-directory.ts'
import type { AllowedHosts } from '../allowed-hosts.ts'
import { connectedMsOf, hasArrived, isLastAnswer, noteRequest } from '../connection-bound.ts'
import { clientVendorOf, errorFormatOf } from '../error-format.ts'
import { normalisedTarget, type OnResponse } from '../generation-routes.ts'
import { normaliseGoogleTarget } from '../google-target.ts'
import type { InFlight } from '../in-flight.ts'
import { refuseUpgrade } from '../refuse-upgrade.ts'
import { errorHeaders, isFault, toApiError } from '../respond-error.ts'
import { cellHeader, relaysOf } from './cell-header.ts'
import { relayedAnswerHeaders, relayedRequestHeaders } from './relayed-headers.ts'

export interface CellRelayDeps {
  readonly directory: Pick<CellDirectory, 'find'>
  /** The gateways of the other cells, by name. */
  readonly peers: ReadonlyMap<string, URL>
  /** Shared by all cells. */
  readonly secret: string
  readonly allowedHosts: Pick<AllowedHosts, 'require'>
  readonly inFlight: InFlight
  readonly addressOf: (request: IncomingMessage) => string
  readonly onResponse: OnResponse
  readonly log: Pick<Log, 'error'>
}

/** A front, the cell that a customer has left, and the one it is in: a third pass would go in a circle. */
const RELAYS_MAX = 2
/** A proxy in front of the other cell answers at once, or its machine is gone. */
const CONNECT_MS_MAX = 5_000
/** The path under which relayed requests are counted. Their own cell counts them by endpoint. */
const COUNTED_AS = 'another cell'

/**
 * Passes requests with keys of other cells on to the gateways of their cell, as they are: every endpoint that takes the key
 * of a customer, streams and WebSockets. Only the configured addresses are ever connected to.
 */
export class CellRelay {
  readonly #deps: CellRelayDeps
  readonly #agents = new Map<string, Agent>()

  constructor(deps: CellRelayDeps) {
    this.#deps = deps
  }

  /** Whether this node is known to serve a request itself. False while that must be looked up. */
  isHere(rawHeaders: readonly string[]): boolean {
    const found = this.#deps.directory.find(rawHeaders)
    return !(found instanceof Promise) && found.kind === 'here'
  }

  /** Returns a listener that passes requests on, or to `next`. */
  listener(next: RequestListener): RequestListener {
    return (request, response) => {
      request.url = normalisedTarget(request.url ?? '')
      // Moves a key from the query to a header.
      normaliseGoogleTarget(request)
      if (!isOfCustomers(request.url)) return void next(request, response)
      const found = this.#deps.directory.find(request.rawHeaders)
      const serve = (place: CellOfKey) => {
        if (place.kind === 'here') next(request, response)
        else this.#relay(place, request, response)
      }
      if (found instanceof Promise) found.then(serve).catch(thrown => this.#refuse(thrown, request, response))
      else serve(found)
    }
  }

  /** Passes the request for a WebSocket on. Resolves with false when this node must serve it. */
  async upgrade(request: IncomingMessage, socket: Socket, head: Buffer): Promise<boolean> {
    try {
      const place = await this.#deps.directory.find(request.rawHeaders)
      if (place.kind === 'here') return false
      socket.on('error', () => socket.destroy())
      // Never answered: a relayed WebSocket makes no room for other connections.
      noteRequest(socket)
      this.#deps.allowedHosts.require(request)
      const upstream = this.#open(place, request, { connection: 'Upgrade', upgrade: 'websocket' })
      upstream.on('upgrade', (answer, peer, peerHead) => join(answer, peer, peerHead, socket, head))
      upstream.on('response', answer => {
        socket.write(headText(answer))
        pipeline(answer, socket, () => {})
      })
      upstream.on('error', error => refuseUpgrade(socket, this.#unreachable(place, error)))
      upstream.end()
    } catch (thrown) {
      refuseUpgrade(socket, toApiError(thrown))
    }
    return true
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy()
  }

  #relay(place: CellOfKey, request: IncomingMessage, response: ServerResponse): void {
    const { allowedHosts, inFlight, onResponse } = this.#deps
    const startedMs = performance.now()
    // The other cell has the share of its customers; here, all of a cell count together.
    const running = inFlight.open(`cell ${place.kind === 'elsewhere' ? place.cell : ''}`)
    response.once('close', () => {
      running.leave()
      onResponse({ path: COUNTED_AS, status: response.statusCode, elapsedMs: performance.now() - startedMs })
    })
    try {
      allowedHosts.require(request)
      const refusal = running.start(connectedMsOf(request.socket))
      if (refusal !== null) throw refusal
      const upstream = this.#open(place, request)
      running.signal.addEventListener('abort', () => upstream.destroy())
      response.once('close', () => upstream.destroy())
      upstream.on('response', answer => this.#answer(answer, request, response))
      upstream.on('error', error => {
        if (response.headersSent) response.destroy()
        else if (!response.destroyed) this.#refuse(this.#unreachable(place, error), request, response)
      })
      request.pipe(upstream)
    } catch (thrown) {
      this.#refuse(thrown, request, response)
    }
  }

  /** Opens a request like this one at the cell of its key. */
  #open(place: CellOfKey, request: IncomingMessage, headers: Record<string, string> = {}): ClientRequest {
    const { peers, secret, addressOf } = this.#deps
    if (place.kind !== 'elsewhere') throw new ApiError('database_unavailable', { message: MOVING })
    const peer = peers.get(place.cell)
    if (peer === undefined) throw this.#unreachable(place, new Error(`cells.peers does not have ${place.cell}`))
    const relays = relaysOf(request.rawHeaders, secret) + 1
    if (relays > RELAYS_MAX) throw this.#unreachable(place, new Error('cells pass this key on in a circle'))
    const relayed = relayedRequestHeaders(request.rawHeaders, {
      host: peer.host,
      cell: cellHeader(relays, secret),
      clientAddress: addressOf(request),
    })
    const upstream = moduleOf(peer).request({
      agent: this.#agentOf(peer),
      host: peer.hostname.replace(/^\[|\]$/g, ''),
      port: peer.port,
      method: request.method,
      path: request.url,
      headers: { ...relayed, ...headers },
    })
    limitConnecting(upstream)
    return upstream
  }

  #answer(answer: IncomingMessage, request: IncomingMessage, response: ServerResponse): void {
    const { statusCode: status = 502 } = answer
    const headers = relayedAnswerHeaders(answer.rawHeaders)
    if (this.#deps.inFlight.isClosing || isLastAnswer(status, request.socket, hasArrived(request)))
      headers.push('connection', 'close')
    response.writeHead(status, headers)
    pipeline(answer, response, () => {
      // The other cell may have answered before it read the whole body.
      request.unpipe()
      request.resume()
    })
  }

  #refuse(thrown: unknown, request: IncomingMessage, response: ServerResponse): void {
    const error = toApiError(thrown)
    const requestId = randomUUIDv7()
    if (isFault(error)) this.#deps.log.error({ requestId, err: error.internal ?? thrown }, 'request was not passed on')
    const { body, requestIdHeader } = errorFormatOf(request, clientVendorOf(request.headers))
    const text = body(error, requestId)
    const headers = [...jsonHeaders(text), ...Object.entries(errorHeaders(error)).flat(), 'x-request-id', requestId]
    if (requestIdHeader !== undefined) headers.push(requestIdHeader, requestId)
    response.writeHead(error.row.status, headers).end(text)
    request.resume()
  }

  #unreachable(place: CellOfKey, internal: Error): ApiError {
    const name = place.kind === 'elsewhere' ? place.cell : 'unknown'
    const message = 'The cell of this account cannot be reached, so the request cannot run. Retry later.'
    return new ApiError('database_unavailable', { message, internal: new Error(`cell ${name}`, { cause: internal }) })
  }

  #agentOf(peer: URL): Agent {
    const known = this.#agents.get(peer.origin)
    if (known !== undefined) return known
    const agent = new (moduleOf(peer).Agent)({ keepAlive: true })
    this.#agents.set(peer.origin, agent)
    return agent
  }
}

const MOVING = 'The account is moving to another cell; nothing was charged. Retry in a few seconds.'

/** The addresses that take keys of customers. */
function isOfCustomers(url: string): boolean {
  return /^\/v1(?:beta)?\//.test(url)
}

function moduleOf({ protocol }: URL): typeof http {
  return protocol === 'https:' ? (process.getBuiltinModule('node:https') as unknown as typeof http) : http
}

function limitConnecting(request: ClientRequest): void {
  request.once('socket', socket => {
    if (!socket.connecting) return
    const timer = setTimeout(() => socket.destroy(new Error(`no connection in ${CONNECT_MS_MAX} ms`)), CONNECT_MS_MAX)
    socket.once('connect', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
  })
}

/** Joins the sockets of a client and of the other cell, which has accepted the WebSocket. */
function join(answer: IncomingMessage, peer: Duplex, peerHead: Buffer, client: Duplex, head: Buffer): void {
  client.write(headText(answer, ['connection: Upgrade', 'upgrade: websocket']))
  client.write(peerHead)
  peer.write(head)
  pipeline(peer, client, peer, () => {})
}

function headText(
  { statusCode, rawHeaders }: IncomingMessage,
  lines: readonly string[] = ['connection: close'],
): string {
  const kept = relayedAnswerHeaders(rawHeaders)
  const fields = kept.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${kept[i + 1]}`] : []))
  return `HTTP/1.1 ${statusCode} Relayed\r\n${[...fields, ...lines].join('\r\n')}\r\n\r\n`
}
