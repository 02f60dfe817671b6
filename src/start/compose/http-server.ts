import type { FastifyInstance } from 'fastify'
import type { AgentServer } from '../../http/agents/agent-server.ts'
import type { CellRelay } from '../../http/cells/cell-relay.ts'
import { consolePages } from '../../http/console/console-pages.ts'
import { forSession } from '../../http/console/for-session.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { docs } from '../../http/endpoints/docs.ts'
import { openapi } from '../../http/endpoints/openapi.ts'
import { forOperatorKeys } from '../../http/endpoints/operator/for-operator-keys.ts'
import { startPage } from '../../http/endpoints/start-page.ts'
import { createGuard } from '../../http/guard.ts'
import { forHosterMembers } from '../../http/hosters/hoster-endpoint.ts'
import type { ResponseSocketServer } from '../../http/response-sockets/response-socket-server.ts'
import { createServer } from '../../http/server.ts'
import { createMinuteLimiter } from '../../request/limits/minute-limiter.ts'
import type { Callers } from './callers.ts'
import type { ComposeContext } from './compose-context.ts'
import { connectionsMax } from './connections-max.ts'
import type { Console } from './console.ts'
import type { Marketplace } from './marketplace.ts'
import type { Money } from './money.ts'
import type { Operator } from './operator.ts'
import type { Service } from './service.ts'

/** How long a report waits for charges. A report answers without them when PostgreSQL is slow. */
const COMMIT_WAIT_MS = 1_000

interface ServerParts {
  readonly money: Money
  readonly callers: Callers
  readonly marketplace: Marketplace
  readonly operator: Operator
  readonly service: Service
  readonly consoleParts: Console
  readonly features: readonly { readonly endpoints: readonly Endpoint[] }[]
  readonly agentServer: AgentServer
  readonly responseSockets: ResponseSocketServer
  /** Undefined: the installation is not one of several cells. */
  readonly cellRelay: CellRelay | undefined
}

/**
 * Creates the HTTP server for the endpoints of all features and the API documentation. The caller makes it
 * listen.
 */
export function createHttpServer(
  { config, clock, timeouts, log, started }: ComposeContext,
  {
    money: { ledger },
    callers: { authenticator },
    marketplace: { authenticator: hosterAuthenticator },
    operator: { keys: operatorKeys },
    service: { metrics, allowedHosts },
    consoleParts,
    features,
    agentServer,
    responseSockets,
    cellRelay,
  }: ServerParts,
): FastifyInstance {
  const endpoints: Endpoint[] = [
    ...features.flatMap(feature => feature.endpoints),
    ...forSession(features.flatMap(feature => feature.endpoints)),
    ...forOperatorKeys(features.flatMap(feature => feature.endpoints)),
    ...forHosterMembers(features.flatMap(feature => feature.endpoints)),
    ...consoleParts.endpoints,
    ...consolePages(),
    openapi({ endpoints: () => endpoints }),
    ...docs(),
    startPage({ publicBaseUrl: config.server.publicBaseUrl }),
  ]
  const server = createServer({
    endpoints,
    guard: createGuard({
      authenticator,
      hosterAuthenticator,
      operatorKeys,
      consoleGuard: consoleParts.guard,
      limiter: createMinuteLimiter({
        requestsPerMinute: config.reports.requestsPerMinute,
        clock,
      }),
      committed: customerId => ledger.committed(customerId, COMMIT_WAIT_MS),
    }),
    allowedHosts,
    log,
    connectionsMax: connectionsMax(config),
    slowReaderMs: timeouts.slowReaderMs ?? 30_000,
    closingGraceMs: timeouts.closingGraceMs ?? 1_000,
    onResponse: metrics.request,
    onError: metrics.refusal,
    agentServer,
    responseSockets,
    cellRelay,
  })
  started.defer(() => server.close())
  started.defer(() => consoleParts.watch.stop())
  return server
}
