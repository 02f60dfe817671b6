import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from '../src/base/db/pool.ts'
import { fixedKey } from '../src/base/domain/sealing-keys.ts'
import { activateHoster } from '../src/market/marketplace/operate-hoster.ts'
import { addHoster } from '../src/market/supply/hosters/add-hoster.ts'
import type { HostedModel } from '../src/market/supply/hosters/hosted-model.ts'

/** A hoster with one model. */
export type BenchHoster = { modelId: string; baseUrl: string; model?: Partial<HostedModel> }

/** Adds hosters, each named after its model. The gateway must allow private URLs. */
export async function addHosters(pool: Pool, hosters: readonly BenchHoster[]): Promise<void> {
  // The hosters have no keys to encrypt.
  const options = { masterKeys: fixedKey(Buffer.alloc(32)), allowPrivateUrls: true }
  for (const { modelId, baseUrl, model } of hosters) {
    const offered = {
      modelId,
      price: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
      contextTokens: 32_768,
      maxOutputTokens: 8_192,
      features: [],
      ...model,
    }
    await addHoster(pool, { name: modelId, baseUrl, models: [offered], trustScore: 0.9, shareBps: 8_000 }, options)
    await activateHoster(pool, modelId)
  }
}

/** Waits until the gateway offers this many models: it loads changes of its hosters after a while. */
export async function untilListed(origin: string, headers: Record<string, string>, models: number): Promise<void> {
  const deadlineMs = performance.now() + 60_000
  for (;;) {
    if (performance.now() > deadlineMs) throw new Error(`the gateway did not list ${models} models within 60 s`)
    const response = await fetch(`${origin}/v1/models`, { headers })
    const { data } = (await response.json()) as { data: unknown[] }
    if (data.length >= models) return
    await delay(200)
  }
}
