import { setTimeout as delay } from 'node:timers/promises'
import type { ChaosCustomer, Sent } from './customer.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { sendChat } from './send-chat.ts'

export interface Load {
  /** Asked anew for each request; a node that is gone answers nothing and costs a moment. */
  readonly nodes: () => readonly GatewayProcess[]
  readonly customers: readonly ChaosCustomer[]
  readonly workers: number
  /** The most that is sent, whatever happens. */
  readonly requestsMax: number
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Of the answers, how many are streams; 0.5 unless given. */
  readonly streams?: number
  readonly words?: number
  readonly gapMs?: number
  readonly signal?: AbortSignal
}

/** After an answer that was none, so that a node that is down is not asked as fast as the machine can. */
const PAUSE_MS = 50

/** Sends requests until so many are sent or the signal is aborted, each worker one at a time; resolves when all have ended. */
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
      const stream = random() < streams
      const sent = await sendChat(node, customer, { stream, words, gapMs: stream ? gapMs : gapMs * words })
      all.push(sent)
      if (sent.ending !== 'whole') await delay(PAUSE_MS)
    }
  }
  await Promise.all(Array.from({ length: load.workers }, work))
  return all
}

/** Mulberry32: the same choices at every run with the same seed, though not the same order of events. */
export function seededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
