import type { Log } from '../runtime/log.ts'
import { formerKeysMissing, isResealed, noteResealed, readMark, readNodeKeys } from './key-ring-state.ts'
import { type MasterKeys, markOf } from './master-keys.ts'
import { type ResealDeps, resealAll } from './reseal.ts'
import { nameOfPlace } from './sealed-places.ts'

/**
 * Seals stored secrets again that a former master key sealed, and notes when none is left. Reads a few rows when there is nothing to
 * do. Any number of nodes may call it; one that stops or is killed leaves the rest to the next call.
 */
export async function finishRotation({
  pools,
  masterKeys,
  signal,
  log,
}: {
  readonly pools: ResealDeps['pools']
  readonly masterKeys: MasterKeys
  readonly signal: AbortSignal
  readonly log: Pick<Log, 'info' | 'warn'>
}): Promise<void> {
  const sql = pools.gateway
  const mark = await readMark(sql)
  // A node that has not noticed a rotation yet must not seal again with the former key what others have sealed.
  if (mark === undefined || mark !== markOf(masterKeys.current) || (await isResealed(sql))) return
  const passed = await resealAll({ pools, keys: masterKeys, signal })
  if (signal.aborted) return
  const resealed = passed.filter(({ resealed: count }) => count > 0)
  if (resealed.length > 0) {
    const counts = Object.fromEntries(resealed.map(({ place, resealed: count }) => [nameOfPlace(place), count]))
    log.info({ resealed: counts }, 'sealed stored secrets again with the current master key')
  }
  // A node that has not noticed the rotation may still seal with the former key. So the rotation ends with a pass that found nothing
  // while all nodes seal with the current one.
  if (resealed.length > 0 || (await readNodeKeys(sql)).some(({ marks }) => marks[0] !== mark)) return
  const unreadable = passed.filter(({ unreadable: count }) => count > 0)
  // Another node may have the former key that opens them.
  if (unreadable.length > 0 && (await formerKeysMissing(sql, masterKeys)).length > 0) return
  await noteResealed(sql, mark)
  if (unreadable.length > 0) {
    const counts = Object.fromEntries(unreadable.map(({ place, unreadable: count }) => [nameOfPlace(place), count]))
    log.warn({ unreadable: counts }, 'stored secrets cannot be decrypted with any master key of this installation')
  }
  log.info({}, 'all stored secrets are sealed with the current master key')
}
