import type { Sql } from '../../base/db/pool.ts'
import { usdPerTokenText } from '../../base/domain/money.ts'
import type { StoredManifest } from '../../wire/api/hoster-manifest.ts'
import { findManifest, listWaiting } from './manifests.ts'
import { showHoster } from './show-hoster.ts'

/** Returns the newest manifest of a hoster with the prices that wait; null when it has none. Throws `hoster_not_found`. */
export async function showManifest(sql: Sql, hosterId: string): Promise<StoredManifest | null> {
  const { endpointId } = await showHoster(sql, hosterId)
  const found = await findManifest(sql, hosterId)
  if (found === undefined) return null
  const waiting = await listWaiting(sql, endpointId)
  return {
    object: 'hoster.manifest',
    version: found.version,
    source: found.source,
    created_at: found.createdAt.toISOString(),
    manifest: found.body,
    scheduled: waiting
      .filter(({ state }) => state === 'scheduled')
      .map(({ model, appliesAt }) => ({
        model: model.modelId,
        applies_at: appliesAt.toISOString(),
        prompt: usdPerTokenText(model.price.inputPicoPerToken),
        completion: usdPerTokenText(model.price.outputPicoPerToken),
      })),
    probing: waiting.filter(({ state }) => state === 'probing').map(({ model }) => model.modelId),
  }
}
