import fc from 'fast-check'
import { inputKinds, outputKinds, type PartKind } from '../../src/base/domain/money.ts'
import type { ListedPrice, ListedWindow, PriceList } from '../../src/base/domain/price-list.ts'

export const sellers = ['local', 'hoster', 'cloud'] as const
export type Seller = (typeof sellers)[number]
export type Kind = PartKind | 'input' | 'output'

const picos = fc.oneof(fc.constant(0n), fc.bigInt({ min: 1n, max: 50_000_000n }))
const kinds = [...inputKinds, ...outputKinds] as const
const listedPrice: fc.Arbitrary<ListedPrice> = fc.record({
  input: picos,
  output: picos,
  parts: fc.record(Object.fromEntries(kinds.map(kind => [kind, picos])) as Record<PartKind, typeof picos>, {
    requiredKeys: [],
  }),
  perRequest: picos,
})
const window: fc.Arbitrary<ListedWindow> = fc
  .record({
    price: listedPrice,
    days: fc.subarray([0, 1, 2, 3, 4, 5, 6], { minLength: 1 }),
    edges: fc.uniqueArray(fc.integer({ min: 0, max: 24 }), { minLength: 2, maxLength: 2 }),
  })
  .map(({ price, days, edges }) => {
    const [from, until] = edges.toSorted((a, b) => a - b) as [number, number]
    return { ...price, days, fromMinute: from * 60, untilMinute: until * 60 }
  })

/** Price lists with any kinds of tokens, up to three steps and two windows. */
export const priceList: fc.Arbitrary<PriceList> = fc
  .record({
    price: listedPrice,
    steps: fc.array(fc.tuple(listedPrice, fc.integer({ min: 1, max: 2_000 })), { maxLength: 3 }),
    windows: fc.array(window, { maxLength: 2 }),
  })
  .map(({ price, steps, windows }) => ({
    ...price,
    steps: steps.map(([step, aboveInputTokens]) => ({ ...step, aboveInputTokens })),
    windows,
  }))

const MONDAY_MS = Date.UTC(2026, 10, 23)
/** Times within a week, many of them at full hours, where windows begin and end. */
export const weekTimeMs = fc
  .tuple(fc.integer({ min: 0, max: 7 * 24 - 1 }), fc.constantFrom(-1, 0, 0, 1, 1_799_000))
  .map(([hours, ms]) => MONDAY_MS + hours * 3_600_000 + ms)

/**
 * Returns what docs/money.md asks for a kind of token, in other words than the code: the most of the rows that apply
 * to a prompt of this length at this time.
 */
export function ruledPrice(list: PriceList, seller: Seller, atMs: number, inputTokens: number, kind: Kind): bigint {
  return most(...rowsFor(list, atMs, inputTokens).map(row => rowPrice(row, kind, seller)))
}

export function ruledRequestPrice(list: PriceList, atMs: number, inputTokens: number): bigint {
  return most(...rowsFor(list, atMs, inputTokens).map(({ perRequest }) => perRequest))
}

/** The step of the prompt and the windows of the time, or the row itself if there are neither. */
function rowsFor(list: PriceList, atMs: number, inputTokens: number): readonly ListedPrice[] {
  const time = new Date(atMs)
  const minute = time.getUTCHours() * 60 + time.getUTCMinutes()
  const steps = list.steps
    .filter(({ aboveInputTokens }) => aboveInputTokens < inputTokens)
    .toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens)
  const windows = list.windows.filter(
    ({ days, fromMinute, untilMinute }) =>
      days.includes(time.getUTCDay()) && fromMinute <= minute && minute < untilMinute,
  )
  const rows = [...steps.slice(-1), ...windows]
  return rows.length === 0 ? [list] : rows
}

function rowPrice(row: ListedPrice, kind: Kind, seller: Seller): bigint {
  if (kind === 'input' || kind === 'output') return row[kind]
  const base = kind.startsWith('output') ? row.output : row.input
  const written = row.parts.cache_write ?? (seller === 'cloud' ? (row.input * 125n + 99n) / 100n : row.input)
  const rule = {
    cache_read: row.input,
    cache_write: written,
    cache_write_long: most(written, seller === 'cloud' ? row.input * 2n : row.input),
    input_audio: most(row.input, ...inputKinds.map(each => row.parts[each])),
    input_image: most(row.input, ...inputKinds.map(each => row.parts[each])),
    output_audio: most(row.output, ...outputKinds.map(each => row.parts[each])),
    output_image: most(row.output, ...outputKinds.map(each => row.parts[each])),
  }[kind]
  const price = row.parts[kind] ?? rule
  return seller === 'hoster' && price > base ? base : price
}

export function most(...prices: readonly (bigint | undefined)[]): bigint {
  return prices.reduce<bigint>((a, b) => (b !== undefined && b > a ? b : a), 0n)
}
