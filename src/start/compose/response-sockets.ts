import { type GenerationDeps, serveGeneration } from '../../http/endpoints/generation-endpoint.ts'
import { createWarmUp } from '../../http/response-sockets/create-warm-up.ts'
import { KeptResponses } from '../../http/response-sockets/kept-responses.ts'
import { ResponseSocketServer } from '../../http/response-sockets/response-socket-server.ts'
import { createMinuteLimiter } from '../../request/limits/minute-limiter.ts'
import type { ResponsesDialect } from '../../wire/dialects/responses/responses-dialect.ts'
import type { ComposeContext } from './compose-context.ts'
import { connectionsMax } from './connections-max.ts'
import type { Service } from './service.ts'
import type { Supply } from './supply.ts'

/** Creates the server of the WebSockets of `/v1/responses`. It serves each request as the endpoint does. */
export function createResponseSockets(
  { config, clock, timeouts, log }: ComposeContext,
  { service, supply }: { readonly service: Service; readonly supply: Supply },
  deps: GenerationDeps,
  dialect: ResponsesDialect,
): ResponseSocketServer {
  const hasModel = (id: string) => supply.catalog.current().models.has(id)
  const { requestsPerMinute } = config.reports
  const limiter = createMinuteLimiter({ requestsPerMinute, clock })
  const warmUpDeps = { ...deps, complete: createWarmUp({ hasModel, limiter, epochMs: () => clock.epochMs() }) }
  return new ResponseSocketServer({
    session: {
      dialect,
      serve: (turn, request, response) => serveGeneration(deps, turn, request, response),
      warmUp: (turn, request, response) => serveGeneration(warmUpDeps, turn, request, response),
      inFlight: deps.inFlight,
      bodyTurns: deps.bodyTurns,
      bodyLimitBytes: deps.bodyLimitBytes,
      kept: new KeptResponses(service.memory),
      onResponse: service.metrics.request,
    },
    authenticate: deps.authenticate,
    allowedHosts: deps.allowedHosts,
    connectionsMax: connectionsMax(config),
    log,
    ...(timeouts.responseSocketMs !== undefined && { lifetimeMs: timeouts.responseSocketMs }),
  })
}
