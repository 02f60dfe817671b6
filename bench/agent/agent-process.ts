import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { dial } from '../../src/market/agent/dial.ts'
import { RequestServer } from '../../src/market/agent/request-server.ts'
import { runAgent } from '../../src/market/agent/run-agent.ts'
import { Slots } from '../../src/market/agent/slots.ts'
import { UpstreamServer } from '../../src/market/agent/upstream.ts'
import { Mux } from './mux.ts'

// The agent of the benchmark: the real one, or one that receives all requests over one WebSocket.

const [shape, gateway, baseUrl] = process.argv.slice(2) as [string, string, string]
const SLOTS = 512

if (shape === 'per request') {
  runAgent(
    {
      gateways: [gateway],
      key: 'key',
      endpoint: null,
      upstream: { baseUrl, key: null },
      models: null,
      slots: SLOTS,
      slotsPerModel: SLOTS,
      hours: [],
      tokensPerMinute: null,
      pauseCommand: null,
      powerLimitWatts: null,
    },
    { version: 'bench', clock: systemClock, random: Math.random, report() {} },
  )
} else {
  const server = new RequestServer({
    upstream: new UpstreamServer({ baseUrl, key: null }),
    slots: new Slots(SLOTS, SLOTS, () => {}),
    isAnnounced: () => true,
    refusal: () => null,
    onTokens() {},
  })
  const dialled = await dial({ gateway, path: '/', key: 'key', agentId: 'bench' })
  if (dialled.kind === 'refused') throw new Error(dialled.message)
  new Mux(dialled.socket, stream => server.serve(stream))
  dialled.socket.resume()
}

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send!({ cpuMs: (user + system) / 1000 })
})
