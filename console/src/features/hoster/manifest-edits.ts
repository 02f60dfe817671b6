import type { HosterOffers } from '#api/hoster-console.ts'
import type { Manifest, ManifestModel, StoredManifest } from '#api/hoster-manifest.ts'
import { readAmount } from '../../format/typed-number.ts'
import { exactUsd } from '../../format/usd-text.ts'

type Offer = HosterOffers['data'][number]
type Feature = NonNullable<ManifestModel['supported_features']>[number]

/** Without another task, a model answers chats. */
export const otherTasks: readonly Feature[] = ['completions', 'embeddings', 'rerank']

/**
 * The manifest to edit: what is offered, and what the stored manifest says besides. An operator may have set prices and
 * models after the manifest was sent: sending it as it is stored would undo that. A model with a change that waits for
 * its notice or its probes stays as it is stored, because anything else would cancel the change.
 */
export function manifestToEdit(stored: StoredManifest | null, offers: readonly Offer[]): Manifest {
  if (stored === null) return { region: null, data_policy: null, models: offers.map(offeredModel) }
  const { manifest, scheduled, probing } = stored
  const waiting = new Set([...scheduled.map(({ model }) => model), ...probing])
  const known = new Set(manifest.models.map(({ id }) => id))
  return {
    ...manifest,
    models: [
      ...manifest.models.map(model => {
        const offer = offers.find(each => each.model === model.id)
        return offer === undefined || waiting.has(model.id) ? model : { ...model, ...offeredModel(offer) }
      }),
      ...offers.filter(offer => !known.has(offer.model)).map(offeredModel),
    ],
  }
}

/** The address to write the manifest to. The gateway refuses it when there is a later version than the one that was read. */
export function manifestPath(hosterId: string, version: number): string {
  return `hosters/${hosterId}/manifest?version=${version}`
}

/** The name and the quantization are only in a manifest. */
function offeredModel(offer: Offer) {
  const { supported_features: features } = offer
  const isChatAlone = !features.some(feature => otherTasks.includes(feature))
  return {
    id: offer.model,
    upstream_model: offer.upstream_model === offer.model ? null : offer.upstream_model,
    context_length: offer.context_length,
    max_output_length: offer.max_output_length,
    max_concurrent: offer.max_concurrent,
    // Chat alone goes without saying.
    supported_features: features.filter(feature => feature !== 'chat' || !isChatAlone),
    pricing: {
      prompt: perTokenText(exactUsd(offer.input_usd_per_million)),
      completion: perTokenText(exactUsd(offer.output_usd_per_million)),
      input_cache_read: optionalPrice(offer.cache_read_usd_per_million),
      input_cache_write: optionalPrice(offer.cache_write_usd_per_million),
    },
  } satisfies ManifestModel
}

function optionalPrice(usdPerMillion: number | null): string | null {
  return usdPerMillion === null ? null : perTokenText(exactUsd(usdPerMillion))
}

/** Returns the manifest with the model in place of the one with this id, or added. */
export function withModel(manifest: Manifest, id: string | null, model: ManifestModel): Manifest {
  const isKnown = manifest.models.some(each => each.id === id)
  return {
    ...manifest,
    models: isKnown ? manifest.models.map(each => (each.id === id ? model : each)) : [...manifest.models, model],
  }
}

export function withoutModel(manifest: Manifest, id: string): Manifest {
  return { ...manifest, models: manifest.models.filter(each => each.id !== id) }
}

/**
 * Converts USD per million tokens to USD per token by moving the point: "0.2" to "0.0000002". Other text is returned as
 * it is, so that the gateway says what is wrong with it.
 */
export function perTokenText(perMillion: string): string {
  return movedPoint(readAmount(perMillion), 6)
}

/** Converts USD per token to USD per million tokens. */
export function perMillionText(perToken: string): string {
  return movedPoint(perToken, -6)
}

/** Moves the decimal point to the left; with a negative number of places, to the right. */
function movedPoint(text: string, places: number): string {
  const found = /^(\d+)(?:\.(\d+))?$/.exec(text)
  if (found === null) return text
  const [, whole = '', decimals = ''] = found
  const pad = '0'.repeat(Math.abs(places))
  const digits = `${pad}${whole}${decimals}${pad}`
  const point = pad.length + whole.length - places
  const [left, right] = [digits.slice(0, point).replace(/^0+(?=\d)/, ''), digits.slice(point).replace(/0+$/, '')]
  return right === '' ? left : `${left}.${right}`
}
