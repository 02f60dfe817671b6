import { setTimeout as delay } from 'node:timers/promises'
import type { Sql } from '../db/pool.ts'
import { type NodeKeys, readNodeKeys } from './key-ring-state.ts'

const POLL_MS = 250
/** Five heartbeats: a node without one in this time was killed, and no other node has noticed. */
const SILENT_MS = 5_000

/**
 * Waits until every living node fulfils the condition, as it reports its keys. Returns those that do not after `timeoutMs`; none
 * when all do.
 */
export async function waitForNodes(
  sql: Sql,
  condition: (node: NodeKeys) => boolean,
  timeoutMs: number,
): Promise<readonly NodeKeys[]> {
  const startMs = performance.now()
  const first = new Map<string, { readonly heartbeats: number; readonly atMs: number }>()
  for (;;) {
    const nodes = await readNodeKeys(sql)
    const nowMs = performance.now()
    const lacking = nodes.filter(node => {
      const seen = first.get(node.nodeId) ?? { heartbeats: node.heartbeats, atMs: nowMs }
      first.set(node.nodeId, seen)
      const isDead = nowMs - seen.atMs > SILENT_MS && node.heartbeats === seen.heartbeats
      return !isDead && !condition(node)
    })
    if (lacking.length === 0 || nowMs - startMs > timeoutMs) return lacking
    await delay(POLL_MS)
  }
}
