import { DAY_MS, MINUTE_MS } from '../../../base/domain/durations.ts'
import { type OfferPrice, stepOf } from '../../../base/domain/money.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { type ListedWindow, offerPrice, type PriceList, windowsAt } from '../../../base/domain/price-list.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import type { PublishedModel, PublishedPrices } from './published-prices.ts'

/** A price of an offer that is not the published one. Picodollars per token. */
export interface PriceDifference {
  readonly tokens: (typeof names)[keyof typeof names]
  /** The prompts that it applies to: those above this length. 0: all that no higher step applies to. */
  readonly aboveInputTokens: number
  /** The times of the week that it applies to, such as `Mon-Fri 01:00-04:00`, in UTC. Null: all others. */
  readonly window: string | null
  readonly ours: bigint
  readonly published: bigint
}

/**
 * Compares an offer with the published prices of its model, at all times of the week at which its price differs, and
 * for prompts of each length at which one of the two changes. Kinds without a published price are left out, and so is
 * audio where the offer takes none.
 */
export function comparePrices(offer: Offer, published: PublishedModel): PriceDifference[] {
  const compared = kinds.filter(kind => offer.features.has('audio') || !kind.endsWith('Audio'))
  return pricesByTime(offer).flatMap(({ window, price }) =>
    lengthsOf(price, published).flatMap(aboveInputTokens => {
      const ours = pricesAt(price, aboveInputTokens + 1)
      const theirs: PublishedPrices =
        published.steps.findLast(step => aboveInputTokens >= step.aboveInputTokens) ?? published
      return compared.flatMap(kind => {
        const listed = theirs[kind]
        if (listed === undefined || listed === ours[kind]) return []
        return [{ tokens: names[kind], aboveInputTokens, window, ours: ours[kind], published: listed }]
      })
    }),
  )
}

/** Returns the bounds of prompts at which one of the two prices changes, ascending. */
function lengthsOf({ terms }: OfferPrice, published: PublishedModel): number[] {
  const steps = [...(terms?.steps ?? []), ...published.steps]
  return [...new Set([0, ...steps.map(({ aboveInputTokens }) => aboveInputTokens)])].sort((a, b) => a - b)
}

const names = {
  input: 'input',
  output: 'output',
  cacheRead: 'cache_read',
  cacheWrite: 'cache_write',
  inputAudio: 'input_audio',
  outputAudio: 'output_audio',
} as const
const kinds = Object.keys(names) as (keyof typeof names)[]

function pricesAt(price: OfferPrice, inputTokens: number): Record<keyof typeof names, bigint> {
  const step = price.terms && stepOf(price.terms, inputTokens)
  const { inputPicoPerToken: input, outputPicoPerToken: output } = step?.price ?? price
  return {
    input,
    output,
    cacheRead: step?.parts.cache_read ?? input,
    cacheWrite: step?.parts.cache_write ?? input,
    inputAudio: step?.parts.input_audio ?? input,
    outputAudio: step?.parts.output_audio ?? output,
  }
}

/** A price of an offer and the times at which it applies. */
interface TimedPrice {
  /** The windows in force, such as `Mon-Fri 01:00-04:00`, in UTC. Null: no window. */
  readonly window: string | null
  readonly price: OfferPrice
}

/** Returns every price that an offer has in the course of a week, each once. */
function pricesByTime({ price, timedPrices, endpoint }: Offer): TimedPrice[] {
  if (timedPrices === undefined) return [{ window: null, price }]
  const found = new Map<string, TimedPrice>()
  for (const atMs of changesOfWeek(timedPrices)) {
    const window = windowsAt(timedPrices, atMs).map(windowText).join(' and ')
    if (found.has(window)) continue
    found.set(window, { window: window || null, price: offerPrice(timedPrices, endpoint.kind, atMs) })
  }
  return [...found.values()]
}

/** A Sunday, the first of the days of a window. */
const SUNDAY_MS = Date.UTC(2026, 10, 22)
const DAY_NAMES = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']

/** Every time of a week at which a window may begin or end. */
function changesOfWeek({ windows }: PriceList): number[] {
  const minutes = new Set([0, ...windows.flatMap(({ fromMinute, untilMinute }) => [fromMinute, untilMinute % 1_440])])
  return DAY_NAMES.flatMap((_, day) => [...minutes].map(minute => SUNDAY_MS + day * DAY_MS + minute * MINUTE_MS))
}

function windowText({ days, fromMinute, untilMinute }: ListedWindow): string {
  return `${daysText(days)} ${timeText(fromMinute)}-${timeText(untilMinute)}`
}

/** Days in a row are a range, in a week that starts on Monday. */
function daysText(days: readonly number[]): string {
  const ranges: [first: number, last: number][] = []
  for (const day of [...new Set(days)].map(each => (each + 6) % 7).toSorted((a, b) => a - b)) {
    const range = ranges.at(-1)
    if (range?.[1] === day - 1) range[1] = day
    else ranges.push([day, day])
  }
  const name = (day: number) => elementAt(DAY_NAMES, (day + 1) % 7)
  return ranges.map(([first, last]) => (first === last ? name(first) : `${name(first)}-${name(last)}`)).join(', ')
}

function timeText(minute: number): string {
  const two = (part: number) => String(part).padStart(2, '0')
  return `${two(Math.floor(minute / 60))}:${two(minute % 60)}`
}
