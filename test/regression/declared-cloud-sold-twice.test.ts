import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Offer } from '../../src/base/domain/offer.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { gatherOffers } from '../../src/start/gather-offers.ts'

// Went wrong: detection offered an endpoint again, at its own prices, if the configuration declared it under another name (fixed in 8b629eb).
test('a cloud that the configuration declares under another name is not offered a second time', async () => {
  const cwd = await mkdtemp(join(tmpdir(), 'switchyard-supply-'))
  const file = `
demo: { enabled: false }
endpoints:
  - name: mine
    kind: cloud
    base_url: https://api.openai.com/v1
    api_key: \${OPENAI_API_KEY}
    models: [{ id: gpt-4o-mini, price_per_million_usd: { input: 1, output: 3 } }]
`
  await writeFile(join(cwd, 'switchyard.yaml'), file)
  try {
    const env = { OPENAI_API_KEY: 'sk-x', GROQ_API_KEY: 'gsk-x' }
    const supply = await gatherOffers(loadConfig({ env, cwd }))
    const clouds = supply.offers.filter(({ endpoint }) => endpoint.kind === 'cloud')
    expect(new Set(clouds.map(({ endpoint }) => endpoint.name))).toEqual(new Set(['mine', 'groq']))
    expect(supply.findings.filter(({ kind }) => kind === 'cloud').map(({ name }) => name)).toEqual(['groq'])
    // Another configuration that does not declare it offers the detected one.
    let offered: readonly Offer[] = []
    supply.watch({ info() {} }, offers => {
      offered = offers
    })
    await writeFile(join(cwd, 'switchyard.yaml'), 'demo: { enabled: false }\n')
    await supply.redeclare(loadConfig({ env, cwd }))
    const now = offered.filter(({ endpoint }) => endpoint.kind === 'cloud')
    expect(new Set(now.map(({ endpoint }) => endpoint.name))).toEqual(new Set(['openai', 'groq']))
    await supply.close()
  } finally {
    await rm(cwd, { recursive: true })
  }
})
