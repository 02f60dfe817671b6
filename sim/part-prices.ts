import type { UsageParts } from '../src/domain/answer-event.ts'
import type { ListedPrice, PriceList } from '../src/domain/price-list.ts'
import type { Random } from './random.ts'

/** Which thousandths of the prompt a cache read and wrote; the rest is fresh. At most 1,000 in all. */
export interface CacheUse {
  readonly read: number
  readonly written: number
}

/** Plans a price list. Half of them have nothing but an input and an output price. */
export function planPriceList(random: Random, input: bigint, output: bigint): PriceList {
  const base = planPrice(random, input, output)
  if (random.chance(0.5)) return { ...base, parts: {}, perRequest: 0n, steps: [], windows: [] }
  const factor = BigInt(random.pick([1, 2, 5]))
  const step = { ...planPrice(random, input * factor, output * factor), aboveInputTokens: random.between(1, 20_000) }
  return { ...base, steps: random.chance(0.5) ? [step] : [], windows: [] }
}

function planPrice(random: Random, input: bigint, output: bigint): ListedPrice {
  const of = (least: number, most: number) => (input * BigInt(random.between(least, most))) / 1_000n
  return {
    input,
    output,
    parts: {
      ...(random.chance(0.7) && { cache_read: of(0, 1_000) }),
      ...(random.chance(0.5) && { cache_write: of(500, 3_000) }),
    },
    perRequest: random.chance(0.2) ? BigInt(random.between(1, 999)) : 0n,
  }
}

export function planCacheUse(random: Random): CacheUse | null {
  if (random.chance(0.4)) return null
  const read = random.between(0, 1_000)
  return { read, written: random.chance(0.5) ? random.between(0, 1_000 - read) : 0 }
}

/** The parts of these tokens; null when all are fresh. */
export function partsOf(use: CacheUse | null, input: number, output: number): UsageParts | null {
  if (use === null) return null
  const read = Math.floor((input * use.read) / 1_000)
  const written = Math.floor((input * use.written) / 1_000)
  return {
    freshTokens: input - read - written,
    cacheReadTokens: read,
    cacheWriteTokens: written,
    cacheWriteLongTokens: 0,
    outputTokens: output,
    reasoningTokens: null,
  }
}

/** The rules of docs/money.md in other terms: what these tokens cost at a cloud, in picodollars. */
export function listedPicos(list: PriceList, use: CacheUse | null, input: number, output: number): bigint {
  if (input + output === 0) return 0n
  const row = list.steps.findLast(({ aboveInputTokens }) => input > aboveInputTokens) ?? list
  const parts = partsOf(use, input, output)
  return (
    row.input * BigInt(parts?.freshTokens ?? input) +
    (row.parts.cache_read ?? row.input) * BigInt(parts?.cacheReadTokens ?? 0) +
    writePrice(row) * BigInt(parts?.cacheWriteTokens ?? 0) +
    row.output * BigInt(output) +
    row.perRequest
  )
}

/** The most that a prompt of up to `input` tokens can cost at a cloud, in picodollars. */
export function highestPicos(list: PriceList, input: number, output: number): bigint {
  const rows: readonly ListedPrice[] = [list, ...list.steps.filter(({ aboveInputTokens }) => input > aboveInputTokens)]
  const most = (priceOf: (row: ListedPrice) => bigint) => rows.map(priceOf).reduce((a, b) => (a > b ? a : b))
  const highestInput = [
    most(row => row.input),
    most(row => row.parts.cache_read ?? row.input),
    most(writePrice),
  ].reduce((a, b) => (a > b ? a : b))
  return highestInput * BigInt(input) + most(row => row.output) * BigInt(output) + most(row => row.perRequest)
}

const writePrice = (row: ListedPrice) => row.parts.cache_write ?? roundedUp(row.input * 5n, 4n)
const roundedUp = (amount: bigint, by: bigint) => amount / by + (amount % by === 0n ? 0n : 1n)
