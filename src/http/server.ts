import { randomUUIDv7 } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import type { Caller } from '../base/domain/caller.ts'
import type { ErrorCode } from '../base/domain/errors.ts'
import type { HosterCaller } from '../base/domain/hoster-access.ts'
import { NO_SNIFFING } from '../base/runtime/header-list.ts'
import type { SignedIn } from '../identity/people/sessions.ts'
import { type AgentServer, isAgentTarget } from './agents/agent-server.ts'
import type { AllowedHosts } from './allowed-hosts.ts'
import type { CellRelay } from './cells/cell-relay.ts'
import { noteRequests } from './connection-bound.ts'
import { ConnectionWatch } from './connection-watch.ts'
import { allowFiles, sendConsole, wantsPage } from './console/console-pages.ts'
import { answerPreflight, corsHeaders } from './cors.ts'
import type { Endpoint, ReplyingEndpoint } from './endpoint.ts'
import type { GenerationRoute } from './generation-exchange.ts'
import {
  bypassFastify,
  CLIENT_CLOSED_REQUEST,
  generationRoutes,
  isGeneration,
  type OnResponse,
} from './generation-routes.ts'
import type { Guard } from './guard.ts'
import { InputTurns } from './input-turns.ts'
import { createNodeServer, HEAD_BYTES_MAX, KEEP_ALIVE_MS } from './node-server.ts'
import { PlainServer } from './plain/plain-server.ts'
import { addressRefusal } from './refuse-address.ts'
import { refuseExpectation } from './refuse-expectation.ts'
import { refuseUnparsable } from './refuse-unparsable.ts'
import { isFault, respondError, toApiError } from './respond-error.ts'
import { isResponsesTarget, type ResponseSocketServer } from './response-sockets/response-socket-server.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the guard on endpoints that need a key. */
    caller: Caller | null
    /** Set by the guard on endpoints of a hoster. */
    hoster: HosterCaller | null
  }
  interface FastifyInstance {
    /** Closes the port and goes on serving the open connections until they are gone, for `closingGraceMs` at most. Once. */
    lastCall(): Promise<void>
  }
}

export interface ServerOptions {
  readonly endpoints: readonly Endpoint[]
  readonly guard: Guard
  readonly allowedHosts: AllowedHosts
  readonly log: FastifyBaseLogger
  /** At this number of open connections, a new one replaces a silent one. */
  readonly connectionsMax: number
  /** A client that reads none of its pending bytes for this long is disconnected. */
  readonly slowReaderMs: number
  /**
   * How long a closing server still serves open connections after it has stopped listening. Default 0. If
   * the connection closes under a request, a proxy cannot know that the request was never read, and answers
   * 502. A proxy that cannot connect tries another node.
   */
  readonly closingGraceMs?: number
  readonly onResponse?: OnResponse
  /** Called for each error that a client gets, other than those of generation endpoints. */
  readonly onError?: (code: ErrorCode) => void
  /** Accepts the connections of hosters' agents. Without it, their addresses do not exist. */
  readonly agentServer?: Pick<AgentServer, 'accept' | 'close'>
  /** Accepts the WebSockets of `/v1/responses`. Without it, requests for one are served as requests without. */
  readonly responseSockets?: Pick<ResponseSocketServer, 'accept' | 'close'>
  /** Passes requests with keys of other cells on. Without it, there are none. */
  readonly cellRelay?: CellRelay | undefined
}

/**
 * Creates the HTTP server: one route per endpoint, one guard for all endpoints except generation, and one
 * renderer of errors.
 */
export function createServer(options: ServerOptions): FastifyInstance {
  const { cellRelay } = options
  const routes = generationRoutes(options.endpoints, options.onResponse)
  const app = createApp(options, routes)
  const connections = new ConnectionWatch(app.server, {
    slowReaderMs: options.slowReaderMs,
    connectionsMax: options.connectionsMax,
    // To serve everything through node:http, delete this element, its import and src/http/plain/.
    servers: [
      new PlainServer(app.server, {
        routes,
        keepAliveMs: KEEP_ALIVE_MS,
        isHere: cellRelay && (rawHeaders => cellRelay.isHere(rawHeaders)),
      }),
    ],
  })
  app.server.on('upgrade', async (request, socket: Socket, head) => {
    if (isResponsesTarget(request) && (await cellRelay?.upgrade(request, socket, head))) return
    await webSocketServerOf(request, options)?.accept(request, socket, head)
  })
  let lastCall: Promise<void> | undefined
  app.decorate('lastCall', () => {
    lastCall ??= serveLast(app.server, connections, options.closingGraceMs ?? 0)
    return lastCall
  })
  app.addHook('preClose', async () => {
    await app.lastCall()
    options.agentServer?.close()
    options.responseSockets?.close()
    connections.close()
    cellRelay?.close()
  })
  return app
}

const CLOSING_GRACE_CHECK_INTERVAL_MS = 50

/** See `FastifyInstance.lastCall`. */
async function serveLast(server: Server, connections: ConnectionWatch, graceMs: number): Promise<void> {
  await stopListening(server)
  const endMs = performance.now() + graceMs
  while (connections.openCount > 0 && performance.now() < endMs) await delay(CLOSING_GRACE_CHECK_INTERVAL_MS)
}

/** Returns the server of the WebSocket that a request asks for. Undefined: the request is served without an upgrade. */
function webSocketServerOf(
  request: IncomingMessage,
  { agentServer, responseSockets }: ServerOptions,
): Pick<AgentServer, 'accept'> | undefined {
  if (isAgentTarget(request)) return agentServer
  return isResponsesTarget(request) ? responseSockets : undefined
}

function createApp(options: ServerOptions, routes: readonly GenerationRoute[]): FastifyInstance {
  const inputTurns = new InputTurns()
  const relayed = (listener: RequestListener) => options.cellRelay?.listener(listener) ?? listener
  const app = Fastify({
    serverFactory: listener =>
      inputTurns.attach(
        createNodeServer(
          inputTurns.noteRequests(noteRequests(closeUnreadChunks(relayed(bypassFastify(routes, listener))))),
          request => webSocketServerOf(request, options) !== undefined,
        ),
      ),
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUIDv7(),
    // A child logger for each request costs as much as parsing its body, and is used only when something fails.
    childLoggerFactory: logger => logger,
    // The endpoints of a closing gateway refuse requests themselves, with errors of the error table.
    return503OnClosing: false,
    // No address is longer. The router answers a request with a longer parameter before the guard runs.
    routerOptions: { maxParamLength: HEAD_BYTES_MAX },
    clientErrorHandler: (error, socket) => refuseUnparsable(error, socket, inputTurns.headStartOf(socket)),
    frameworkErrors: (error, request, reply) => {
      // Fastify reports these before routing, so no hook has set the header.
      reply.header('x-request-id', request.id).headers(NO_SNIFFING)
      respondError(reply, toApiError(error))
    },
  })
  // Handlers read their own bodies with `receiveBody`; node:http discards an unread body.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.decorateRequest('caller', null)
  app.decorateRequest('hoster', null)
  app.decorateRequest('signedIn', null)
  allowFiles(app)
  app.server.on('checkExpectation', refuseExpectation)
  addHooks(app, options)
  for (const endpoint of options.endpoints) if (!isGeneration(endpoint)) addRoute(app, endpoint, options.guard)
  app.options('/v1/*', answerPreflight)
  app.options('/v1beta/*', answerPreflight)
  return app
}

function addHooks(app: FastifyInstance, { endpoints, allowedHosts, onResponse, onError }: ServerOptions): void {
  const refuseAddress = addressRefusal(endpoints)
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id).headers(NO_SNIFFING)
    allowedHosts.require(request.raw)
    // Only browsers send an Origin, and only they need these headers.
    if (request.headers.origin !== undefined && /^\/v1(?:beta)?\//.test(request.url)) reply.headers(corsHeaders)
    // A not-found handler would run after Fastify's content-type check, which turned a QUERY request without a
    // type into an internal error.
    if (request.is404) {
      if (wantsPage(request)) return void reply.code(404).send(sendConsole(request, reply))
      refuseAddress(request, reply)
    }
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    onResponse?.({
      path: request.routeOptions.url ?? 'none',
      status: reply.raw.headersSent ? reply.raw.statusCode : CLIENT_CLOSED_REQUEST,
      elapsedMs: reply.elapsedTime,
    })
    done()
  })
  app.setErrorHandler((thrown, request, reply) => {
    const error = toApiError(thrown)
    onError?.(error.code)
    if (isFault(error)) {
      const cause = error.internal ?? thrown
      request.log.error({ requestId: request.id, err: cause, code: error.code }, 'request failed')
    }
    respondError(reply, error)
  })
}

function addRoute(app: FastifyInstance, endpoint: ReplyingEndpoint, guard: Guard): void {
  app.route({
    method: endpoint.method,
    url: endpoint.path,
    onRequest: guard.for(endpoint),
    handler: async (request, reply) =>
      endpoint.handle({
        caller: request.caller as Caller,
        hoster: request.hoster as HosterCaller,
        signedIn: request.signedIn as SignedIn,
        request,
        reply,
        requestId: request.id,
      }),
  })
}

/**
 * Stops reading a request that was answered before its chunked body ended. node:http would read and discard the rest
 * for up to 30 seconds, and small chunks cost far more CPU than other bytes. The client has the time of
 * `ConnectionWatch` to close its side. The rest of a body with a Content-Length is read, because a proxy that still
 * sends may count a reset as a failure of this node.
 */
function closeUnreadChunks(listener: RequestListener): RequestListener {
  return (request, response) => {
    if (request.headers['transfer-encoding'] !== undefined) {
      response.once('finish', () => {
        // node:http resumes the socket in this turn.
        if (!request.complete) setImmediate(endUnread, request.socket)
      })
    }
    listener(request, response)
  }
}

function endUnread(socket: Socket): void {
  socket.pause()
  socket.end()
}

/** The longest wait for a quick turn without a new connection: under constant load there is none. */
const ACCEPTING_MS_MAX = 1_000
/** During a longer turn, other clients may have connected. */
const QUICK_TURN_MS = 0.2

/**
 * Closes the port and keeps all connections, including idle ones, which `http.Server.close` would close.
 * Closing the port resets connections that wait in the kernel's accept queue, so they are accepted first: node
 * accepts one per turn of the event loop, and a quick turn without one proves that the queue is empty.
 */
async function stopListening(server: Server): Promise<void> {
  let hasAccepted = false
  const onConnection = () => {
    hasAccepted = true
  }
  server.on('connection', onConnection)
  // The current turn may have polled the queue already.
  await nextTurn()
  for (const endMs = performance.now() + ACCEPTING_MS_MAX; performance.now() < endMs; ) {
    hasAccepted = false
    const turnMs = performance.now()
    await nextTurn()
    if (!hasAccepted && performance.now() - turnMs < QUICK_TURN_MS) break
  }
  server.off('connection', onConnection)
  NetServer.prototype.close.call(server)
}
