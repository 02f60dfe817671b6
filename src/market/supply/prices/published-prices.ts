import { parsePricePerMillion } from '../../../base/domain/money.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { getJson } from '../../../wire/egress/get-json.ts'

/** Prices of a model in the list of models.dev. Picodollars per token; undefined where the list has none. */
export interface PublishedPrices {
  readonly input: bigint | undefined
  readonly output: bigint | undefined
  readonly cacheRead: bigint | undefined
  readonly cacheWrite: bigint | undefined
  readonly inputAudio: bigint | undefined
  readonly outputAudio: bigint | undefined
}

export interface PublishedModel extends PublishedPrices {
  /** Ascending. */
  readonly steps: readonly (PublishedPrices & { readonly aboveInputTokens: number })[]
}

/** Finds the prices of a model by the provider of the list, such as `openai`, and the model id there. */
export type PublishedPriceList = (provider: string, modelId: string) => PublishedModel | undefined

export const MODELS_DEV_URL = 'https://models.dev/api.json'

const TIMEOUT_MS = 30_000
/** The list has about 5 MB. */
const LIST_BYTES_MAX = 50_000_000

/** Downloads the list of models.dev. Throws SupplyError `unreachable` when there is none at `url`. */
export async function readPublishedPrices(url: string): Promise<PublishedPriceList> {
  const { status, body } = await getJson(url, { timeoutMs: TIMEOUT_MS, bytesMax: LIST_BYTES_MAX }).catch(
    (error: Error) => {
      throw new SupplyError(
        'unreachable',
        `The price list at ${url} cannot be read: ${error.message}. Try again later.`,
      )
    },
  )
  if (status !== 200) {
    throw new SupplyError('unreachable', `The price list at ${url} cannot be read: it answered with status ${status}.`)
  }
  if (
    !isJsonObject(body) ||
    !Object.values(body).some(provider => isJsonObject(provider) && isJsonObject(provider.models))
  )
    throw new SupplyError(
      'unreachable',
      `${url} did not answer with a price list. It must be the api.json of models.dev.`,
    )
  return (provider, modelId) => {
    const models = memberOf(body, provider)?.models
    const cost = memberOf(memberOf(models, modelId), 'cost')
    return cost && publishedModel(cost)
  }
}

function publishedModel(cost: JsonObject): PublishedModel {
  const tiers = Array.isArray(cost.tiers) ? cost.tiers.filter(isJsonObject) : []
  const steps = tiers.flatMap(tier => {
    const { type, size } = memberOf(tier, 'tier') ?? {}
    return type === 'context' && typeof size === 'number' ? [{ ...pricesOf(tier), aboveInputTokens: size }] : []
  })
  const above200k = memberOf(cost, 'context_over_200k')
  // The older form of the same step.
  if (steps.length === 0 && above200k) steps.push({ ...pricesOf(above200k), aboveInputTokens: 200_000 })
  return { ...pricesOf(cost), steps: steps.toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens) }
}

function pricesOf(cost: JsonObject): PublishedPrices {
  return {
    input: picos(cost.input),
    output: picos(cost.output),
    cacheRead: picos(cost.cache_read),
    cacheWrite: picos(cost.cache_write),
    inputAudio: picos(cost.input_audio),
    outputAudio: picos(cost.output_audio),
  }
}

/** The list has JSON numbers, with at most six decimals where they are exact. */
function picos(usdPerMillion: unknown): bigint | undefined {
  return typeof usdPerMillion === 'number' && usdPerMillion >= 0
    ? parsePricePerMillion(usdPerMillion.toFixed(6))
    : undefined
}

function memberOf(value: unknown, name: string): JsonObject | undefined {
  const member = isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return isJsonObject(member) ? member : undefined
}
