import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocketServer } from 'ws'
import { ApiError } from '../../base/domain/errors.ts'
import { headerValues } from '../../base/runtime/header-list.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Authenticator } from '../../identity/auth/authenticator.ts'
import type { AllowedHosts } from '../allowed-hosts.ts'
import { noteAnswered, noteRequest } from '../connection-bound.ts'
import { normalisedTarget } from '../generation-routes.ts'
import { Liveness } from '../liveness.ts'
import { NodeRequest } from '../node-exchange.ts'
import { refuseUpgrade } from '../refuse-upgrade.ts'
import { readRoutingHeaders } from '../request-headers.ts'
import { isFault, toApiError } from '../respond-error.ts'
import { closeCodes, ResponseSession, type SessionDeps } from './response-session.ts'
import { SocketBounds } from './socket-bounds.ts'

export interface ResponseSocketServerDeps {
  readonly session: SessionDeps
  readonly authenticate: Authenticator['authenticate']
  readonly allowedHosts: Pick<AllowedHosts, 'require'>
  /** Of this node, for clients and agents together. */
  readonly connectionsMax: number
  readonly log: Pick<Log, 'error'>
  /** How long a connection lives. Default: 60 minutes, as at OpenAI. */
  readonly lifetimeMs?: number
}

const LIFETIME_MS = 3_600_000
/** Shorter than the time after which proxies close silent connections. */
const PING_MS = 20_000
/** Some clients ping every second. */
const PINGS_MAX = 64
const CHECK_INTERVAL_MS = 1_000
/**
 * Each frame of a message takes memory of its own until the message is complete. Some clients send frames of 4 KiB: 16
 * MiB of them.
 */
const FRAMES_MAX = 4_096

/** Accepts the WebSockets of `/v1/responses`. node:http passes it the requests of `isResponsesTarget`, and no others. */
export class ResponseSocketServer {
  readonly #deps: ResponseSocketServerDeps
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // A few kilobytes would inflate to the body limit, in memory that nobody counts. POST takes no compressed bodies either.
    perMessageDeflate: false,
    autoPong: false,
    // `IncomingBytes` limits messages: the library would close without an error event.
    maxPayload: 0,
    maxFragments: FRAMES_MAX,
  })
  readonly #sessions = new Set<ResponseSession>()
  readonly #bounds: SocketBounds
  readonly #liveness = new Liveness({ intervalMs: PING_MS, pingsMax: PINGS_MAX, mustAnswer: false })
  readonly #timer: NodeJS.Timeout
  #isDraining = false

  constructor(deps: ResponseSocketServerDeps) {
    this.#deps = deps
    this.#bounds = new SocketBounds(deps.connectionsMax, customerId => this.#closeIdle(customerId))
    this.#timer = setInterval(() => this.#check(performance.now()), CHECK_INTERVAL_MS).unref()
    this.#server.on('wsClientError', ({ message }, socket) => {
      refuseUpgrade(socket, new ApiError('invalid_header', { message: `${message}.` }), {
        'sec-websocket-version': '13',
      })
    })
  }

  /** The number of open WebSockets. */
  get count(): number {
    return this.#sessions.size
  }

  /** Handles the 'upgrade' event of the server. Always answers. */
  async accept(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    // The library adds its own listener later.
    socket.on('error', ignore)
    noteRequest(socket)
    try {
      await this.#accept(request, socket, head)
    } catch (thrown) {
      const error = toApiError(thrown)
      if (isFault(error)) this.#deps.log.error({ err: error.internal ?? thrown }, 'a WebSocket was refused')
      refuseUpgrade(socket, error)
    } finally {
      // From here on the connection counts as silent, unless it serves a response.
      noteAnswered(socket)
    }
  }

  /** Takes no more connections. Each ends after the responses that run on it. */
  drain(): void {
    this.#isDraining = true
    for (const session of this.#sessions) session.closeWhenIdle(closeCodes.goingAway)
  }

  /** Closes all connections. */
  close(): void {
    this.#isDraining = true
    clearInterval(this.#timer)
    this.#liveness.stop()
    for (const session of this.#sessions) {
      session.close(closeCodes.goingAway)
      setImmediate(() => session.terminate())
    }
  }

  async #accept(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const { authenticate, allowedHosts, session: deps } = this.#deps
    if (this.#isDraining) throw new ApiError('server_shutdown')
    allowedHosts.require(request)
    const { customerId } = await authenticate(request.rawHeaders)
    const handshake = new NodeRequest(request)
    readRoutingHeaders(handshake.switchyardHeaders ?? [])
    if (headerValues(request.rawHeaders, 'idempotency-key').length > 0) {
      throw new ApiError('invalid_header', {
        param: 'Idempotency-Key',
        message: 'A WebSocket carries many requests, so its handshake takes no Idempotency-Key. Use POST for it.',
      })
    }
    const end = this.#bounds.add(customerId)
    if (socket.destroyed) return end()
    socket.once('close', end)
    this.#server.handleUpgrade(request, socket, head, websocket => {
      this.#liveness.watch(websocket)
      const session = new ResponseSession(deps, { websocket, socket, handshake, customerId }, performance.now())
      this.#sessions.add(session)
      websocket.once('close', () => this.#sessions.delete(session))
    })
  }

  #check(nowMs: number): void {
    const oldestMs = nowMs - (this.#deps.lifetimeMs ?? LIFETIME_MS)
    for (const session of this.#sessions) {
      session.checkArrival(nowMs)
      if (session.openedMs <= oldestMs) {
        session.closeWhenIdle(closeCodes.normal, new ApiError('websocket_connection_limit_reached'))
      }
    }
  }

  /** Closes the WebSocket of a customer that has been silent for longest. */
  #closeIdle(customerId: string): boolean {
    const idle = [...this.#sessions].filter(session => session.customerId === customerId && session.isIdle)
    const oldest = idle.sort((a, b) => a.lastUsedMs - b.lastUsedMs)[0]
    oldest?.close(closeCodes.tryLater)
    return oldest !== undefined
  }
}

function ignore(): void {}

/** Whether a request asks for a WebSocket of responses. Called for requests with an Upgrade header only. */
export function isResponsesTarget({ method, url = '', headers }: IncomingMessage): boolean {
  if (method !== 'GET' || headers.upgrade?.toLowerCase() !== 'websocket') return false
  const [path] = normalisedTarget(url).split('?', 1)
  return path === '/v1/responses'
}
