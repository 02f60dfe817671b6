import type { IncomingMessage } from 'node:http'
import { transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { AgentServer } from '../../http/agents/agent-server.ts'
import { readAgentHoster, serveKeysInUse } from '../../market/marketplace/agent-hosters.ts'
import { passAgentChallenge } from '../../market/marketplace/pass-agent-challenge.ts'
import { listLiveNodes } from '../../money/ledger/leases/list-live-nodes.ts'
import { earnedToday } from '../../money/payouts/earnings.ts'
import type { Callers } from './callers.ts'
import { clientAddress } from './client-trace.ts'
import type { ComposeContext } from './compose-context.ts'
import { connectionsMax } from './connections-max.ts'
import type { Database } from './database.ts'
import type { Marketplace } from './marketplace.ts'
import type { Money } from './money.ts'
import type { Service } from './service.ts'
import type { Supply } from './supply.ts'

interface AgentParts {
  readonly database: Database
  readonly money: Money
  readonly supply: Supply
  readonly callers: Callers
  readonly marketplace: Marketplace
  readonly service: Service
}

/**
 * Creates the server for the agents of hosters. Changes of keys, hosters and prices reach connected agents within two
 * seconds.
 */
export function createAgentServer(
  { config, clock, timeouts, log }: ComposeContext,
  {
    database: { lookups, general },
    money: { node },
    supply: { catalog, agents },
    callers: { changes, onSupplyRead },
    marketplace: { authenticator },
    service: { allowedHosts },
  }: AgentParts,
): AgentServer {
  const server = new AgentServer({
    directory: {
      async authenticate(rawHeaders) {
        const { hosterId, keyId } = await authenticator.authenticate(rawHeaders, 'serve')
        return { hosterId, keyId: keyId! }
      },
      keysInUse: keyIds => serveKeysInUse(lookups, keyIds),
      hosterOf: hosterId => readAgentHoster(lookups, hosterId).catch(refuseOutage),
      onServing: endpointId => transaction(general, sql => passAgentChallenge(sql, endpointId, clock.epochMs())),
      offersAt: catalog.pricedAt,
      earningsOf: hosterId => earnedToday(lookups, hosterId, clock.epochMs()),
      liveNodes: () => listLiveNodes(lookups).catch(refuseOutage),
    },
    stock: agents,
    allowedHosts,
    nodeId: () => node.nodeId,
    addressOf: (request: IncomingMessage) => clientAddress(config, request),
    epochMs: () => clock.epochMs(),
    connectionsMax: connectionsMax(config),
    log,
    ...(timeouts.agentPingMs !== undefined && { pingMs: timeouts.agentPingMs }),
    ...(timeouts.agentReportMs !== undefined && { reportMs: timeouts.agentReportMs }),
  })
  changes.onChange('access', () => server.onAccessChange())
  onSupplyRead(() => server.onSupplyChange())
  return server
}
