import { type Feature, features } from '../../base/domain/chat-job.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import { type Manifest, type ManifestModel, manifest, quantizations } from '../../wire/api/hoster-manifest.ts'

/** OpenRouter's names of features that have another name here. */
const featureNames: Readonly<Record<string, Feature>> = {
  structured_outputs: 'json_schema',
  image: 'images',
  audio: 'audio',
}

/**
 * Makes a manifest of the model list of a server, in the form of OpenRouter's document for providers. Unknown fields
 * are ignored, and so are models without a price. Returns the text of a problem when nothing is left.
 *
 * @param body the parsed answer to `GET /v1/models`
 */
export function readManifest(body: unknown): Manifest | string {
  const list = isJsonObject(body) && Array.isArray(body.data) ? body.data.filter(isJsonObject) : []
  const models = list.flatMap(modelOf)
  if (models.length === 0) return sayOfHoster('hoster.no_models').text
  const countries = new Set(list.flatMap(countriesOf))
  const result = manifest.safeParse({ models, region: countries.size === 1 ? [...countries][0] : null })
  if (result.success) return result.data
  const { path, message } = elementAt(result.error.issues, 0)
  return `The model list of the server is no manifest: ${path.join('.')} must be ${message}.`
}

function modelOf(entry: JsonObject): Partial<ManifestModel>[] {
  const { pricing } = entry
  if (typeof entry.id !== 'string' || !isJsonObject(pricing) || pricing.prompt === undefined) return []
  const context = entry.context_length ?? entry.max_model_len
  const quantization = quantizations.find(name => name === entry.quantization)
  return [
    {
      id: entry.id,
      ...(typeof entry.name === 'string' && { name: entry.name.slice(0, 200).toWellFormed() }),
      context_length: context as number,
      max_output_length: (entry.max_output_length ?? context) as number,
      ...(quantization !== undefined && { quantization }),
      supported_features: featuresOf(entry),
      pricing: {
        prompt: pricing.prompt as string,
        completion: pricing.completion as string,
        input_cache_read: (pricing.input_cache_read ?? null) as string | null,
      },
    },
  ]
}

function featuresOf({ supported_features: named, input_modalities: modalities }: JsonObject): Feature[] {
  const words = [named, modalities].flatMap(list => (Array.isArray(list) ? list : []))
  const found = words.map(word => featureNames[word as string] ?? features.find(feature => feature === word))
  return [...new Set(found.filter(feature => feature !== undefined))]
}

function countriesOf({ datacenters }: JsonObject): string[] {
  const places = Array.isArray(datacenters) ? datacenters.filter(isJsonObject) : []
  return places.map(({ country_code: code }) => code).filter(code => typeof code === 'string')
}
