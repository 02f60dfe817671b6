import { randomUUIDv7 } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { errorBody } from '../dialects/error-body.ts'
import type { Caller } from '../domain/caller.ts'
import { ApiError } from '../domain/errors.ts'
import { http } from '../runtime/node-http.ts'
import { answerPreflight, corsHeaders } from './cors.ts'
import type { Endpoint, GenerationEndpoint, ReplyingEndpoint } from './endpoint.ts'
import type { GenerationResponse, GenerationRoute } from './generation-exchange.ts'
import type { Guard } from './guard.ts'
import { NodeRequest, NodeResponse } from './node-exchange.ts'
import { PlainDoor } from './plain/plain-door.ts'
import { HEAD_BYTES_MAX } from './plain/plain-request.ts'
import { requireHost } from './require-host.ts'
import { isFault, respondError, toApiError } from './respond-error.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the guard on endpoints that need a key. */
    caller: Caller | null
  }
}

export interface ServerOptions {
  readonly endpoints: readonly Endpoint[]
  readonly guard: Guard
  readonly log: FastifyBaseLogger
  /** A connection whose client takes nothing of what waits for it for so long is closed. */
  readonly slowReaderMs: number
  /**
   * How long a server that closes goes on answering on the connections it has, after it has stopped to listen; 0 unless given. A proxy whose
   * request crosses the end of a connection cannot know that nobody read it, and answers with a 502; one that cannot connect goes to another node.
   */
  readonly closingGraceMs?: number
  readonly onResponse?: (facts: { path: string; status: number; elapsedMs: number }) => void
}

/**
 * The HTTP server: one route per endpoint row, one guard in front of all but the chat, one renderer of errors. Time-outs and sizes are set
 * against slow and oversized senders.
 */
export function createServer(options: ServerOptions): FastifyInstance {
  const routes = options.endpoints.filter(isGeneration).map(endpoint => routeOf(endpoint, options.onResponse))
  const app = Fastify({
    serverFactory: answer => createNodeServer(bypassFastify(routes, answer)),
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUIDv7(),
    // A child logger for each request costs as much as parsing its body, and is used only when something fails.
    childLoggerFactory: logger => logger,
    // What arrives on kept connections while we close is refused in our own words.
    return503OnClosing: false,
    // No address is longer. At a longer parameter the router gives up before it has asked who calls.
    routerOptions: { maxParamLength: HEAD_BYTES_MAX },
    clientErrorHandler: answerUnparsable,
    frameworkErrors: (error, request, reply) => {
      // No hook has run: this is before routing.
      reply.header('x-request-id', request.id)
      respondError(reply, toApiError(error))
    },
  })
  // Handlers that take a body read it themselves, with `receiveBody`; what is not read Node throws away.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.decorateRequest('caller', null)

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    requireHost(request.raw)
    // Only browsers send an Origin; nobody else needs to be told.
    if (request.headers.origin !== undefined && request.url.startsWith('/v1/')) reply.headers(corsHeaders)
    // Not in a handler of its own, which comes after Fastify's look at the body: a QUERY without a type was an error of ours.
    if (request.is404) refuseAddress(options.endpoints, request, reply)
    done()
  })
  const onResponse = options.onResponse
  if (onResponse) {
    app.addHook('onResponse', (request, reply, done) => {
      onResponse({
        path: request.routeOptions.url ?? 'none',
        status: reply.raw.headersSent ? reply.raw.statusCode : LEFT_BEFORE_ANSWER,
        elapsedMs: reply.elapsedTime,
      })
      done()
    })
  }
  app.server.on('checkExpectation', refuseExpectation)
  const plainDoor = new PlainDoor(app.server, {
    routes,
    keepAliveMs: KEEP_ALIVE_MS,
    slowReaderMs: options.slowReaderMs,
  })
  app.addHook('preClose', async () => {
    await stopListening(app.server)
    const endMs = performance.now() + (options.closingGraceMs ?? 0)
    while (plainDoor.openCount > 0 && performance.now() < endMs) await delay(CLOSING_GRACE_CHECK_INTERVAL_MS)
    // Node's server does not know its connections, and waits for them to close.
    plainDoor.close()
  })
  app.setErrorHandler((thrown, request, reply) => {
    const error = toApiError(thrown)
    if (isFault(error))
      request.log.error({ requestId: request.id, err: error.internal ?? thrown, code: error.code }, 'request failed')
    respondError(reply, error)
  })

  for (const endpoint of options.endpoints.filter(isReplying)) {
    app.route({
      method: endpoint.method,
      url: endpoint.path,
      onRequest: options.guard.for(endpoint),
      handler: async (request, reply) =>
        endpoint.handle({ caller: request.caller as Caller, request, reply, requestId: request.id }),
    })
  }
  app.options('/v1/*', answerPreflight)
  return app
}

const CLOSING_GRACE_CHECK_INTERVAL_MS = 50

/** Under a flood there is no quiet moment. */
const QUIET_MS_MAX = 1_000

/**
 * Connections stay as they are, the ones that rest too: `http.Server.close` would end those. What waits in the kernel when the port is closed is reset,
 * requests and all, so everything that has come is accepted before: one in a turn of the event loop, and a turn without one has found nothing.
 */
async function stopListening(server: Server): Promise<void> {
  let hasAccepted = true
  const noteOne = () => {
    hasAccepted = true
  }
  server.on('connection', noteOne)
  // The rest of this turn, which may have looked before.
  await nextTurn()
  for (const endMs = performance.now() + QUIET_MS_MAX; hasAccepted && performance.now() < endMs; ) {
    hasAccepted = false
    await nextTurn()
  }
  server.off('connection', noteOne)
  NetServer.prototype.close.call(server)
}

function createNodeServer(listener: RequestListener) {
  return http.createServer(
    {
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAlive: true,
      keepAliveInitialDelay: PROBED_AFTER_MS,
      maxHeaderSize: HEAD_BYTES_MAX,
      connectionsCheckingInterval: 5_000,
      // Node would refuse such requests with an empty body; `requireHost` gives them one.
      requireHostHeader: false,
    },
    listener,
  )
}

/**
 * After so long a silence TCP asks whether the client is still there: one whose host is gone would otherwise wait for its whole answer, and pay for it,
 * for as long as that takes. It has ten seconds to answer. Streams are never silent for so long.
 */
const PROBED_AFTER_MS = 60_000

/** Above the idle time of common load balancers (60 s), so that the balancer, not we, closes idle connections. */
const KEEP_ALIVE_MS = 75_000

/**
 * Serves generation requests directly and everything else with Fastify: its routing, request and reply objects, hooks and body parser cost
 * 10 us of CPU per request, where the rest of the gateway costs 25.
 */
function bypassFastify(routes: readonly GenerationRoute[], answer: RequestListener): RequestListener {
  return (request, response) => {
    if (!request.url!.startsWith('/')) request.url = originForm(request.url!)
    // A base URL that ends in a slash: Portkey's SDK and version 3 of `openai` append the path to it.
    if (request.url!.startsWith('/v1//')) request.url = request.url!.replace('//', '/')
    const url = request.url!
    const route = routes.find(({ method, path }) => method === request.method && isAddressOf(url, path))
    if (route === undefined) answer(request, response)
    else route.serve(new NodeRequest(request), new NodeResponse(response))
  }
}

function routeOf(endpoint: GenerationEndpoint, onResponse: ServerOptions['onResponse']): GenerationRoute {
  const { method, path } = endpoint
  return {
    method,
    path,
    serve(request, response) {
      const startedMs = performance.now()
      response.onceClosed(() =>
        onResponse?.({ path, status: statusSent(response), elapsedMs: performance.now() - startedMs }),
      )
      void endpoint.serve(request, response)
    },
  }
}

/** The client left before the answer. The number is nginx's. */
const LEFT_BEFORE_ANSWER = 499

function statusSent(response: GenerationResponse): number {
  return response.statusSent ?? LEFT_BEFORE_ANSWER
}

/** RFC 9112, 3.2.2: a server has to take a whole URL, which is meant for proxies, as well. */
function originForm(target: string): string {
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest === target || rest.startsWith('/') ? rest : `/${rest}`
}

/** A query changes nothing of where a request goes. */
function isAddressOf(url: string, path: string): boolean {
  return url === path || (url[path.length] === '?' && url.startsWith(path))
}

const isGeneration = (endpoint: Endpoint): endpoint is GenerationEndpoint => 'serve' in endpoint
const isReplying = (endpoint: Endpoint): endpoint is ReplyingEndpoint => !isGeneration(endpoint)

function isAt(endpoint: Endpoint, path: string): boolean {
  if (endpoint.path.endsWith('*')) return path.startsWith(endpoint.path.slice(0, -1))
  const steps = path.split('/')
  const own = endpoint.path.split('/')
  return own.length === steps.length && own.every((step, at) => step.startsWith(':') || step === steps[at])
}

/** Fastify answers HEAD wherever there is a GET. */
function methodsOf({ method }: Endpoint): string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

/** Throws: an address that exists under another method is 405, everything else 404. */
function refuseAddress(endpoints: readonly Endpoint[], { method, url }: FastifyRequest, reply: FastifyReply): never {
  const path = url.split('?', 1)[0]!
  const allowed = endpoints.filter(endpoint => isAt(endpoint, path)).flatMap(methodsOf)
  if (allowed.length === 0) {
    throw new ApiError('not_found', {
      message: `There is nothing at ${method} ${printable(path)}. See /docs for the API.`,
    })
  }
  reply.header('allow', allowed.join(', '))
  throw new ApiError('method_not_allowed', {
    message: `${printable(path)} answers to ${allowed.join(', ')}, not to ${method}.`,
  })
}

function printable(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}...` : path
}

/** `Expect: 100-continue` is Node's to answer; any other expectation ends here (RFC 9110, 10.1.1), before Fastify. */
function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const refusal = new ApiError('invalid_header', {
    param: 'Expect',
    message: 'The only expectation that can be met is "Expect: 100-continue". Leave the header out.',
  })
  const body = errorBody(refusal)
  response.writeHead(refusal.row.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-request-id': randomUUIDv7(),
    // The body that may follow is not read.
    connection: 'close',
  })
  response.end(body)
}

/** Requests that Node's strict parser refuses never reach Fastify's routes: the answer is written to the socket. */
function answerUnparsable(error: Error & { code?: string }, socket: Socket): void {
  // More of a request that was refused. To close now, with bytes unread in the kernel, would send a reset, at which a proxy that still sends
  // throws the refusal away and takes this node for failed. `PlainDoor` closes the connection of a client that does not.
  if (socket.writableEnded && error.code !== 'ECONNRESET') return
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const refusal = new ApiError(unparsableCode(error.code))
  const body = errorBody(refusal)
  const { status } = refusal.row
  socket.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\nx-request-id: ${randomUUIDv7()}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
}

function unparsableCode(code: string | undefined) {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'request_timeout'
  return 'invalid_header'
}
