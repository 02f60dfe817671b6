import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { standardQuirks, standardTimeouts } from '../../src/base/domain/endpoint-defaults.ts'
import type { Endpoint } from '../../src/base/domain/offer.ts'
import { AgentServer, isAgentTarget } from '../../src/http/agents/agent-server.ts'
import { createNodeServer } from '../../src/http/node-server.ts'
import { AgentStock } from '../../src/wire/upstreams/agents/agent-stock.ts'
import { UpstreamClient } from '../../src/wire/upstreams/upstream-client.ts'

/** The gateway's side of the transport alone: the door for agents and the client, without accounts and ledger. */
export async function startGatewaySide() {
  const stock = new AgentStock()
  const door = new AgentServer({
    directory: {
      authenticate: async () => ({ hosterId: 'hoster', keyId: 'key' }),
      keysInUse: async ids => new Set(ids),
      hosterOf: async () => ({ name: 'bench', state: 'active', ownerIds: [], endpointIds: ['endpoint'] }),
      async onServing() {},
      offersAt: () => [],
      earningsOf: async () => ({ todayNanos: 0n, totalNanos: 0n }),
      liveNodes: async () => ['node'],
    },
    stock,
    allowedHosts: { require() {} },
    nodeId: () => 'node',
    addressOf: (request: IncomingMessage) => request.socket.remoteAddress ?? '',
    epochMs: Date.now,
    connectionsMax: 16_384,
    log: { info() {}, warn() {}, error() {} },
  })
  const server = createNodeServer((_request, response) => response.end(), isAgentTarget)
  server.on('upgrade', (request, socket, head) => void door.accept(request, socket as Socket, head))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = new UpstreamClient({ version: 'bench', agents: stock })
  return {
    stock,
    client,
    port: (server.address() as AddressInfo).port,
    close() {
      client.close()
      door.close()
      server.close()
    },
  }
}

export function benchEndpoint(baseUrl: string, transport?: 'agent'): Endpoint {
  return {
    endpointId: transport === 'agent' ? 'endpoint' : 'direct',
    kind: 'local',
    hosterId: null,
    name: 'bench',
    baseUrl,
    apiKey: null,
    dialect: standardQuirks,
    timeouts: standardTimeouts,
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
    ...(transport && { transport }),
  }
}
