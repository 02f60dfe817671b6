import { setTimeout as delay } from 'node:timers/promises'
import { type ChaosCustomer, mayStream, paths, type Sent } from './customer.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { sendRequest } from './send-request.ts'

export interface Load {
  /** Called for each request. A stopped node only delays the load a little. */
  readonly nodes: () => readonly GatewayProcess[]
  readonly customers: readonly ChaosCustomer[]
  readonly workers: number
  /** Upper bound of the number of requests. */
  readonly requestsMax: number
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Share of streams, 0 to 1. Default 0.5. */
  readonly streams?: number
  readonly words?: number
  readonly gapMs?: number
  readonly signal?: AbortSignal
}

/** Pause after an incomplete answer, so that a stopped node is not flooded with requests. */
const PAUSE_MS = 50

/** Share of the clients that leave before the end of their answer. */
const LEAVING_SHARE = 0.05

/** Sends requests to every endpoint until `requestsMax` or until the signal aborts, one at a time per worker. Resolves when all requests have ended. */
export async function runLoad(load: Load): Promise<Sent[]> {
  const { customers, random, streams = 0.5, words = 6, gapMs = 4 } = load
  const all: Sent[] = []
  let begun = 0
  const work = async () => {
    while (begun < load.requestsMax && load.signal?.aborted !== true) {
      begun++
      const nodes = load.nodes()
      const node = nodes[Math.floor(random() * nodes.length)]
      const customer = customers[Math.floor(random() * customers.length)]!
      if (node === undefined) {
        await delay(PAUSE_MS)
        continue
      }
      const path = paths[Math.floor(random() * paths.length)]!
      const stream = random() < streams && mayStream(path)
      const leaves = random() < LEAVING_SHARE
      const sent = await sendRequest(node, customer, {
        path,
        stream,
        words,
        gapMs: stream ? gapMs : gapMs * words,
        leaves,
      })
      all.push(sent)
      if (sent.ending !== 'complete' && sent.ending !== 'left') await delay(PAUSE_MS)
    }
  }
  await Promise.all(Array.from({ length: load.workers }, work))
  return all
}
