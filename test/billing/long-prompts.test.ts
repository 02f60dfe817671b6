import { afterEach, describe, expect, test, vi } from 'vitest'
import type { ChatQuote } from '../../src/wire/api/chat-quote-schema.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { measureText } from '../../src/wire/tokens/measure-text.ts'
import { Tokenizer } from '../../src/wire/tokens/tokenizer.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import { answer, sse, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const USD = 1_000_000_000n
/** 100 USD per million input tokens: 100,000 nano-USD each. Output is free, so that the hold is that of the prompt. */
const price = { inputPicoPerToken: 100_000_000n, outputPicoPerToken: 0n }
const INPUT_TOKEN = 100_000n
const options = () => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [testOffer(upstream.baseUrl, { price, contextTokens: 1_000_000 })],
})
const gateway = useTestApp(options)
/** This gateway never waits for a measurement. */
const impatient = useTestApp(() => ({ ...options(), timeouts: { measureTextMs: 1 } }))

afterEach(() => vi.restoreAllMocks())

const prose = 'The signalman looks at the river, which is six minutes late; nobody mentions it. '.repeat(500)
const thai = 'การประมวลผลภาษาธรรมชาติเป็นสาขาหนึ่งของวิทยาการคอมพิวเตอร์'.repeat(800)
const body = (content: string) => ({ model: 'test-model', messages: [{ role: 'user', content }], max_tokens: 16 })
/** By bytes: 16 for the message and 64 for the request. */
const heldByBytes = (text: string) => BigInt(Buffer.byteLength(text) + 80) * INPUT_TOKEN
const heldByCount = (text: string) => BigInt(measureText(text).tokensBound + 80) * INPUT_TOKEN

async function statusOf(customer: TestCustomer, content: string): Promise<number> {
  return (await gateway.chat(customer, body(content))).status
}

test('a long prompt is held by its tokens, so credit that pays for it is enough', async () => {
  expect(heldByCount(prose) * 3n).toBeLessThan(heldByBytes(prose))
  const customer = await gateway.customer({ creditNanos: heldByCount(prose) })
  upstream.respondWith(answer({ usage: usageOf(countTokens(prose), 5) }))
  expect(await statusOf(customer, prose)).toBe(200)
  const [row] = await gateway.usage(customer)
  expect(row).toMatchObject({ hold_nanos: heldByCount(prose), writeoff_nanos: 0n })
  expect(row!.cost_nanos).toBe(BigInt(countTokens(prose)) * INPUT_TOKEN)

  const tooPoor = await gateway.customer({ creditNanos: heldByCount(prose) - 1n })
  expect(await statusOf(tooPoor, prose)).toBe(402)
})

test('two long prompts run at once where their bytes would hold more than the balance', async () => {
  const customer = await gateway.customer({ creditNanos: 2n * heldByCount(prose) })
  const bothSent = Promise.withResolvers<void>()
  let sent = 0
  upstream.always(async (request, response) => {
    if (++sent === 2) bothSent.resolve()
    await bothSent.promise
    return answer({ usage: usageOf(10, 5) })(request, response)
  })
  expect(await Promise.all([statusOf(customer, prose), statusOf(customer, prose)])).toEqual([200, 200])
  upstream.always(answer())
})

test('a report above the held tokens never costs more than the hold', async () => {
  const customer = await gateway.customer({ creditNanos: 2n * heldByCount(prose) })
  upstream.respondWith(answer({ usage: usageOf(prose.length, 5) }))
  expect(await statusOf(customer, prose)).toBe(200)
  const [row] = await gateway.usage(customer)
  expect(row).toMatchObject({ cost_nanos: heldByCount(prose), hold_nanos: heldByCount(prose) })
  expect(row!.writeoff_nanos).toBe(BigInt(prose.length) * INPUT_TOKEN - heldByCount(prose))
})

test('max_cost_usd is compared with the tokens of a long prompt', async () => {
  const customer = await gateway.customer({ creditNanos: 10n * heldByBytes(prose) })
  const withCap = (nanos: bigint) => ({ ...body(prose), max_cost_usd: Number(nanos) / 1e9 })
  expect((await gateway.chat(customer, withCap(heldByCount(prose) + 1_000n))).status).toBe(200)
  const error = await readError(await gateway.chat(customer, withCap(heldByCount(prose) - 1_000n)))
  expect(error).toMatchObject({ status: 400, code: 'max_cost_too_low' })
})

test('a customer with a large bulk lease is held by bytes, which needs no measurement', async () => {
  const customer = await gateway.customer({ creditNanos: 10_000n * USD, tier: 'scale' })
  await vi.waitFor(async () => {
    expect(await statusOf(customer, prose)).toBe(200)
    const rows = await gateway.usage(customer)
    expect(rows.at(-1)!.hold_nanos).toBe(heldByBytes(prose))
  })
})

test('if a prompt cannot be measured in time, it is held by its bytes', async () => {
  const rich = await impatient.customer({ creditNanos: 2n * heldByBytes(thai) })
  expect((await impatient.chat(rich, body(thai))).status).toBe(200)
  expect(await impatient.usage(rich)).toMatchObject([{ hold_nanos: heldByBytes(thai) }])
})

describe('the 402 of a long prompt', () => {
  test('names the messages when not even one token fits', async () => {
    const customer = await gateway.customer({ creditNanos: heldByCount(prose) / 2n })
    const error = await readError(await gateway.chat(customer, body(prose)))
    expect(error).toMatchObject({ code: 'insufficient_credits', param: 'messages', affordable_max_tokens: 0 })
    expect(error.message).toMatch(/ Add credit or shorten the messages\.$/)
    expect(error).toMatchObject({ needed_usd: Number(heldByCount(prose)) / 1e9 })
    const several = await readError(await gateway.chat(customer, { ...body(prose), n: 2 }))
    expect(several).toMatchObject({ param: 'n' })
    expect(several.message).toMatch(/ Add credit or lower n or shorten the messages\.$/)
  })

  test('names nothing to change when no credit is left', async () => {
    const customer = await gateway.customer({ creditNanos: 0n })
    const error = await readError(await gateway.chat(customer, body(prose)))
    expect(error).toMatchObject({ code: 'insufficient_credits', param: null })
    expect(error.message).toMatch(/ Add credit\.$/)
  })
})

test('a quote shows the hold and the tokens of a long prompt', async () => {
  const customer = await gateway.customer()
  const quote = (await (await gateway.chat(customer, { ...body(prose), dry_run: true })).json()) as ChatQuote
  expect(quote.hold_usd).toBe(Number(heldByCount(prose)) / 1e9)
  expect(quote.expected!.input_tokens).toBe(countTokens(prose) + 6)
})

describe('long texts are not counted on the event loop', () => {
  const countedSlices = () => vi.spyOn(Tokenizer.prototype, 'count')

  test('of a prompt that is held or quoted', async () => {
    const slices = countedSlices()
    const customer = await gateway.customer({ creditNanos: 100n * heldByBytes(thai) })
    expect(await statusOf(customer, thai)).toBe(200)
    expect((await gateway.chat(customer, { ...body(thai), dry_run: true })).status).toBe(200)
    expect(slices).not.toHaveBeenCalled()
  })

  test('of answers without a report, and of hosters', async () => {
    const text = prose.slice(0, 20_000)
    await gateway.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: 'hosted', contextTokens: 1_000_000 }] })
    const customer = await gateway.customer({ creditNanos: 100n * heldByBytes(thai) })
    const slices = countedSlices()
    upstream.respondWith(answer({ text, usage: null }))
    expect((await gateway.chat(customer, { ...body(thai), max_tokens: 8_192 })).status).toBe(200)
    upstream.respondWith(sse(streamEvents({ pieces: [text], usage: usageOf(100_000, 8_000) })))
    const hosted = { ...body(thai), model: 'hosted', stream: true, max_tokens: 8_192 }
    expect((await readEventStream(await gateway.chat(customer, hosted))).done).toBe(true)
    expect(slices).not.toHaveBeenCalled()
    const counted = { usage_source: 'gateway', input_tokens: countTokens(thai) + 6, output_tokens: countTokens(text) }
    expect(await gateway.settled(customer, 2)).toMatchObject([counted, counted])
  })
})
