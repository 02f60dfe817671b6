import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { TokenUsage } from '../../src/base/domain/completion.ts'
import type { Answer, ChunkSource, Outcome, Receipt, StreamPart, Ticket } from '../../src/base/domain/handoff.ts'
import { parseUsd, usdText } from '../../src/base/domain/money.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { offerPrice, type PriceList } from '../../src/base/domain/price-list.ts'
import { heldNanos, outputCap } from '../../src/base/domain/request-bounds.ts'
import { Cancelled, UpstreamFailure } from '../../src/base/domain/upstream-failure.ts'
import { CancelSource } from '../../src/base/runtime/cancel-signal.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { holdFor, maxTokensFor } from '../../src/request/admit/admit.ts'
import { relayStream } from '../../src/request/relay/relay-stream.ts'
import { type RelayContext, relayWhole } from '../../src/request/relay/relay-whole.ts'
import { settlementOf } from '../../src/request/settle/settle.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { readUsage } from '../../src/wire/dialects/chat/usage.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { jobOf, offerOf } from '../supply/random-market.ts'
import {
  type Kind,
  priceList,
  ruledPrice,
  ruledRequestPrice,
  type Seller,
  sellers,
  weekTimeMs,
} from './arbitrary-prices.ts'

/** Counts as upstreams report them: honest, contradictory, absurd or of another type. */
const count = fc.oneof(
  fc.integer({ min: 0, max: 60 }),
  fc.integer({ min: 0, max: 1_500 }),
  fc.constantFrom(-1, 0.5, 1e12, Number.NaN, Number.POSITIVE_INFINITY, '7', null, undefined),
)
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

const words = fc.integer({ min: 0, max: 400 }).map(length => 'It is six minutes on foot. '.repeat(length / 10))

/** What a server sends: texts of the choices, and reports in between that may contradict each other. */
const pieces = fc.array(
  fc.oneof(
    fc.record({ text: fc.constantFrom('It is six ', 'minutes', ' on foot, or four.\n', 'x', '東京'), to: fc.nat(1) }),
    fc.record({ report }),
  ),
  { maxLength: 30 },
)

const scenario = fc.record({
  lists: fc.array(fc.tuple(priceList, fc.constantFrom(...sellers)), { minLength: 1, maxLength: 3 }),
  answering: fc.nat(2),
  atMs: weekTimeMs,
  prompt: words,
  mediaTokens: fc.constantFrom(0, 0, 40),
  choices: fc.constantFrom(1, 1, 2),
  maxTokens: fc.option(fc.integer({ min: 1, max: 120 })),
  onInsufficient: fc.constantFrom('refuse' as const, 'clamp' as const),
  maxCostBeyond: fc.option(fc.bigInt({ min: 0n, max: 10_000_000n }), { freq: 3 }),
  /** How much of the hold beyond its floor the balance pays for, in thousandths. */
  granted: fc.constantFrom(1_000n, 1_000n, 0n, 371n),
  pieces,
  ending: fc.constantFrom<Answering['ending']>('whole', 'end', 'end', 'client_left', 'breaks'),
})

const DEFAULT_MAX_TOKENS = 100

test('any prices and any reports: the price of what was delivered, at most the hold, and entries that sum to zero', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async given => {
      const { lists, atMs } = given
      const offers = lists.map(([list, kind], index) => offerAt(list, kind, atMs, `offer-${index}`))
      const answering = given.answering % offers.length
      const [list, seller] = lists[answering]!
      const job = jobAt(given, offers)
      const hold = holdFor(offers, job, DEFAULT_MAX_TOKENS)
      if (job.maxCostNanos !== null) expect(hold.wantNanos).toBeLessThanOrEqual(job.maxCostNanos)
      const grantedNanos = hold.floorNanos + ((hold.wantNanos - hold.floorNanos) * given.granted) / 1_000n
      const maxTokens = grantedNanos < hold.wantNanos ? maxTokensFor(offers, job, grantedNanos) : hold.maxTokens
      const ticket = ticketOf(grantedNanos, maxTokens)
      const offer = offers[answering]!

      const { receipt, delivered, reported, shownAt } = await relay(ticket, job, offer, given)
      const settled = settlementOf(ticket, receipt, null, 1)
      const { costNanos, writeoffNanos, hosterShareNanos, feeNanos, holdNanos } = settled

      const { input, output } = ruledTokens(job, offer, maxTokens, receipt.outcome, delivered, reported)
      expect([receipt.billedInputTokens, receipt.billedOutputTokens]).toEqual([input, output])
      const parts = ruledParts(input, output, reported)
      const owedPicos = parts.reduce(
        (sum, [kind, tokens]) => sum + BigInt(tokens) * ruledPrice(list, seller, atMs, input, kind),
        input + output === 0 ? 0n : ruledRequestPrice(list, atMs, input),
      )
      // The price of what was delivered, rounded up once.
      const measuredNanos = costNanos + writeoffNanos
      expect(measuredNanos * 1_000n).toBeGreaterThanOrEqual(owedPicos)
      expect((measuredNanos - 1n) * 1_000n).toBeLessThan(owedPicos)
      expect(costNanos).toBeGreaterThanOrEqual(0n)
      expect(costNanos).toBeLessThanOrEqual(holdNanos)
      // Beyond the hold are only tokens that no request asked for: long writes without a price, media without media.
      const tokensOf = (kinds: readonly Kind[]) =>
        parts.reduce((sum, [kind, tokens]) => sum + (kinds.includes(kind) ? tokens : 0), 0)
      const rows = [list, ...list.steps, ...list.windows]
      const sellsLongWrites = rows.every(row => row.parts.cache_write_long !== undefined)
      if (
        (sellsLongWrites || tokensOf(['cache_write_long']) === 0) &&
        tokensOf(['input_audio', 'input_image']) <= given.mediaTokens
      ) {
        expect(writeoffNanos).toBe(0n)
      }
      expect(-costNanos + hosterShareNanos + feeNanos).toBe(0n)
      expect(hosterShareNanos === 0n || seller === 'hoster').toBe(true)

      // The client sees what it pays for.
      const shown = shownAt(costNanos)
      if (shown === null) return
      expect(shown).toMatchObject({ prompt_tokens: input, completion_tokens: output, total_tokens: input + output })
      expect(parseUsd(usdText(costNanos))).toBe(BigInt(Math.round((shown.cost_usd as number) * 1e9)))
      const details = shown.prompt_tokens_details as Record<string, number> | undefined
      if (details?.cached_tokens !== undefined) expect(details.cached_tokens).toBe(tokensOf(['cache_read']))
      if (details?.cache_write_tokens !== undefined) {
        expect(details.cache_write_tokens).toBe(tokensOf(['cache_write', 'cache_write_long']))
      }
    }),
    { numRuns: 3_000 },
  )
})

test('a kind of token without a price of its own is never free, nor cheaper than the input or the output', () => {
  fc.assert(
    fc.property(priceList, fc.constantFrom(...sellers), weekTimeMs, (list, seller, atMs) => {
      const positive = (price: bigint) => price + 1n
      const bare = { ...list, parts: {}, input: positive(list.input), output: positive(list.output) }
      const withoutParts: PriceList = {
        ...bare,
        steps: list.steps.map(step => ({ ...step, parts: {}, input: positive(step.input) })),
        windows: list.windows.map(window => ({ ...window, parts: {}, input: positive(window.input) })),
      }
      const price = offerPrice(withoutParts, seller, atMs)
      for (const step of price.terms?.steps ?? []) {
        for (const [kind, picos] of Object.entries(step.parts)) {
          const { inputPicoPerToken, outputPicoPerToken } = step.price
          expect(picos).toBeGreaterThanOrEqual(kind.startsWith('output') ? outputPicoPerToken : inputPicoPerToken)
        }
        expect(step.parts.cache_read).toBeGreaterThan(0n)
      }
    }),
  )
})

test('a report of cached tokens only lowers a bill where reading costs no more than the input', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, fc.integer({ min: 0, max: 2_000 }), async (given, cached) => {
      const [[list, seller]] = given.lists as [[PriceList, Seller]]
      const cheapReads: PriceList = {
        ...withCheapReads(list),
        steps: list.steps.map(withCheapReads),
        windows: list.windows.map(withCheapReads),
      }
      const costWith = async (details: object) => {
        const offer = offerAt(cheapReads, seller, given.atMs, 'offer')
        const job = jobAt({ ...given, maxCostBeyond: null }, [offer])
        const ticket = ticketOf(10n ** 18n, DEFAULT_MAX_TOKENS)
        const sent = { prompt_tokens: 1_000, completion_tokens: 20, ...details }
        const answer = { pieces: [{ text: 'It is six minutes.', to: 0 }, { report: sent }], ending: 'end' } as const
        const { receipt } = await relay(ticket, job, offer, answer)
        return settlementOf(ticket, receipt, null, 1).costNanos
      }
      const less = await costWith({ prompt_tokens_details: { cached_tokens: cached } })
      expect(less).toBeLessThanOrEqual(await costWith({}))
    }),
    { numRuns: 300 },
  )
})

test('a hoster never gets more for a report of parts than for one without', async () => {
  await fc.assert(
    fc.asyncProperty(priceList, report, weekTimeMs, async (list, reported, atMs) => {
      const costOf = async (body: object) => {
        const offer = offerAt(list, 'hoster', atMs, 'offer')
        const job = jobOf({ inputTokensBound: 3_000, promptText: () => 'How far is it?' })
        const ticket = ticketOf(10n ** 18n, 500)
        const answer = { pieces: [{ text: 'It is six minutes.', to: 0 }, { report: body }], ending: 'end' } as const
        const { receipt } = await relay(ticket, job, offer, answer)
        return settlementOf(ticket, receipt, null, 1).costNanos
      }
      const { prompt_tokens, completion_tokens } = reported
      expect(await costOf(reported)).toBeLessThanOrEqual(await costOf({ prompt_tokens, completion_tokens }))
    }),
    { numRuns: 500 },
  )
})

interface Answering {
  readonly pieces: readonly ({ readonly text: string; readonly to: number } | { readonly report: object })[]
  readonly ending: 'whole' | 'end' | 'client_left' | 'breaks'
}

interface Relayed {
  readonly receipt: Receipt
  /** The text that the client got, before it left if it left. */
  readonly delivered: string
  readonly reported: TokenUsage | null
  /** The usage in the answer, at this charge; null where the client gets none. */
  readonly shownAt: (costNanos: bigint) => TokenUsage | null
}

/** Relays an answer through the real relay. */
async function relay(ticket: Ticket, job: ChatJob, offer: Offer, { pieces, ending }: Answering): Promise<Relayed> {
  const signal = new CancelSource()
  const context: RelayContext = {
    ...{ ticket, job, signal, dialect: chatDialect, memory: uncounted },
    keepsParts: false,
    chargeEarlyDisconnect: () => false,
    measureText: () => undefined as never,
  }
  const envelope = { id: 'chatcmpl-1', created: 1, model: 'm' }
  const answered = { offer, envelope, attempts: [], firstTokenMs: 1 }
  if (ending === 'whole') return relayedWhole(context, answered, pieces)

  const parts = pieces.flatMap((piece): StreamPart[] => {
    const chunk = (choices: object[], more = {}) =>
      ({ ...envelope, object: 'chat.completion.chunk', choices, ...more }) as unknown as StreamPart
    if ('text' in piece) {
      if (piece.to === 0) return [piece.text]
      return [chunk([{ index: piece.to % job.choices, delta: { content: piece.text }, finish_reason: null }])]
    }
    const usage = readUsage(piece.report, false)
    return usage === null ? [] : [chunk([], { usage })]
  })
  let reported: TokenUsage | null = null
  let hasLeft = false
  const chunks: ChunkSource = {
    async read(take) {
      for (const part of parts) {
        if (hasLeft) return
        if (typeof part !== 'string' && part.usage) reported = part.usage
        await take([structuredClone(part)])
      }
      if (ending === 'client_left') {
        signal.abort('left')
        throw new Cancelled('client_left', true)
      }
      if (ending === 'breaks') throw new UpstreamFailure('server_error', 'broken')
    },
    leave() {
      hasLeft = true
    },
    get usage() {
      return reported
    },
  }
  let events = ''
  const encoder = chatDialect.stream.encoder(envelope, job)
  const stream = await relayStream(context, { ...answered, kind: 'stream', chunks }, encoder, written => {
    events += written
  })
  return {
    receipt: stream.receipt,
    delivered: dataOf(events).flatMap(contentOf).join(''),
    reported,
    shownAt: costNanos => dataOf(stream.lastEvents(costNanos)).find(({ usage }) => usage)?.usage ?? null,
  }
}

async function relayedWhole(context: RelayContext, answered: object, pieces: Answering['pieces']): Promise<Relayed> {
  const { choices } = context.job
  const reports = pieces.flatMap(piece => ('report' in piece ? [readUsage(piece.report, false)] : []))
  const reported = reports.at(-1) ?? null
  const textOf = (index: number) =>
    pieces.map(piece => ('text' in piece && piece.to % choices === index ? piece.text : '')).join('')
  const completion = {
    ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm' },
    choices: Array.from({ length: choices }, (_, index) => ({
      index,
      message: { role: 'assistant', content: textOf(index) },
      finish_reason: 'stop',
    })),
    ...(reported !== null && { usage: structuredClone(reported) }),
  }
  const answer = { ...answered, kind: 'whole', completion } as unknown as Answer & { kind: 'whole' }
  const { receipt, body } = await relayWhole(context, answer)
  const delivered = (JSON.parse(body(0n)) as Data).choices.map(({ message }) => message!.content).join('')
  return { receipt, delivered, reported, shownAt: costNanos => (JSON.parse(body(costNanos)) as Data).usage ?? null }
}

interface Data {
  readonly choices: { delta: { content?: string }; message?: { content: string } }[]
  readonly usage?: TokenUsage
}

function dataOf(events: string): Data[] {
  return events
    .split('\n\n')
    .filter(event => event.startsWith('data: {"id"'))
    .map(event => JSON.parse(event.slice('data: '.length)))
}

const contentOf = ({ choices }: Data) => choices.map(({ delta }) => delta.content ?? '')

/** The billed tokens by the table of docs/money.md, from what the client got and what the server reported. */
function ruledTokens(
  job: ChatJob,
  offer: Offer,
  maxTokens: number,
  outcome: Outcome,
  delivered: string,
  reported: TokenUsage | null,
): { input: number; output: number } {
  if (delivered === '' || outcome === 'interrupted') return { input: 0, output: 0 }
  const isHoster = offer.endpoint.kind === 'hoster'
  const accepted = (report: number | undefined, counted: number) =>
    report === undefined || report === 0 || (isHoster && report > counted * 1.05 + 8) ? counted : report
  const prompt = Math.min(countTokens(job.promptText()) + 6 + job.mediaTokensBound, job.inputTokensBound)
  const text = countTokens(delivered)
  const { prompt_tokens: input, completion_tokens: output } = reported ?? {}
  const isOld = outcome === 'client_gone' && output !== undefined && text > output * 1.25 + 8
  return {
    input: Math.min(accepted(input, prompt), job.inputTokensBound),
    output: Math.min(accepted(isOld ? undefined : output, text), outputCap(offer, job, maxTokens) * job.choices),
  }
}

/** The billed tokens by kind: reads first, then writes, then media of what is left. */
function ruledParts(input: number, output: number, reported: TokenUsage | null): [Kind, number][] {
  const inputDetails = (reported?.prompt_tokens ? reported.prompt_tokens_details : {}) as Record<string, number>
  const outputDetails = (reported?.completion_tokens_details ?? {}) as Record<string, number>
  let left = input
  const take = (most: number, tokens: number | undefined) => {
    const taken = Math.min(most, tokens ?? 0)
    left -= taken
    return taken
  }
  const read = take(left, inputDetails?.cached_tokens)
  const written = take(left, inputDetails?.cache_write_tokens)
  const long = Math.min(written, inputDetails?.cache_write_long_tokens ?? 0)
  const audio = take(left, inputDetails?.audio_tokens)
  const image = take(left, inputDetails?.image_tokens)
  const fresh = left
  left = output
  const spoken = take(left, outputDetails.audio_tokens)
  const drawn = take(left, outputDetails.image_tokens)
  const inputs = { cache_read: read, cache_write: written - long, cache_write_long: long, input: fresh }
  const media = { input_audio: audio, input_image: image, output_audio: spoken, output_image: drawn }
  return Object.entries({ ...inputs, ...media, output: left }) as [Kind, number][]
}

type Scenario = typeof scenario extends fc.Arbitrary<infer Given> ? Given : never

function jobAt(given: Scenario, offers: readonly Offer[]): ChatJob {
  const { prompt, mediaTokens, choices, maxTokens, onInsufficient, maxCostBeyond } = given
  const job = jobOf({
    ...{ choices, maxTokens, includeUsage: true, mediaTokensBound: mediaTokens },
    onInsufficient,
    promptText: () => prompt,
    promptTextBytes: prompt.length,
    inputTokensBound: prompt.length + 80 + mediaTokens,
  })
  if (maxCostBeyond === null) return job
  // A smaller amount is refused before anything is held.
  const leastNanos = offers.map(offer => heldNanos(offer, job, choices)).reduce((a, b) => (a > b ? a : b))
  return { ...job, maxCostNanos: leastNanos + maxCostBeyond }
}

function offerAt(list: PriceList, kind: Seller, atMs: number, name: string): Offer {
  const price = offerPrice(list, kind, atMs)
  return offerOf({ name, kind, price, ...(kind === 'hoster' && { hosterId: 'h' }), maxOutputTokens: 150 })
}

function ticketOf(nanos: bigint, maxTokens: number): Ticket {
  const hold = { leaseId: 'r', nanos, isOpen: true }
  return { maxTokens, requestId: 'r', models: ['m'], caller: {}, hold } as unknown as Ticket
}

const withCheapReads = <Row extends PriceList | PriceList['steps'][number] | PriceList['windows'][number]>(
  row: Row,
): Row => {
  const read = row.parts.cache_read
  const parts = read !== undefined && read > row.input ? { ...row.parts, cache_read: row.input } : row.parts
  return { ...row, parts }
}
