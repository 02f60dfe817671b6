import type { UsageParts } from '../src/base/domain/answer-event.ts'
import { inputKinds, outputKinds, type PartKind } from '../src/base/domain/money.ts'
import type { ListedPrice, ListedWindow, PriceList } from '../src/base/domain/price-list.ts'
import type { Random } from './random.ts'

/** How the tokens of a request divide into parts, in thousandths. */
export interface PartUse {
  /** Of the prompt; at most 1,000 in all. The rest is fresh. */
  readonly read: number
  readonly written: number
  /** Of the prompt, where long writes are sold; elsewhere they are written as usual. */
  readonly writtenLong: number
  /** Of the prompt, within what is fresh. */
  readonly audio: number
  readonly image: number
  /** Of the answer. */
  readonly spoken: number
  readonly drawn: number
}

/** A price list, and the windows that it gets once the start of the run is known. */
export interface PlannedPrices {
  readonly list: PriceList
  readonly windows: readonly PlannedWindow[]
}

/** A window near the run, in minutes after its first minute. */
interface PlannedWindow {
  readonly afterMinutes: number
  readonly minutes: number
  readonly days: 'today' | 'every' | 'another'
  readonly price: ListedPrice
}

/** Plans prices. Half of them have nothing but an input and an output price. `inputTokens`: the length of the prompt. */
export function planPrices(random: Random, input: bigint, output: bigint, inputTokens: number): PlannedPrices {
  if (random.chance(0.5)) {
    return { list: { input, output, parts: {}, perRequest: 0n, steps: [], windows: [] }, windows: [] }
  }
  const sellsLongWrites = random.chance(0.4)
  const priceTimes = (factor: number) =>
    planPrice(random, input * BigInt(factor), output * BigInt(factor), sellsLongWrites)
  const step = () => ({
    ...priceTimes(random.pick([1, 2, 5])),
    // Steps at the length of the prompt show whether it is above them.
    aboveInputTokens: Math.max(1, random.pick([inputTokens, inputTokens - 1, random.between(1, 20_000)])),
  })
  const window = () => ({
    price: priceTimes(random.pick([1, 2, 2])),
    afterMinutes: random.between(-2, 1),
    minutes: random.between(1, 3),
    days: random.pick(['today', 'today', 'every', 'another'] as const),
  })
  const several = <Item>(make: () => Item) => Array.from({ length: random.pick([0, 0, 1, 2]) }, make)
  const first = planPrice(random, input, output, sellsLongWrites)
  const steps = new Map(several(step).map(planned => [planned.aboveInputTokens, planned]))
  return { list: { ...first, steps: [...steps.values()], windows: [] }, windows: several(window) }
}

function planPrice(random: Random, input: bigint, output: bigint, sellsLongWrites: boolean): ListedPrice {
  const of = (price: bigint, least: number, most: number) => (price * BigInt(random.between(least, most))) / 1_000n
  return {
    input,
    output,
    parts: {
      ...(random.chance(0.7) && { cache_read: of(input, 0, 1_000) }),
      ...(random.chance(0.5) && { cache_write: of(input, 500, 3_000) }),
      ...(sellsLongWrites && { cache_write_long: of(input, 500, 4_000) }),
      ...(random.chance(0.3) && { input_audio: of(input, 500, 8_000) }),
      ...(random.chance(0.3) && { input_image: of(input, 500, 3_000) }),
      ...(random.chance(0.3) && { output_audio: of(output, 500, 4_000) }),
      ...(random.chance(0.3) && { output_image: of(output, 500, 4_000) }),
    },
    perRequest: random.chance(0.3) ? BigInt(random.pick([random.between(1, 999), random.between(1, 5_000_000)])) : 0n,
  }
}

/** Returns the list with its windows, for a run that starts at `epochMs`. */
export function listAt({ list, windows }: PlannedPrices, epochMs: number): PriceList {
  return {
    ...list,
    windows: windows.map(({ price, afterMinutes, minutes, days }): ListedWindow => {
      const from = new Date(epochMs + afterMinutes * 60_000)
      const fromMinute = from.getUTCHours() * 60 + from.getUTCMinutes()
      const today = from.getUTCDay()
      return {
        ...price,
        days: days === 'every' ? [0, 1, 2, 3, 4, 5, 6] : [days === 'today' ? today : (today + 3) % 7],
        fromMinute,
        untilMinute: Math.min(fromMinute + minutes, 1_440),
      }
    }),
  }
}

export function planPartUse(random: Random): PartUse | null {
  if (random.chance(0.4)) return null
  const read = random.between(0, 1_000)
  const written = random.chance(0.5) ? random.between(0, 1_000 - read) : 0
  const writtenLong = random.chance(0.3) ? random.between(0, 1_000 - read - written) : 0
  const share = () => (random.chance(0.2) ? random.between(0, 300) : 0)
  return { read, written, writtenLong, audio: share(), image: share(), spoken: share(), drawn: share() }
}

/** Returns the tokens of media in a prompt of `input` tokens, at most. */
export function mediaTokens(use: PartUse | null, input: number): number {
  return use === null ? 0 : Math.ceil((input * (use.audio + use.image)) / 1_000)
}

/** The parts of these tokens, as an honest server reports them; null when all are fresh text. */
export function partsOf(use: PartUse | null, list: PriceList, input: number, output: number): UsageParts | null {
  if (use === null) return null
  const read = Math.floor((input * use.read) / 1_000)
  const written = Math.floor((input * use.written) / 1_000)
  const long = Math.floor((input * use.writtenLong) / 1_000)
  const sold = list.parts.cache_write_long !== undefined ? long : 0
  const fresh = input - read - written - long
  const audio = Math.min(fresh, Math.floor((input * use.audio) / 1_000))
  return {
    freshTokens: fresh,
    cacheReadTokens: read,
    cacheWriteTokens: written + long - sold,
    cacheWriteLongTokens: sold,
    outputTokens: output,
    reasoningTokens: null,
    inputAudioTokens: audio,
    inputImageTokens: Math.min(fresh - audio, Math.floor((input * use.image) / 1_000)),
    outputAudioTokens: Math.floor((output * use.spoken) / 1_000),
    outputImageTokens: Math.floor((output * use.drawn) / 1_000),
  }
}

/** The rules of docs/money.md in other terms: what these tokens cost at a cloud at a time, in picodollars. */
export function listedPicos(list: PriceList, atMs: number, use: PartUse | null, input: number, output: number): bigint {
  if (input + output === 0) return 0n
  const rows = rowsFor(list, atMs, input)
  const parts = partsOf(use, list, input, output)
  const [audio, image] = [parts?.inputAudioTokens ?? 0, parts?.inputImageTokens ?? 0]
  const [spoken, drawn] = [parts?.outputAudioTokens ?? 0, parts?.outputImageTokens ?? 0]
  const tokens: Record<Kind, number> = {
    input: (parts?.freshTokens ?? input) - audio - image,
    cache_read: parts?.cacheReadTokens ?? 0,
    cache_write: parts?.cacheWriteTokens ?? 0,
    cache_write_long: parts?.cacheWriteLongTokens ?? 0,
    input_audio: audio,
    input_image: image,
    output: output - spoken - drawn,
    output_audio: spoken,
    output_image: drawn,
  }
  let picos = most(rows.map(row => row.perRequest))
  for (const kind of kinds) picos += BigInt(tokens[kind]) * highest(rows, kind)
  return picos
}

/** The most that a prompt of up to `input` tokens can cost at a cloud at a time, in picodollars. */
export function highestPicos(list: PriceList, atMs: number, input: number, output: number, media: number): bigint {
  const lengths = [1, ...list.steps.map(({ aboveInputTokens }) => aboveInputTokens + 1)].filter(
    length => length === 1 || length <= input,
  )
  const rows = lengths.flatMap(length => rowsFor(list, atMs, length))
  const sellsLongWrites = list.parts.cache_write_long !== undefined
  const texts = [
    'input',
    'cache_read',
    'cache_write',
    ...(sellsLongWrites ? ['cache_write_long' as const] : []),
  ] as const
  const mostInput = most(texts.map(kind => highest(rows, kind)))
  const mostOutput = most((['output', 'output_audio', 'output_image'] as const).map(kind => highest(rows, kind)))
  const mostMedia = most([mostInput, highest(rows, 'input_audio'), highest(rows, 'input_image')])
  return (
    mostInput * BigInt(input) +
    (mostMedia - mostInput) * BigInt(media) +
    mostOutput * BigInt(output) +
    most(rows.map(row => row.perRequest))
  )
}

type Kind = PartKind | 'input' | 'output'
const kinds: readonly Kind[] = ['input', 'output', ...inputKinds, ...outputKinds]

/** The step of a prompt of this length and the windows of the time; the list itself where neither applies. */
function rowsFor(list: PriceList, atMs: number, input: number): readonly ListedPrice[] {
  const time = new Date(atMs)
  const minute = time.getUTCHours() * 60 + time.getUTCMinutes()
  const step = list.steps
    .filter(({ aboveInputTokens }) => input > aboveInputTokens)
    .toSorted((a, b) => b.aboveInputTokens - a.aboveInputTokens)
    .slice(0, 1)
  const windows = list.windows.filter(
    ({ days, fromMinute, untilMinute }) =>
      days.includes(time.getUTCDay()) && minute >= fromMinute && minute < untilMinute,
  )
  const rows = [...step, ...windows]
  return rows.length > 0 ? rows : [list]
}

const highest = (rows: readonly ListedPrice[], kind: Kind) => most(rows.map(row => priceAt(row, kind)))

function priceAt(row: ListedPrice, kind: Kind): bigint {
  const { input, output, parts } = row
  switch (kind) {
    case 'input':
      return input
    case 'output':
      return output
    case 'cache_read':
      return parts.cache_read ?? input
    case 'cache_write':
      return parts.cache_write ?? roundedUp(input * 5n, 4n)
    case 'cache_write_long':
      return parts.cache_write_long ?? most([input * 2n, priceAt(row, 'cache_write')])
    case 'input_audio':
    case 'input_image':
      return parts[kind] ?? most([input, ...inputKinds.flatMap(each => parts[each] ?? [])])
    case 'output_audio':
    case 'output_image':
      return parts[kind] ?? most([output, ...outputKinds.flatMap(each => parts[each] ?? [])])
  }
}

const most = (amounts: readonly bigint[]) => amounts.reduce((a, b) => (a > b ? a : b))
const roundedUp = (amount: bigint, by: bigint) => amount / by + (amount % by === 0n ? 0n : 1n)
