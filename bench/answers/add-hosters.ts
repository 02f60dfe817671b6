import type { Pool } from '../../src/db/pool.ts'
import { addHoster } from '../../src/supply/hosters/add-hoster.ts'
import { activateHoster } from '../../src/supply/hosters/hosters.ts'

/** Adds one hoster for each model, all at this origin. The gateway must allow private URLs. */
export async function addHosters(pool: Pool, origin: string, models: readonly string[]): Promise<void> {
  // The hosters have no keys to encrypt.
  const options = { masterKey: Buffer.alloc(32), allowPrivateUrls: true }
  for (const modelId of models) {
    const model = {
      modelId,
      price: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
      contextTokens: 32_768,
      maxOutputTokens: 8_192,
      features: [],
    }
    const hoster = {
      name: modelId,
      baseUrl: `${origin}/${modelId}/v1`,
      models: [model],
      trustScore: 0.9,
      shareBps: 8_000,
    }
    await addHoster(pool, hoster, options)
    await activateHoster(pool, modelId)
  }
}
