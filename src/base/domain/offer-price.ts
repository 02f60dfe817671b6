import type { UsageParts } from './answer-event.ts'
import { costNanos, type Nanos, type TokenPrice } from './money.ts'

/** Tokens that may have a price of their own. Names of the configuration, of usage rows and of receipts. */
export const inputKinds = ['cache_read', 'cache_write', 'cache_write_long', 'input_audio', 'input_image'] as const
export const outputKinds = ['output_audio', 'output_image'] as const
export type PartKind = (typeof inputKinds)[number] | (typeof outputKinds)[number]

/** What an offer costs. */
export interface OfferPrice extends TokenPrice {
  /**
   * Absent: every input token costs the input price, every output token the output price, and a request as such
   * nothing. Most offers have none, so that a request pays nothing for the distinction.
   */
  readonly terms?: PriceTerms
}

export interface PriceTerms {
  /** Ascending. The first one applies to every prompt that no later one applies to. */
  readonly steps: readonly PriceStep[]
  /** Long cache writes have a price of their own, so a request may ask for them. */
  readonly sellsLongWrites: boolean
}

/** The prices of prompts above a length. They apply to the whole request. */
export interface PriceStep {
  readonly aboveInputTokens: number
  readonly price: TokenPrice
  /** Picodollars per token. No kind is missing. */
  readonly parts: Readonly<Record<PartKind, bigint>>
  readonly perRequestPicos: bigint
  /** The most that any token of a prompt up to this step can cost, media of the prompt excepted. */
  readonly held: TokenPrice
  /** What a media token of the prompt can cost beyond `held`. */
  readonly heldMediaPicos: bigint
  readonly heldPerRequestPicos: bigint
}

/** The tokens of one kind with the price that they were billed at. `request` stands for the request itself. */
export interface PricedPart {
  readonly kind: PartKind | 'request'
  readonly tokens: number
  readonly picoPerToken: bigint
}

/** The measured cost of a request and how it comes about. */
export interface MeasuredCost {
  readonly nanos: Nanos
  /** The price of the tokens that no part has. */
  readonly price: TokenPrice
  /** Null when there are none. */
  readonly parts: readonly PricedPart[] | null
}

/**
 * Returns the cost of measured tokens, rounded up once.
 *
 * @param usage the same tokens in parts; null when all are fresh text
 */
export function measuredCost(
  offer: OfferPrice,
  inputTokens: number,
  outputTokens: number,
  usage: UsageParts | null,
): MeasuredCost {
  const { terms } = offer
  if (inputTokens + outputTokens === 0 || (terms === undefined && usage === null)) {
    return { nanos: costNanos(offer, inputTokens, outputTokens), price: offer, parts: null }
  }
  const step = terms === undefined ? plainStep(offer) : stepOf(terms, inputTokens)
  const { price } = step
  const parts = pricedParts(step, usage)
  let partPicos = 0n
  for (const part of parts) partPicos += BigInt(part.tokens) * (part.picoPerToken - basePicos(price, part.kind))
  const nanos = costNanos(price, inputTokens, outputTokens, partPicos)
  return { nanos, price, parts: parts.length === 0 ? null : parts }
}

/** Returns the prices of a prompt of this length. */
export function stepOf({ steps }: PriceTerms, inputTokens: number): PriceStep {
  let index = steps.length - 1
  while (index > 0 && inputTokens <= steps[index]!.aboveInputTokens) index--
  return steps[index]!
}

/** Returns the prices of a prompt of this length, with each kind that costs other than the input or the output does. */
export function pricesFor(
  offer: OfferPrice,
  inputTokens: number,
): { readonly price: TokenPrice; readonly parts: readonly Omit<PricedPart, 'tokens'>[] } {
  if (offer.terms === undefined) return { price: offer, parts: [] }
  const { price, parts, perRequestPicos } = stepOf(offer.terms, inputTokens)
  const kinds = [...inputKinds, ...outputKinds].filter(kind => parts[kind] !== basePicos(price, kind))
  const priced: Omit<PricedPart, 'tokens'>[] = kinds.map(kind => ({ kind, picoPerToken: parts[kind] }))
  if (perRequestPicos > 0n) priced.push({ kind: 'request', picoPerToken: perRequestPicos })
  return { price, parts: priced }
}

function pricedParts({ parts, perRequestPicos }: PriceStep, usage: UsageParts | null): PricedPart[] {
  const priced: PricedPart[] = []
  const add = (kind: PartKind, tokens: number | undefined) => {
    if (tokens !== undefined && tokens > 0) priced.push({ kind, tokens, picoPerToken: parts[kind] })
  }
  if (usage !== null) {
    add('cache_read', usage.cacheReadTokens)
    add('cache_write', usage.cacheWriteTokens)
    add('cache_write_long', usage.cacheWriteLongTokens)
    add('input_audio', usage.inputAudioTokens)
    add('input_image', usage.inputImageTokens)
    add('output_audio', usage.outputAudioTokens)
    add('output_image', usage.outputImageTokens)
  }
  if (perRequestPicos > 0n) priced.push({ kind: 'request', tokens: 1, picoPerToken: perRequestPicos })
  return priced
}

/** What a token of this kind would cost without a price of its own. */
function basePicos(price: TokenPrice, kind: PricedPart['kind']): bigint {
  if (kind === 'request') return 0n
  return isOutput(kind) ? price.outputPicoPerToken : price.inputPicoPerToken
}

const isOutput = (kind: PartKind) => kind === 'output_audio' || kind === 'output_image'

/** An offer without terms, with parts that cost what all tokens cost. */
function plainStep(price: TokenPrice): PriceStep {
  const { inputPicoPerToken: input, outputPicoPerToken: output } = price
  return {
    aboveInputTokens: 0,
    price,
    parts: {
      cache_read: input,
      cache_write: input,
      cache_write_long: input,
      input_audio: input,
      input_image: input,
      output_audio: output,
      output_image: output,
    },
    perRequestPicos: 0n,
    held: price,
    heldMediaPicos: 0n,
    heldPerRequestPicos: 0n,
  }
}
