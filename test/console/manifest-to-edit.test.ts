import { expect, test } from 'vitest'
import { manifestToEdit } from '../../console/src/features/hoster/manifest-edits.ts'
import { type HosterOffers, hosterOffers } from '../../src/wire/api/hoster-console.ts'
import type { ManifestModel, StoredManifest } from '../../src/wire/api/hoster-manifest.ts'

// What the dialogs of a hoster's offers begin with and send back as a whole.

type Offer = HosterOffers['data'][number]

const [example] = (hosterOffers.meta()!.example as HosterOffers).data

/** Costs 0.05 and 0.2 USD per million tokens. */
function offer(model: string, changes: Partial<Offer> = {}): Offer {
  return { ...example!, model, upstream_model: model, cache_read_usd_per_million: null, ...changes }
}

function model(id: string, changes: Partial<ManifestModel> = {}): ManifestModel {
  return {
    id,
    context_length: 32_768,
    max_output_length: 8_192,
    pricing: { prompt: '0.00000009', completion: '0.0000009' },
    ...changes,
  }
}

function stored(models: ManifestModel[], waiting: Partial<StoredManifest> = {}): StoredManifest {
  return {
    object: 'hoster.manifest',
    version: 1,
    source: 'sent',
    created_at: '2026-11-25T09:00:00.000Z',
    manifest: { region: 'DE', data_policy: null, models },
    scheduled: [],
    probing: [],
    ...waiting,
  }
}

test('an offer that the manifest lacks is added', () => {
  const { region, models } = manifestToEdit(stored([model('own')]), [offer('by-operator'), offer('own')])
  expect(region).toBe('DE')
  expect(models.map(({ id }) => id)).toEqual(['own', 'by-operator'])
  expect(models[1]).toMatchObject({
    upstream_model: null,
    context_length: 32_768,
    max_concurrent: 8,
    supported_features: ['tools'],
    pricing: { prompt: '0.00000005', completion: '0.0000002', input_cache_read: null },
  })
})

test('a price and terms that the operator set since replace older ones, and what only the manifest says stays', () => {
  const before = model('own', { name: 'Own', quantization: 'fp8', supported_features: ['images'] })
  const now = offer('own', { context_length: 65_536, supported_features: ['images', 'chat'] })
  expect(manifestToEdit(stored([before]), [now]).models).toEqual([
    {
      ...before,
      upstream_model: null,
      context_length: 65_536,
      max_concurrent: 8,
      pricing: { prompt: '0.00000005', completion: '0.0000002', input_cache_read: null, input_cache_write: null },
    },
  ])
})

test('chat is named only if another task is named too', () => {
  const features = (named: Offer['supported_features']) =>
    manifestToEdit(null, [offer('own', { supported_features: named })]).models[0]!.supported_features
  expect(features(['chat', 'tools'])).toEqual(['tools'])
  expect(features(['chat', 'embeddings'])).toEqual(['chat', 'embeddings'])
})

test.each<[string, Partial<StoredManifest>]>([
  [
    'its notice',
    {
      scheduled: [
        { model: 'own', applies_at: '2026-11-26T09:00:00.000Z', prompt: '0.00000009', completion: '0.0000009' },
      ],
    },
  ],
  ['its probes', { probing: ['own'] }],
])('a change that waits for %s stays', (_, waiting) => {
  const models = [model('own'), model('not-offered')]
  expect(manifestToEdit(stored(models, waiting), [offer('own')]).models).toEqual(models)
})
