import { DAY_MS, MINUTE_MS } from './durations.ts'
import { inputKinds, type OfferPrice, outputKinds, type PartKind, type PriceStep, type TokenPrice } from './money.ts'

/** Prices of a model as they are written down. Picodollars per token. */
export interface ListedPrice {
  readonly input: bigint
  readonly output: bigint
  /** An absent kind has no price of its own, which never means that it is free: see `completeParts`. */
  readonly parts: Readonly<Partial<Record<PartKind, bigint>>>
  /** Picodollars for each request. */
  readonly perRequest: bigint
}

/** The whole price list of a model. Each step and each window is complete: it inherits nothing. */
export interface PriceList extends ListedPrice {
  readonly steps: readonly ListedStep[]
  readonly windows: readonly ListedWindow[]
}

/** Prices of prompts of more than `aboveInputTokens`, for the whole request. */
export interface ListedStep extends ListedPrice {
  readonly aboveInputTokens: number
}

/** Prices of requests that begin at certain times of the week, in UTC. */
export interface ListedWindow extends ListedPrice {
  /** 0 is Sunday. */
  readonly days: readonly number[]
  /** Minutes of the day: from 0 up to, not including, at most 1,440. */
  readonly fromMinute: number
  readonly untilMinute: number
}

/** Cached tokens that a hoster reports only lower a bill. Clouds charge for what they write to their caches. */
type Seller = 'local' | 'hoster' | 'cloud'

/** The prices of an offer: those that apply now, and how they change, if they do. */
export function pricesOf(list: PriceList, seller: Seller): { price: OfferPrice; timedPrices?: PriceList } {
  // The catalog replaces a timed price by the current one.
  return { price: offerPrice(list, seller, 0), ...(list.windows.length > 0 && { timedPrices: list }) }
}

/** A list with nothing but an input and an output price. */
export function plainPrices(input: bigint, output: bigint): PriceList {
  return { input, output, parts: {}, perRequest: 0n, steps: [], windows: [] }
}

/**
 * Returns the price of an offer at a time. Where a step and a window apply at once, each kind of token costs the
 * higher of the two prices.
 */
export function offerPrice(list: PriceList, seller: Seller, atEpochMs: number): OfferPrice {
  const inForce = windowsAt(list, atEpochMs).map(window => rowOf(window, seller))
  const base = inForce.length === 0 ? rowOf(list, seller) : inForce.reduce(higher)
  const rows = list.steps
    .toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens)
    .map(step => ({ ...inForce.reduce(higher, rowOf(step, seller)), aboveInputTokens: step.aboveInputTokens }))
  const { price } = base
  if (rows.length === 0 && seller !== 'cloud' && list.perRequest === 0n && !hasOwnPrices(list)) return price
  return {
    ...price,
    terms: {
      steps: withHolds([{ ...base, aboveInputTokens: 0 }, ...rows]),
      sellsLongWrites: [list, ...list.steps, ...list.windows].every(row => row.parts.cache_write_long !== undefined),
    },
  }
}

/** Returns the windows that apply to requests which begin at this time. */
export function windowsAt({ windows }: PriceList, atEpochMs: number): readonly ListedWindow[] {
  return windows.filter(window => isWithin(window, atEpochMs))
}

/** Returns when the price next changes, in epoch milliseconds; Infinity when it never does. */
export function nextChangeMs({ windows }: PriceList, atEpochMs: number): number {
  const midnightMs = Math.floor(atEpochMs / DAY_MS) * DAY_MS
  const edges = windows.flatMap(({ fromMinute, untilMinute }) => [fromMinute, untilMinute])
  const changes = edges.map(minute => {
    const todayMs = midnightMs + minute * MINUTE_MS
    return todayMs > atEpochMs ? todayMs : todayMs + DAY_MS
  })
  return Math.min(...changes)
}

function isWithin({ days, fromMinute, untilMinute }: ListedWindow, atEpochMs: number): boolean {
  const minute = Math.floor((atEpochMs % DAY_MS) / MINUTE_MS)
  return days.includes(new Date(atEpochMs).getUTCDay()) && minute >= fromMinute && minute < untilMinute
}

const hasOwnPrices = (list: PriceList) => [list, ...list.windows].some(({ parts }) => Object.keys(parts).length > 0)

interface Row {
  readonly price: TokenPrice
  readonly parts: Readonly<Record<PartKind, bigint>>
  readonly perRequestPicos: bigint
  /**
   * The parts that a request can always cause: what it is not asked for, such as long writes, has a price of its own.
   */
  readonly written: ReadonlySet<PartKind>
}

function rowOf(listed: ListedPrice, seller: Seller): Row {
  return {
    price: { inputPicoPerToken: listed.input, outputPicoPerToken: listed.output },
    parts: completeParts(listed, seller),
    perRequestPicos: listed.perRequest,
    written: new Set(Object.keys(listed.parts) as PartKind[]),
  }
}

/** Gives every kind of token a price. */
function completeParts(listed: ListedPrice, seller: Seller): Record<PartKind, bigint> {
  const { input, output, parts } = listed
  const highestInput = inputKinds.reduce((most, kind) => max(most, parts[kind] ?? 0n), input)
  const highestOutput = outputKinds.reduce((most, kind) => max(most, parts[kind] ?? 0n), output)
  const isCloud = seller === 'cloud'
  const write = parts.cache_write ?? (isCloud ? (input * 5n + 3n) / 4n : input)
  const complete = {
    cache_read: parts.cache_read ?? input,
    cache_write: write,
    cache_write_long: parts.cache_write_long ?? max(write, isCloud ? input * 2n : input),
    input_audio: parts.input_audio ?? highestInput,
    input_image: parts.input_image ?? highestInput,
    output_audio: parts.output_audio ?? highestOutput,
    output_image: parts.output_image ?? highestOutput,
  }
  if (seller !== 'hoster') return complete
  for (const kind of inputKinds) complete[kind] = min(complete[kind], input)
  for (const kind of outputKinds) complete[kind] = min(complete[kind], output)
  return complete
}

function higher(a: Row, b: Row): Row {
  const parts = { ...a.parts }
  for (const kind of [...inputKinds, ...outputKinds]) parts[kind] = max(a.parts[kind], b.parts[kind])
  return {
    price: {
      inputPicoPerToken: max(a.price.inputPicoPerToken, b.price.inputPicoPerToken),
      outputPicoPerToken: max(a.price.outputPicoPerToken, b.price.outputPicoPerToken),
    },
    parts,
    perRequestPicos: max(a.perRequestPicos, b.perRequestPicos),
    written: a.written.union(b.written),
  }
}

/**
 * Adds to each step what a hold takes: the highest of this step and of those below, which a shorter prompt may reach.
 */
function withHolds(rows: readonly (Row & { readonly aboveInputTokens: number })[]): PriceStep[] {
  let [input, output, media, perRequest] = [0n, 0n, 0n, 0n]
  return rows.map(({ aboveInputTokens, price, parts, perRequestPicos, written }) => {
    input = [price.inputPicoPerToken, parts.cache_read, parts.cache_write].reduce(max, input)
    if (written.has('cache_write_long')) input = max(input, parts.cache_write_long)
    output = [price.outputPicoPerToken, parts.output_audio, parts.output_image].reduce(max, output)
    media = [parts.input_audio, parts.input_image].reduce(max, media)
    perRequest = max(perRequest, perRequestPicos)
    return {
      aboveInputTokens,
      price,
      parts,
      perRequestPicos,
      held: { inputPicoPerToken: input, outputPicoPerToken: output },
      heldMediaPicos: max(media - input, 0n),
      heldPerRequestPicos: perRequest,
    }
  })
}

const max = (a: bigint, b: bigint) => (a > b ? a : b)
const min = (a: bigint, b: bigint) => (a < b ? a : b)
