import fc from 'fast-check'
import { expect, test } from 'vitest'
import { outputCap } from '../../src/base/domain/request-bounds.ts'
import { affordableTokens, holdFor, maxTokensFor } from '../../src/request/admit/admit.ts'
import { eligible } from '../../src/request/admit/eligible.ts'
import { healthOf, jobOf, offerOf } from '../supply/random-market.ts'

const cheap = offerOf({ name: 'cheap', price: { inputPicoPerToken: 1_000n, outputPicoPerToken: 2_000n } })
const expensive = offerOf({ name: 'expensive', price: { inputPicoPerToken: 2_000n, outputPicoPerToken: 4_000n } })
const defaultMaxTokens = 4_096

test('the hold covers an explicit max_tokens at the most expensive candidate for every choice', () => {
  const job = jobOf({ inputTokensBound: 100, maxTokens: 50, choices: 2 })
  // 100 x 2 + 100 x 4 nano-USD.
  expect(holdFor([cheap, expensive], job, defaultMaxTokens)).toEqual({
    wantNanos: 600n,
    floorNanos: 600n,
    maxTokens: 50,
  })
})

test('without max_tokens the hold wants the default and needs at least 16 tokens', () => {
  const job = jobOf({ inputTokensBound: 100, choices: 2 })
  expect(holdFor([expensive], job, defaultMaxTokens)).toEqual({
    wantNanos: 200n + 2n * 4_096n * 4n,
    floorNanos: 200n + 2n * 16n * 4n,
    maxTokens: 4_096,
  })
})

test('with a max_tokens that may be clamped the hold wants all of it and needs at least 16 tokens', () => {
  const job = jobOf({ inputTokensBound: 100, maxTokens: 50, choices: 2, onInsufficient: 'clamp' })
  expect(holdFor([cheap, expensive], job, defaultMaxTokens)).toEqual({
    wantNanos: 600n,
    floorNanos: 328n,
    maxTokens: 50,
  })
  const few = jobOf({ inputTokensBound: 100, maxTokens: 5, onInsufficient: 'clamp' })
  expect(holdFor([expensive], few, defaultMaxTokens)).toEqual({ wantNanos: 220n, floorNanos: 220n, maxTokens: 5 })
})

test('the default is limited by the largest output of the model and the room in its context', () => {
  const maxTokens = (offer: ReturnType<typeof offerOf>, inputTokensBound = 100) =>
    holdFor([offer], jobOf({ inputTokensBound }), defaultMaxTokens).maxTokens
  expect(maxTokens(offerOf())).toBe(4_096)
  expect(maxTokens(offerOf({ maxOutputTokens: 512 }))).toBe(512)
  expect(maxTokens(offerOf({ contextTokens: 4_096 }))).toBe(4_096 - 35)
  expect(maxTokens(offerOf({ contextTokens: 4_096 }), 20_000)).toBe(16)
  // The default applies when one of several offers can generate that many.
  const both = [offerOf({ maxOutputTokens: 512 }), offerOf()]
  expect(holdFor(both, jobOf({ inputTokensBound: 100 }), defaultMaxTokens).maxTokens).toBe(4_096)
  // An image counts its flat token bound, not its bytes.
  const withImage = jobOf({ inputTokensBound: 100 + 2_048, mediaTokensBound: 2_048 })
  expect(holdFor([offerOf({ contextTokens: 4_096 })], withImage, defaultMaxTokens).maxTokens).toBe(4_096 - 35 - 2_048)
})

test('max_tokens is lowered to what the offer generates, and to what likely fits along with the prompt', () => {
  const asked = (fields: Parameters<typeof jobOf>[0]) =>
    outputCap(offerOf(), jobOf({ maxTokens: 32_000, ...fields }), 32_000)
  expect(asked({ inputTokensBound: 100 })).toBe(8_192)
  // 80,000 bytes are likely at most 28,000 of the 32,768 tokens of the context.
  expect(asked({ inputTokensBound: 80_000 })).toBe(4_768)
  expect(asked({ inputTokensBound: 80_000, maxTokens: 4_000 })).toBe(4_768)
  expect(outputCap(offerOf(), jobOf({ inputTokensBound: 80_000, maxTokens: 4_000 }), 4_000)).toBe(4_000)
})

test('the estimate alone does not lower an explicit max_tokens below 1,024, but a default down to 16', () => {
  const tight = offerOf({ contextTokens: 4_096 })
  const job = jobOf({ inputTokensBound: 20_000, maxTokens: 1_000 })
  expect(outputCap(tight, job, 1_000)).toBe(1_000)
  expect(outputCap(tight, { ...job, maxTokens: 4_000 }, 4_000)).toBe(1_024)
  expect(outputCap(tight, { ...job, maxTokens: null }, 1_000)).toBe(16)
  // At 8 bytes a token, the least that any tokenizer makes of it, 96 tokens are left.
  expect(outputCap(tight, { ...job, inputTokensBound: 32_000 }, 1_000)).toBe(96)
})

test('a max_tokens that no offer generates is lowered to the most of them, and the hold covers that', () => {
  const price = { inputPicoPerToken: 1_000n, outputPicoPerToken: 2_000n }
  const long = offerOf({ name: 'long', maxOutputTokens: 300, price })
  const short = offerOf({ name: 'short', maxOutputTokens: 100, price: { ...price, outputPicoPerToken: 3_000n } })
  const job = jobOf({ inputTokensBound: 100, maxTokens: 32_000 })
  const lowered = { maxTokens: 300, wantNanos: 700n, floorNanos: 700n, clampedBy: 'model' }
  expect(holdFor([long, short], job, defaultMaxTokens)).toEqual(lowered)
  expect(holdFor([short], job, defaultMaxTokens)).toMatchObject({ maxTokens: 100, wantNanos: 400n })
  expect(holdFor([long, short], jobOf({ inputTokensBound: 100 }), defaultMaxTokens)).not.toHaveProperty('clampedBy')
  // The smaller hold pays for all 100 tokens of `short`, and for 150 of `long`.
  expect(maxTokensFor([long, short], job, 400n)).toBe(150)
  expect(maxTokensFor([long, short], job, 397n)).toBe(99)
  expect(maxTokensFor([long, short], job, 700n)).toBe(Number.POSITIVE_INFINITY)
})

test('a smaller hold affords the tokens that it pays for at the most expensive candidate', () => {
  const job = jobOf({ inputTokensBound: 100, choices: 2 })
  expect(maxTokensFor([cheap, expensive], job, 200n + 80n)).toBe(10)
  expect(maxTokensFor([cheap, expensive], job, 200n + 79n)).toBe(9)
  expect(maxTokensFor([cheap, expensive], job, 199n)).toBe(0)
})

test('the affordable tokens include offers that can serve only that many, and are the most that is admitted', () => {
  const offers = fc.array(
    fc.record({ maxOutputTokens: fc.integer({ min: 1, max: 60 }), nanos: fc.integer({ min: 1, max: 9 }) }),
    {
      minLength: 1,
      maxLength: 5,
    },
  )
  fc.assert(
    fc.property(
      offers,
      fc.integer({ min: 1, max: 60 }),
      fc.nat(600),
      fc.integer({ min: 1, max: 2 }),
      (list, asked, budget, choices) => {
        const all = list.map(({ maxOutputTokens, nanos }, at) => {
          const price = { inputPicoPerToken: BigInt(nanos) * 1_000n, outputPicoPerToken: BigInt(nanos) * 1_000n }
          return offerOf({ name: `offer-${at}`, maxOutputTokens, price })
        })
        const job = (maxTokens: number) => jobOf({ inputTokensBound: 10, choices, maxTokens })
        const offersFor = (maxTokens: number) => eligible(all, job(maxTokens), healthOf()).eligible
        const isAdmitted = (maxTokens: number) => {
          const able = offersFor(maxTokens)
          return able.length > 0 && holdFor(able, job(maxTokens), defaultMaxTokens).wantNanos <= BigInt(budget)
        }
        fc.pre(offersFor(asked).length > 0 && !isAdmitted(asked))
        const most = Array.from({ length: asked }, (_, at) => at + 1).findLast(isAdmitted) ?? 0
        expect(affordableTokens(offersFor(asked), offersFor, job(asked), BigInt(budget))).toBe(most)
      },
    ),
  )
})

test('the affordable tokens without max_tokens are accepted as max_tokens', () => {
  const job = jobOf({ inputTokensBound: 800 })
  const offers = [offerOf({ contextTokens: 103, price: { inputPicoPerToken: 0n, outputPicoPerToken: 1_000n } })]
  const offersFor = (maxTokens: number) => eligible(offers, { ...job, maxTokens }, healthOf()).eligible
  expect([affordableTokens(offers, offersFor, job, 9n), affordableTokens(offers, offersFor, job, 2n)]).toEqual([9, 2])
})

test('max_cost_usd lowers max_tokens to what it pays for at the most expensive candidate', () => {
  const job = (maxTokens: number | null, maxCostNanos: bigint) =>
    jobOf({ inputTokensBound: 100, choices: 2, maxTokens, maxCostNanos })
  // At the more expensive offer the prompt costs 200, and a token of both choices 8.
  const capped = { wantNanos: 280n, floorNanos: 280n, maxTokens: 10, clampedBy: 'max_cost_usd' }
  expect(holdFor([cheap, expensive], job(50, 287n), defaultMaxTokens)).toEqual(capped)
  expect(holdFor([cheap, expensive], job(null, 287n), defaultMaxTokens)).toEqual(capped)
  expect(holdFor([cheap, expensive], job(10, 287n), defaultMaxTokens)).toEqual({
    wantNanos: 280n,
    floorNanos: 280n,
    maxTokens: 10,
  })
})

test('a free model needs no money', () => {
  const free = offerOf({ price: { inputPicoPerToken: 0n, outputPicoPerToken: 0n } })
  const { wantNanos, floorNanos } = holdFor([free], jobOf(), defaultMaxTokens)
  expect([wantNanos, floorNanos]).toEqual([0n, 0n])
  expect(maxTokensFor([free], jobOf(), 0n)).toBeGreaterThan(1_000_000)
})
