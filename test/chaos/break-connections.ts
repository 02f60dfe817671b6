import { setTimeout as delay } from 'node:timers/promises'
import type { FaultProxy } from '../harness/fault-proxy.ts'
import { eventually } from './eventually.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n

/** The ways a network breaks, each done to the proxies of two nodes under load. */
export const networkFaults: Readonly<Record<string, (proxy: FaultProxy, times: number) => Promise<void>>> = {
  'cut again and again': async (proxy, times) => {
    for (let i = 0; i < times; i++) {
      proxy.cutOnce()
      await delay(150)
    }
  },
  'cut in the middle of answers': async (proxy, times) => {
    // A handshake is some 400 bytes, the answer to a settlement some 100: so the cut falls into each of them.
    for (let i = 0; i < times; i++) await Promise.race([proxy.cutAfter((i * 67) % 1_009), delay(1_000)])
  },
  'slow and thin': async (proxy, times) => {
    proxy.slow({ latencyMs: 100, bytesPerSecond: 50_000 })
    await delay(times * 250)
  },
  'standing still': async (proxy, times) => {
    proxy.stall()
    await delay(times * 250)
  },
  'swallowing new connections': async (proxy, times) => {
    proxy.blackHole()
    await delay(times * 250)
  },
}

/** Breaks the way of two nodes to PostgreSQL under load, `times` over, and heals it. */
export function breakConnections(fault: string, times: number): Scenario {
  return {
    name: `connections ${fault}`,
    async run(world) {
      const names = ['a', 'b']
      const nodes = await Promise.all(names.map(name => world.running(name)))
      const customers = await Promise.all([200n * USD, 5n * USD].map(usd => world.openCustomer(usd)))
      const enough = new AbortController()
      const load = runLoad({
        nodes: () => nodes,
        customers,
        workers: 6,
        requestsMax: 2_000,
        random: seededRandom(times),
        signal: enough.signal,
      })
      let healedMs: number
      try {
        await delay(300)
        await Promise.all(names.map(name => networkFaults[fault]!(world.proxy(name), times)))
        for (const name of names) world.proxy(name).pass()
        const healed = nodes.map(node =>
          eventually(`${node.name} serves again`, async () => (await sendChat(node, customers[0]!)).ending === 'whole'),
        )
        healedMs = Math.max(...(await Promise.all(healed)))
      } finally {
        enough.abort()
        for (const name of names) world.proxy(name).pass()
      }
      const sent = await load
      const whole = sent.filter(({ ending }) => ending === 'whole').length
      return {
        customers,
        problems: [],
        note: `${whole} of ${sent.length} answered whole, again after ${Math.round(healedMs)} ms`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}
