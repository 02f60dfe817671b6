import type { UsageParts } from './answer-event.ts'

/**
 * Money as an integer of nano-USD (1e-9 USD). One token at 0.05 USD per million costs 50 nano-USD, so common prices
 * need no fractions.
 */
export type Nanos = bigint

/** Picodollars per token, which is the same number as microdollars per million tokens: 0.15 USD/M = 150_000n. */
export interface TokenPrice {
  readonly inputPicoPerToken: bigint
  readonly outputPicoPerToken: bigint
}

const NANOS_PER_USD = 1_000_000_000n
const NANOS_PER_MICRO = 1_000n
const PICOS_PER_NANO = 1_000n
const PICOS_PER_USD = PICOS_PER_NANO * NANOS_PER_USD
const BPS = 10_000n

/**
 * Returns the cost of these tokens. Rounds up once per request, so a served request never costs less than its
 * tokens.
 *
 * @param partPicos what parts of the tokens cost beyond this price, in picodollars; negative when they cost less
 */
export function costNanos(price: TokenPrice, inputTokens: number, outputTokens: number, partPicos = 0n): Nanos {
  const tokenPicos = price.inputPicoPerToken * BigInt(inputTokens) + price.outputPicoPerToken * BigInt(outputTokens)
  return nanosOfPicos(tokenPicos + partPicos)
}

/** Rounds up, as every charge. */
export function nanosOfPicos(picos: bigint): Nanos {
  return (picos + PICOS_PER_NANO - 1n) / PICOS_PER_NANO
}

/**
 * Returns the most output tokens that `budgetNanos` pays for in addition to `inputTokens`; negative when the
 * input alone costs more.
 */
export function affordableOutputTokens(
  price: TokenPrice,
  inputTokens: number,
  budgetNanos: Nanos,
  partPicos = 0n,
): number {
  const picosLeft = budgetNanos * PICOS_PER_NANO - price.inputPicoPerToken * BigInt(inputTokens) - partPicos
  if (picosLeft < 0n) return -1
  if (price.outputPicoPerToken === 0n) return Number.MAX_SAFE_INTEGER
  const tokens = picosLeft / price.outputPicoPerToken
  return tokens > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(tokens)
}

/** Returns the charge for a request: its cost, but at most its hold. */
export function chargeWithinHold(cost: Nanos, hold: Nanos): Nanos {
  return cost < hold ? cost : hold
}

/**
 * Splits a cost between hoster and platform. The hoster's share rounds down and the platform gets the
 * remainder: the sum is exact.
 */
export function splitCost(cost: Nanos, hosterShareBps: number): { hosterShareNanos: Nanos; feeNanos: Nanos } {
  const hosterShareNanos = (cost * BigInt(hosterShareBps)) / BPS
  return { hosterShareNanos, feeNanos: cost - hosterShareNanos }
}

/**
 * Converts to USD as a JSON number. Exact to the nano-USD up to 15 significant digits (amounts below one
 * million USD); above that, the nearest double. Add amounts as integers before the conversion, never these
 * numbers.
 */
export function usd(nanos: Nanos): number {
  const whole = Number(nanos)
  // The division rounds to the nearest double, as parsing the text does, and takes a tenth of the time.
  return Number.isSafeInteger(whole) ? whole / Number(NANOS_PER_USD) : Number(usdText(nanos))
}

/** Formats USD as decimal text with `decimalsMin` to 9 decimals: 5_000_000_000n is "5.00". Exact. */
export function usdText(nanos: Nanos, decimalsMin = 2): string {
  const sign = nanos < 0n ? '-' : ''
  const size = nanos < 0n ? -nanos : nanos
  const fraction = (size % NANOS_PER_USD).toString().padStart(9, '0')
  const trimmed = fraction.replace(/(?<!0)0+$/, '').padEnd(decimalsMin, '0')
  return `${sign}${size / NANOS_PER_USD}${trimmed === '' ? '' : `.${trimmed}`}`
}

/**
 * Returns the signup credit that the gateway may give: `signup.credit_usd`, at most 100 USD. `check_signup_credit` in SQL refuses more.
 * The command line opens accounts by another function, and gives the full amount.
 */
export function signupCredit(creditNanos: Nanos): Nanos {
  return creditNanos < SIGNUP_CREDIT_NANOS_MAX ? creditNanos : SIGNUP_CREDIT_NANOS_MAX
}

const SIGNUP_CREDIT_NANOS_MAX = 100n * NANOS_PER_USD

/** Converts to millionths of a USD, rounded half away from zero. Call it on a sum, never on its parts. */
export function microdollars(nanos: Nanos): number {
  const half = NANOS_PER_MICRO / 2n
  return Number(nanos < 0n ? -((-nanos + half) / NANOS_PER_MICRO) : (nanos + half) / NANOS_PER_MICRO)
}

/**
 * Reads decimal USD such as "5", "0.25" or "1.000000001"; undefined for anything else (signs, exponents, more
 * than 9 decimals).
 */
export function parseUsd(text: string): Nanos | undefined {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text.trim())
  if (!match) return undefined
  const [, whole = '', decimals = ''] = match
  return BigInt(whole) * NANOS_PER_USD + BigInt(decimals.padEnd(9, '0'))
}

/**
 * Reads a price in decimal USD per million tokens (at most 6 decimals) into picodollars per token; undefined
 * for anything else.
 */
export function parsePricePerMillion(text: string): bigint | undefined {
  const match = /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(text.trim())
  if (!match) return undefined
  const [, whole = '', decimals = ''] = match
  return BigInt(whole) * 1_000_000n + BigInt(decimals.padEnd(6, '0'))
}

/**
 * Reads a price in decimal USD per token (at most 12 decimals) into picodollars per token; undefined for anything
 * else.
 */
export function parseUsdPerToken(text: string): bigint | undefined {
  const match = /^(\d{1,6})(?:\.(\d{1,12}))?$/.exec(text.trim())
  if (!match) return undefined
  const [, whole = '', decimals = ''] = match
  return BigInt(whole) * PICOS_PER_USD + BigInt(decimals.padEnd(12, '0'))
}

/** Formats a price as decimal USD per token: 250_000n is "0.00000025". Exact. */
export function usdPerTokenText(picoPerToken: bigint): string {
  const fraction = (picoPerToken % PICOS_PER_USD)
    .toString()
    .padStart(12, '0')
    .replace(/(?<!0)0+$/, '')
  return `${picoPerToken / PICOS_PER_USD}${fraction === '' ? '' : `.${fraction}`}`
}

/** Converts a price to USD per million tokens as a JSON number, for price lists. */
export function usdPerMillion(picoPerToken: bigint): number {
  return Number(picoPerToken) / 1_000_000
}

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
export function billedCost(
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
