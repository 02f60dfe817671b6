import {
  inputKinds,
  type OfferPrice,
  outputKinds,
  type PartKind,
  type PriceStep,
  parsePricePerMillion,
  parseUsd,
  type TokenPrice,
} from './money.ts'
import type { ListedPrice } from './price-list.ts'

/** A version of the prices of customers, as receipts name it. */
export interface PriceGroupName {
  readonly name: string
  readonly version: number
}

/** The prices of a customer or an account tier. A version never changes. */
export interface PriceGroup extends PriceGroupName {
  /** For models without a rule. */
  readonly adjustBps: number
  /** By model id. */
  readonly models: ReadonlyMap<string, ModelPrice>
}

/** Finds a version of the prices of customers. */
export type FindPrices = (name: PriceGroupName) => PriceGroup | Promise<PriceGroup>

/** A discount (below zero) or a markup in basis points, or a price of its own. */
export type ModelPrice = { readonly adjustBps: number } | { readonly list: ListedPrice }

/**
 * The rules of a group as they are stored and written. Amounts are decimal text: percent, with a minus for a discount, and USD per
 * million tokens.
 */
export interface PriceRules {
  readonly percent: string
  readonly models: Readonly<Record<string, WrittenModelPrice>>
}

export type WrittenModelPrice = { readonly percent: string } | { readonly price_per_million_usd: WrittenPrice }

/** The names are those of `price_per_million_usd` in switchyard.yaml, except for steps and windows. */
export type WrittenPrice = Readonly<
  { input: string; output: string; per_request_usd?: string | undefined } & Partial<
    Record<PartKind, string | undefined>
  >
>

const BPS = 10_000n
/** Nothing is free by a percentage: a price of 0 is written for its model. */
const BPS_MIN = -9_999
const BPS_MAX = 100_000

/** Reads a percentage with at most two decimals, from -99.99 to 1000, into basis points; undefined for anything else. */
export function parsePercent(text: string): number | undefined {
  const match = /^([+-]?)(\d{1,4})(?:\.(\d{1,2}))?$/.exec(text.trim())
  if (!match) return undefined
  const [, sign, whole = '', decimals = ''] = match
  const bps = Number(whole) * 100 + Number(decimals.padEnd(2, '0'))
  const signed = sign === '-' && bps !== 0 ? -bps : bps
  return signed >= BPS_MIN && signed <= BPS_MAX ? signed : undefined
}

/** Reads a stored version. Throws for rules that were never written. */
export function readPriceGroup({ name, version }: PriceGroupName, rules: PriceRules): PriceGroup {
  return {
    name,
    version,
    adjustBps: bpsOf(rules.percent),
    models: new Map(Object.entries(rules.models).map(([modelId, written]) => [modelId, readModelPrice(written)])),
  }
}

function readModelPrice(written: WrittenModelPrice): ModelPrice {
  if ('percent' in written) return { adjustBps: bpsOf(written.percent) }
  const { input, output, per_request_usd: perRequest, ...kinds } = written.price_per_million_usd
  const parts = [...inputKinds, ...outputKinds].flatMap(kind => {
    const text = kinds[kind]
    return text === undefined ? [] : [[kind, readable(parsePricePerMillion(text))] as const]
  })
  return {
    list: {
      input: readable(parsePricePerMillion(input)),
      output: readable(parsePricePerMillion(output)),
      parts: Object.fromEntries(parts),
      perRequest: perRequest === undefined ? 0n : readable(parseUsd(perRequest)) * PICOS_PER_NANO,
    },
  }
}

const PICOS_PER_NANO = 1_000n
const bpsOf = (text: string) => readable(parsePercent(text))

function readable<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('The rules of a price group are not readable.')
  return value
}

/**
 * Returns the price with a discount (below zero) or a markup. The price of each kind of token is rounded up to a whole
 * picodollar, so the shown price is the one that is billed.
 */
export function adjustedPrice({ terms, ...price }: OfferPrice, adjustBps: number): OfferPrice {
  const factor = BPS + BigInt(adjustBps)
  const adjusted = (pico: bigint) => (pico * factor + BPS - 1n) / BPS
  const tokenPrice = ({ inputPicoPerToken, outputPicoPerToken }: TokenPrice): TokenPrice => ({
    inputPicoPerToken: adjusted(inputPicoPerToken),
    outputPicoPerToken: adjusted(outputPicoPerToken),
  })
  const adjustedStep = (step: PriceStep): PriceStep => {
    const held = tokenPrice(step.held)
    const media = adjusted(step.held.inputPicoPerToken + step.heldMediaPicos)
    return {
      aboveInputTokens: step.aboveInputTokens,
      price: tokenPrice(step.price),
      parts: Object.fromEntries(
        Object.entries(step.parts).map(([kind, pico]) => [kind, adjusted(pico)]),
      ) as PriceStep['parts'],
      perRequestPicos: adjusted(step.perRequestPicos),
      held,
      heldMediaPicos: media - held.inputPicoPerToken,
      heldPerRequestPicos: adjusted(step.heldPerRequestPicos),
    }
  }
  if (terms === undefined) return tokenPrice(price)
  return { ...tokenPrice(price), terms: { ...terms, steps: terms.steps.map(adjustedStep) } }
}
