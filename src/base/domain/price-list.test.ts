import { expect, test } from 'vitest'
import { type ListedPrice, nextChangeMs, offerPrice, type PriceList, plainPrices } from './price-list.ts'

const listed = (input: bigint, output: bigint, parts: ListedPrice['parts'] = {}): ListedPrice => ({
  input,
  output,
  parts,
  perRequest: 0n,
})
const workdays = [1, 2, 3, 4, 5]
/** Like DeepSeek: double on weekdays from 01:00 to 04:00 and from 06:00 to 10:00 UTC. */
const timed: PriceList = {
  ...plainPrices(100n, 400n),
  windows: [
    { ...listed(200n, 800n), days: workdays, fromMinute: 60, untilMinute: 240 },
    { ...listed(200n, 800n), days: workdays, fromMinute: 360, untilMinute: 600 },
  ],
}
const MONDAY_MS = Date.UTC(2026, 10, 23)
const at = (hours: number, dayMs = MONDAY_MS) => dayMs + hours * 3_600_000
const inputAt = (epochMs: number) => offerPrice(timed, 'local', epochMs).inputPicoPerToken

test('a window applies from its first millisecond to its last, on its days', () => {
  expect([at(0.99), at(1), at(4) - 1, at(4), at(6), at(10)].map(inputAt)).toEqual([100n, 200n, 200n, 100n, 200n, 100n])
  expect(inputAt(at(2, MONDAY_MS - 86_400_000))).toBe(100n)
})

test('a price is known to hold until the next edge of a window', () => {
  expect([at(0), at(1), at(3.5), at(5), at(12)].map(nowMs => nextChangeMs(timed, nowMs))).toEqual([
    at(1),
    at(4),
    at(4),
    at(6),
    at(25),
  ])
  expect(nextChangeMs(plainPrices(1n, 2n), 0)).toBe(Infinity)
})

test('where a window and a step apply at once, each kind of token costs the more expensive', () => {
  const list: PriceList = {
    ...timed,
    steps: [{ ...listed(150n, 900n, { cache_read: 30n }), aboveInputTokens: 1_000 }],
  }
  const [base, step] = offerPrice(list, 'local', at(2)).terms!.steps
  expect(base!.price).toEqual({ inputPicoPerToken: 200n, outputPicoPerToken: 800n })
  expect(step).toMatchObject({
    aboveInputTokens: 1_000,
    price: { inputPicoPerToken: 200n, outputPicoPerToken: 900n },
    parts: { cache_read: 200n },
  })
})

test('an absent price is never 0', () => {
  const { parts } = offerPrice(plainPrices(10n, 40n), 'cloud', 0).terms!.steps[0]!
  expect(parts).toEqual({
    cache_read: 10n,
    cache_write: 13n,
    cache_write_long: 20n,
    input_audio: 10n,
    input_image: 10n,
    output_audio: 40n,
    output_image: 40n,
  })
  const audio = { ...plainPrices(10n, 40n), parts: { input_audio: 80n } }
  expect(offerPrice(audio, 'local', 0).terms!.steps[0]!.parts).toMatchObject({ cache_write: 10n, input_image: 80n })
})

test('an offer with nothing but an input and an output price has no terms, so requests pay nothing for them', () => {
  for (const seller of ['local', 'hoster'] as const) {
    expect(offerPrice(plainPrices(1n, 2n), seller, 0)).toEqual({ inputPicoPerToken: 1n, outputPicoPerToken: 2n })
  }
})
