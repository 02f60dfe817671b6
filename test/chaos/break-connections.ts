import { setTimeout as delay } from 'node:timers/promises'
import type { FaultProxy } from '../harness/fault-proxy.ts'
import { loadTwoNodes } from './load-two-nodes.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'

/** Network faults, each applied to the proxies of two nodes under load. */
export const networkFaults: Readonly<Record<string, (proxy: FaultProxy, times: number) => Promise<void>>> = {
  'cut repeatedly': async (proxy, times) => {
    for (let i = 0; i < times; i++) {
      proxy.cutOnce()
      await delay(150)
    }
  },
  'cut in the middle of answers': async (proxy, times) => {
    // A handshake has about 400 bytes and the answer to a settlement about 100, so cuts fall into both.
    for (let i = 0; i < times; i++) await Promise.race([proxy.cutAfter((i * 67) % 1_009), delay(1_000)])
  },
  slow: async (proxy, times) => {
    proxy.slow({ latencyMs: 100, bytesPerSecond: 50_000 })
    await delay(times * 250)
  },
  stalled: async (proxy, times) => {
    proxy.stall()
    await delay(times * 250)
  },
  unanswered: async (proxy, times) => {
    proxy.blackHole()
    await delay(times * 250)
  },
}

/** Breaks the connections of two nodes to PostgreSQL under load, then repairs them. `times` sets how often or how long. */
export function breakConnections(fault: string, times: number): Scenario {
  return {
    name: `connections ${fault}`,
    async run(world) {
      const { nodes, customers, untilServing, stop } = await loadTwoNodes(world, { requestsMax: 2_000, seed: times })
      const proxies = nodes.map(({ name }) => world.proxy(name))
      let resumedMs: number
      try {
        await delay(300)
        await Promise.all(proxies.map(proxy => networkFaults[fault]!(proxy, times)))
        for (const proxy of proxies) proxy.pass()
        resumedMs = await untilServing()
      } finally {
        void stop()
        for (const proxy of proxies) proxy.pass()
      }
      const sent = await stop()
      const complete = sent.filter(({ ending }) => ending === 'complete').length
      return {
        customers,
        problems: [],
        note: `${complete} of ${sent.length} answered, resumed after ${Math.round(resumedMs)} ms`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}
