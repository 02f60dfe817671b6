import { parsePricePerMillion, parseUsd, usdText } from '../../../base/domain/money.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import type { ServedModel } from './list-models.ts'
import type { FindInLibrary } from './price-library.ts'
import { presetAt } from './provider-presets.ts'
import { modelEntriesOf } from './providers.ts'

/** Which new models of a provider are sold, and for how much: an item of `model_rules`. */
export interface ModelRule {
  /** Matches ids of the server; `*` stands for any text. */
  readonly match: string
  readonly except: readonly string[]
  /** The selling price in percent of the list price. */
  readonly pricePercent: number
  /** The vendor whose list prices count, as the price library names it. Undefined: that of the address. */
  readonly priceList: string | undefined
  /** Whether a new model is sold at once, or waits for an operator. */
  readonly isApplied: boolean
}

/** Returns the rules of the settings of a provider, which are valid. */
export function modelRulesOf({ model_rules: rules }: JsonObject): ModelRule[] {
  if (!Array.isArray(rules)) return []
  return rules
    .filter(isJsonObject)
    .map(({ match, except, price_list: list, price_percent: percent = 100, action = 'propose' }) => ({
      match: String(match),
      except: Array.isArray(except) ? except.map(String) : [],
      priceList: typeof list === 'string' ? list : undefined,
      pricePercent: Number(percent),
      isApplied: action === 'apply',
    }))
}

/** What is known of a served model. */
interface KnownModel {
  /** The entry of `models` that sells it, without a price where none is known. */
  readonly entry: JsonObject
  /** Whether a rule may sell it at once. */
  readonly isCertain: boolean
}

export type KnownEntry = (served: ServedModel, libraryId?: string | null) => KnownModel

/**
 * Knows the limits and prices of the models at an address: from the preset of its vendor, else from the library. `libraryId` looks a
 * model up at another vendor.
 */
export function knownEntriesAt(baseUrl: string, find: FindInLibrary): KnownEntry {
  const preset = presetAt(baseUrl)
  return ({ id, contextTokens }, libraryId = preset?.libraryId) => {
    const known = preset?.models.find(model => (model.upstream_model ?? model.id) === id)
    if (known !== undefined) return { entry: known, isCertain: true }
    const listed = libraryId == null ? null : find(libraryId, id)
    const context = contextTokens ?? listed?.contextTokens ?? null
    const entry = {
      id,
      ...(listed && { price_per_million_usd: listed.prices, cost_per_million_usd: withoutSteps(listed.prices) }),
      ...(context !== null && { context_tokens: context }),
    }
    return { entry, isCertain: listed?.isCertain ?? false }
  }
}

/** What a server charges is declared for the usual case. */
function withoutSteps({ steps: _, ...prices }: JsonObject): JsonObject {
  return prices
}

/**
 * Returns the models that the rules of a provider name and that it does not have yet: what is sold at once, and what waits for an
 * operator. The first rule that matches counts. A model whose price is not certain is only proposed, one without a price is in neither.
 */
export function newModelsOf(
  settings: JsonObject,
  served: readonly ServedModel[],
  entryOf: KnownEntry,
): { readonly applied: JsonObject[]; readonly proposed: JsonObject[] } {
  const rules = modelRulesOf(settings)
  const entries = modelEntriesOf(settings)
  const has = new Set(entries.flatMap(({ id, upstream_model: upstream }) => [id, upstream]))
  const [applied, proposed]: [JsonObject[], JsonObject[]] = [[], []]
  for (const model of served) {
    const { id } = model
    if (has.has(id)) continue
    const rule = rules.find(({ match, except }) => matches(match, id) && !except.some(each => matches(each, id)))
    if (rule === undefined) continue
    const { entry, isCertain } = entryOf(model, rule.priceList)
    if (has.has(entry.id) || !isJsonObject(entry.price_per_million_usd)) continue
    const sold = { ...entry, price_per_million_usd: atPercent(entry.price_per_million_usd, rule.pricePercent) }
    ;(rule.isApplied && isCertain ? applied : proposed).push(sold)
    has.add(id).add(entry.id)
  }
  return { applied, proposed }
}

/** Compares in linear time, however many `*` a pattern has. */
export function matches(pattern: string, id: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return pattern === id
  if (!id.startsWith(first)) return false
  let at = first.length
  for (const part of rest) {
    const found = id.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return id.length - last.length >= at && id.endsWith(last)
}

/** Returns the prices of a list in percent, rounded up. Times and lengths stay. */
function atPercent(prices: JsonObject, percent: number): JsonObject {
  return Object.fromEntries(
    Object.entries(prices).map(([kind, value]) => {
      if (Array.isArray(value)) return [kind, kind === 'days' ? value : value.map(each => atPercent(each, percent))]
      if (kind === 'hours' || kind === 'above_input_tokens') return [kind, value]
      return [kind, kind === 'per_request_usd' ? scaledUsd(value, percent) : scaledPrice(value, percent)]
    }),
  )
}

const scale = (value: bigint, percent: number) => (value * BigInt(percent) + 99n) / 100n

function scaledPrice(price: unknown, percent: number): string {
  const pico = parsePricePerMillion(String(price))
  if (pico === undefined) throw new TypeError(`${String(price)} is no price`)
  // A price of a million tokens in USD has as many decimals as one of a token in picodollars has digits.
  return usdText(scale(pico, percent) * 1_000n, 0)
}

function scaledUsd(amount: unknown, percent: number): string {
  const nanos = parseUsd(String(amount))
  if (nanos === undefined) throw new TypeError(`${String(amount)} is no amount`)
  return usdText(scale(nanos, percent), 0)
}
