import type { PriceCalculation } from '@pydantic/genai-prices'
import type { JsonObject } from '../../../base/runtime/json-object.ts'

/** The version of the price library, and when it was published. A test compares it with the installed package. */
export const priceLibrary = { name: '@pydantic/genai-prices', version: '0.1.8', date: '2026-09-23' } as const

/** What the library knows of a model. */
export interface LibraryModel {
  readonly contextTokens: number | null
  /** As `price_per_million_usd` of switchyard.yaml: decimal texts. */
  readonly prices: JsonObject
  /**
   * Whether a model can be sold at these prices without a look: the entry is of this very model, has a price of the output, and the
   * price depends on no time.
   */
  readonly isCertain: boolean
}

/** Finds a model by the provider's id in the library, such as `openai`, and the model's id at the provider. */
export type FindInLibrary = (libraryId: string, modelId: string) => LibraryModel | null

/** Loads the library: 800 kB that only the pages of operators need. */
export async function loadPriceLibrary(): Promise<FindInLibrary> {
  const { calcPrice } = await import('@pydantic/genai-prices')
  return (providerId, modelId) => {
    const found = calcPrice({ input_tokens: 1, output_tokens: 1 }, modelId, { providerId })
    // A model that is only known at another vendor has no known price at this one.
    if (found === null || found.provider.id !== providerId) return null
    const prices = pricesOf(found.model_price)
    const isCertain = isOf(found.model.id, modelId) && found.model_price.output_mtok !== undefined && isLasting(found)
    return prices && { contextTokens: found.model.context_window ?? null, prices, isCertain }
  }
}

/** The library matches by prefix, so a later model can match an older one. A date after its id is another version of the same one. */
function isOf(libraryModelId: string, modelId: string): boolean {
  if (!modelId.startsWith(libraryModelId)) return false
  return /^([-@]?(\d{8}|\d{4}-\d{2}-\d{2}))?$/.test(modelId.slice(libraryModelId.length))
}

/** Whether the price is the same at all hours and no other one is known for later. */
function isLasting({ model: { prices }, model_price: current }: PriceCalculation): boolean {
  if (!Array.isArray(prices)) return true
  const dependsOnTheHour = prices.some(({ constraint }) => constraint?.type === 'time_of_date')
  return !dependsOnTheHour && prices.at(-1)?.prices === current
}

/** The names of the library by those of switchyard.yaml. */
const kinds = {
  input: 'input_mtok',
  output: 'output_mtok',
  cache_read: 'cache_read_mtok',
  cache_write: 'cache_write_mtok',
  input_audio: 'input_audio_mtok',
  output_audio: 'output_audio_mtok',
} as const

type LibraryPrice = number | { readonly base: number; readonly tiers: readonly { start: number; price: number }[] }

/** Returns null for prices that are not by tokens, such as those of minutes of audio. */
function pricesOf(known: Readonly<Record<string, LibraryPrice | undefined>>): JsonObject | null {
  if (known.input_mtok === undefined) return null
  const starts = new Set(Object.values(kinds).flatMap(name => tiersOf(known[name]).map(({ start }) => start)))
  const steps = [...starts]
    .sort((a, b) => a - b)
    .map(start => ({ above_input_tokens: start, ...pricesAt(known, start) }))
  const { requests_kcount: perThousand } = known
  return {
    ...pricesAt(known, 0),
    ...(typeof perThousand === 'number' && { per_request_usd: decimalText(perThousand / 1_000) }),
    ...(steps.length > 0 && { steps }),
  }
}

function pricesAt(known: Readonly<Record<string, LibraryPrice | undefined>>, start: number): JsonObject {
  const entries = Object.entries(kinds).flatMap(([kind, name]) => {
    const price = known[name]
    if (price === undefined) return kind === 'output' ? [[kind, '0'] as const] : []
    const tier = tiersOf(price).findLast(each => each.start <= start)
    const base = typeof price === 'number' ? price : price.base
    return [[kind, decimalText(tier?.price ?? base)] as const]
  })
  return Object.fromEntries(entries)
}

function tiersOf(price: LibraryPrice | undefined) {
  return typeof price === 'object' ? price.tiers.toSorted((a, b) => a.start - b.start) : []
}

/** Rounded up to the six decimals of a price: a price is never below what the vendor charges. */
function decimalText(usd: number): string {
  const micros = Math.ceil(Number((usd * 1_000_000).toPrecision(12)))
  return String(micros / 1_000_000)
}
