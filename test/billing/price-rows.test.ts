import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readUsage } from '../../src/dialects/chat/read-usage.ts'
import type { ChatJob } from '../../src/domain/chat-job.ts'
import type { Answer, Ticket } from '../../src/domain/handoff.ts'
import type { Offer } from '../../src/domain/offer.ts'
import { heldNanos, inputKinds, outputKinds, type PartKind } from '../../src/domain/offer-price.ts'
import { type ListedPrice, offerPrice, type PriceList } from '../../src/domain/price-list.ts'
import { bill, billedUsage } from '../../src/relay/bill.ts'
import { settlementOf } from '../../src/settle/settle.ts'

const text = 'It is six minutes on foot, or four when the train is late.'
const MAX_TOKENS = 500
const sellers = ['local', 'hoster', 'cloud'] as const
type Seller = (typeof sellers)[number]

const picos = fc.bigInt({ min: 0n, max: 50_000_000n })
const kinds = [...inputKinds, ...outputKinds] as const
const listedPrice: fc.Arbitrary<ListedPrice> = fc.record({
  input: picos,
  output: picos,
  parts: fc.record(Object.fromEntries(kinds.map(kind => [kind, picos])) as Record<PartKind, typeof picos>, {
    requiredKeys: [],
  }),
  perRequest: fc.oneof(fc.constant(0n), picos),
})
const priceList: fc.Arbitrary<PriceList> = fc
  .tuple(
    listedPrice,
    fc.array(
      fc.tuple(listedPrice, fc.integer({ min: 1, max: 2_000 })).map(([price, above]) => ({
        ...price,
        aboveInputTokens: above,
      })),
      { maxLength: 3 },
    ),
  )
  .map(([price, steps]) => ({ ...price, steps, windows: [] }))

/** Counts as upstreams report them: honest, contradictory, absurd or of another type. */
const count = fc.oneof(fc.integer({ min: 0, max: 1_500 }), fc.constantFrom(-1, 0.5, 1e12, '7', null, undefined))
const counts = (names: readonly string[]) =>
  fc.option(fc.record(Object.fromEntries(names.map(name => [name, count])), { requiredKeys: [] }), { nil: undefined })
const report = fc.record({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cached_tokens: count,
  prompt_tokens_details: counts([
    ...['cached_tokens', 'cache_write_tokens', 'cache_write_long_tokens', 'audio_tokens', 'image_tokens'],
  ]),
  completion_tokens_details: counts(['reasoning_tokens', 'audio_tokens', 'image_tokens']),
})

function jobOf(inputTokensBound: number, mediaTokensBound: number): ChatJob {
  return {
    choices: 1,
    maxTokens: MAX_TOKENS,
    promptText: () => 'How far is it?',
    promptTextBytes: 14,
    messageCount: 1,
    mediaTokensBound,
    inputTokensBound,
  } as unknown as ChatJob
}

const offerAt = (list: PriceList, kind: Seller) =>
  ({
    modelId: 'm',
    endpoint: { kind, endpointId: 'e', hosterId: kind === 'hoster' ? 'h' : null, hosterShareBps: 7_777 },
    price: offerPrice(list, kind, 0),
    contextTokens: 1e9,
    maxOutputTokens: 1e9,
  }) as unknown as Offer

/** What the rules of docs/money.md ask for a kind of token in a row, in other words. */
function priceOf(row: ListedPrice, kind: PartKind | 'input' | 'output', seller: Seller): bigint {
  if (kind === 'input' || kind === 'output') return row[kind]
  const most = (...prices: (bigint | undefined)[]) =>
    prices.reduce<bigint>((a, b) => (b !== undefined && b > a ? b : a), 0n)
  const isOutput = kind.startsWith('output')
  const base = isOutput ? row.output : row.input
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

test('any price list and any report: the price of what was delivered, at most the hold, and entries that sum to zero', () => {
  fc.assert(
    fc.property(
      priceList,
      fc.constantFrom(...sellers),
      report,
      fc.integer({ min: 64, max: 3_000 }),
      fc.integer({ min: 0, max: 64 }),
      (list, kind, reported, bound, media) => {
        const offer = offerAt(list, kind)
        const job = jobOf(bound, media)
        const ticket = {
          maxTokens: MAX_TOKENS,
          requestId: 'r',
          models: ['m'],
          caller: {},
          hold: { leaseId: 'r', nanos: heldNanos(offer.price, job, MAX_TOKENS), isOpen: true },
        } as unknown as Ticket
        const answer = { offer, attempts: [], firstTokenMs: 1 } as unknown as Answer
        const usage = readUsage(reported, false)
        const receipt = bill(ticket, job, answer, { outcome: 'served', text, reported: usage, finishReason: 'stop' })
        const settled = settlementOf(ticket, receipt, null, 1)
        const { costNanos, writeoffNanos, hosterShareNanos, feeNanos, holdNanos } = settled

        const row =
          list.steps
            .toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens)
            .findLast(step => receipt.billedInputTokens > step.aboveInputTokens) ?? list
        const parts = receipt.billedParts
        const inputs: [PartKind | 'input', number][] = [
          ['cache_read', parts?.cacheReadTokens ?? 0],
          ['cache_write', parts?.cacheWriteTokens ?? 0],
          ['cache_write_long', parts?.cacheWriteLongTokens ?? 0],
          ['input_audio', parts?.inputAudioTokens ?? 0],
          ['input_image', parts?.inputImageTokens ?? 0],
        ]
        const outputs: [PartKind | 'output', number][] = [
          ['output_audio', parts?.outputAudioTokens ?? 0],
          ['output_image', parts?.outputImageTokens ?? 0],
        ]
        const sum = (of: [string, number][]) => of.reduce((total, [, tokens]) => total + tokens, 0)
        inputs.push(['input', receipt.billedInputTokens - sum(inputs)])
        outputs.push(['output', receipt.billedOutputTokens - sum(outputs)])
        const owedPicos = [...inputs, ...outputs].reduce((total, [kindOf, tokens]) => {
          expect(tokens).toBeGreaterThanOrEqual(0)
          return total + BigInt(tokens) * priceOf(row, kindOf, kind)
        }, row.perRequest)

        const measured = costNanos + writeoffNanos
        expect(measured * 1_000n).toBeGreaterThanOrEqual(owedPicos)
        expect((measured - 1n) * 1_000n).toBeLessThan(owedPicos)
        expect(costNanos).toBeLessThanOrEqual(holdNanos)
        // Beyond the hold are only tokens that nobody asked for: long writes without a price, and media without media.
        const asked = parts === null || (parts.cacheWriteLongTokens === 0 && !hasMedia(parts))
        if (asked) expect(writeoffNanos).toBe(0n)
        expect(-costNanos + hosterShareNanos + feeNanos).toBe(0n)

        const shown = billedUsage(usage ?? undefined, receipt, costNanos)
        const details = shown.prompt_tokens_details as Record<string, number> | undefined
        expect((details?.cached_tokens ?? 0) + (details?.cache_write_tokens ?? 0)).toBeLessThanOrEqual(
          shown.prompt_tokens,
        )
        expect(details?.cached_tokens ?? 0).toBe(parts?.cacheReadTokens ?? 0)
      },
    ),
    { numRuns: 3_000 },
  )
})

const hasMedia = (parts: object) => Object.keys(parts).some(name => /(?:Audio|Image)Tokens$/.test(name))

test('a hoster never gets more for a report of cached tokens than for one without', () => {
  fc.assert(
    fc.property(priceList, report, (list, reported) => {
      const offer = offerAt({ ...list, steps: [] }, 'hoster')
      const job = jobOf(3_000, 0)
      const ticket = {
        maxTokens: MAX_TOKENS,
        models: ['m'],
        caller: {},
        hold: { nanos: 10n ** 18n },
      } as unknown as Ticket
      const answer = { offer, attempts: [], firstTokenMs: 1 } as unknown as Answer
      const costOf = (body: object) => {
        const usage = readUsage(body, false)
        const receipt = bill(ticket, job, answer, { outcome: 'served', text, reported: usage, finishReason: 'stop' })
        return settlementOf(ticket, receipt, null, 1).costNanos
      }
      const { prompt_tokens, completion_tokens } = reported
      expect(costOf(reported)).toBeLessThanOrEqual(costOf({ prompt_tokens, completion_tokens }))
    }),
    { numRuns: 1_000 },
  )
})
