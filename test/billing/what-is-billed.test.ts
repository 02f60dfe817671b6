// The table "What is billed" of docs/money.md, one test per row, named like the row's first cell:
// test/docs/money.test.ts compares them. Prices are 1 USD per million input tokens and 2 USD per million
// output tokens. A hoster earns 80 %.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import { TextBuffer } from '../../src/base/runtime/counted-memory.ts'
import { armFailpoints } from '../../src/base/runtime/failpoint.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer, type UsageRow } from '../harness/app.ts'
import { readError, readEventStream, readUntil } from '../harness/event-stream.ts'
import {
  type AnswerOptions,
  answer,
  chunk,
  closeAfter,
  contentChunk,
  neverEnding,
  sse,
  stall,
  startScriptedUpstream,
  status,
  usageChunk,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS, WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { killedInMidStream } from './killed-in-mid-stream.ts'

const credit = 5_000_000_000n
const messages = [{ role: 'user', content: 'Hello' }]
/** One token for "Hello", 3 for the message and 3 for the request. */
const inputTokens = 7
const inputNanos = 7_000n
const startedMs = Date.now()

const gateway = useTestApp({
  yaml: 'hosters: { allow_private_urls: true }',
  // A fixed time, so that the tests cannot cross midnight.
  clock: { epochMs: () => startedMs, monotonicMs: () => performance.now() },
})
// One per test, so that responses that a failed test left unused serve no other test.
const upstream = useUpstream('test')

interface Sale {
  readonly customer: TestCustomer
  readonly hosterId: string
  readonly chat: (body?: object, init?: RequestInit) => Promise<Response>
  /**
   * Waits for `count` usage rows and returns them. Checks that the customer paid and the hoster earned what
   * the rows say.
   */
  readonly ended: (count?: number) => Promise<UsageRow[]>
}

/** A customer, and a hoster with its own model, so that no test is affected by the server health of another one. */
async function sale(options: { at?: TestApp; outputPicoPerToken?: bigint } = {}): Promise<Sale> {
  const app = options.at ?? gateway
  const model = `model-${randomUUID()}`
  const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: options.outputPicoPerToken ?? 2_000_000n }
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: model, price }] })
  const customer = await app.customer({ creditNanos: credit })
  return {
    customer,
    hosterId,
    chat: (body = {}, init = {}) => app.chat(customer, { model, messages, ...body }, init),
    async ended(count = 1) {
      const rows = await app.settled(customer, count)
      expect(rows.length).toBe(count)
      const costNanos = rows.reduce((sum, row) => sum + row.cost_nanos, 0n)
      expect(await app.balanceNanos(customer)).toBe(credit - costNanos)
      expect(await earnedNanos(app, hosterId)).toBe(rows.reduce((sum, row) => sum + row.hoster_share_nanos, 0n))
      for (const row of rows) {
        expect(row.cost_nanos).toBe(row.hoster_share_nanos + row.fee_nanos)
        expect(row.cost_nanos).toBeLessThanOrEqual(row.hold_nanos)
        expect([row.request_id, row.success]).toEqual([row.request_id, row.outcome === 'served' || row.cost_nanos > 0n])
        if (row.hoster_id !== null) expect(row.hoster_share_nanos).toBe((row.cost_nanos * 8_000n) / 10_000n)
      }
      return rows
    },
  }
}

/** The balance of a hoster in the ledger. */
async function earnedNanos({ database }: TestApp, hosterId: string): Promise<bigint> {
  const { rows } = await database.pool.query<{ earned: bigint }>(
    `SELECT coalesce(sum(amount_nanos), 0)::bigint AS earned FROM ledger_entry
     WHERE account_kind = 'hoster_payable' AND account_id = $1`,
    [hosterId],
  )
  return rows[0]!.earned
}

/**
 * Sends the customer's `nth` chat, disconnects when the upstream has received it, and waits until it is
 * settled, so that disconnects count in order.
 */
async function leaveEarly({ customer, chat }: Sale, nth: number): Promise<void> {
  const stream = nth % 2 === 0
  const asked = upstream.requests.length
  const client = new AbortController()
  upstream.respondWith(stall(stream ? 'headers' : 'nothing'))
  const response = chat({ stream, max_tokens: 20 }, { signal: client.signal })
  await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(asked + 1)
  client.abort()
  await expect(response).rejects.toThrow()
  expect(await upstream.requests[asked]!.aborted).toBe(true)
  await gateway.settled(customer, nth)
}

const free = { cost_nanos: 0n, hoster_share_nanos: 0n }

describe('what is billed', () => {
  it('normal finish: `stop`, `length`, `tool_calls` or `content_filter`', async () => {
    const { chat, ended } = await sale()
    const endings: AnswerOptions[] = [
      {},
      { finishReason: 'length' },
      { finishReason: 'content_filter' },
      { toolCalls: [{ name: 'look', arguments: '{"at":"signals"}' }] },
    ]
    for (const ending of endings) {
      for (const stream of [true, false]) {
        upstream.respondWith(answer({ ...ending, usage: usageOf(10, 5) }))
        const response = await chat({ stream })
        expect(response.status).toBe(200)
        await response.text()
      }
    }
    const rows = await ended(8)
    for (const row of rows) {
      expect(row).toMatchObject({ outcome: 'served', usage_source: 'upstream', cost_nanos: 10_000n + 10_000n })
    }
  })

  it('no output tokens: every server fails', async () => {
    const { chat, ended } = await sale()
    const failures = [status(500), answer({ text: '', usage: usageOf(10, 0) }), status(200, 'no JSON')]
    for (const failure of failures) {
      upstream.respondWith(failure)
      expect(await readError(await chat())).toMatchObject({ status: 500 })
    }
    const rows = await ended(3)
    for (const row of rows) expect(row).toMatchObject({ outcome: 'unserved', ...free })
  })

  it('no output, whatever the upstream reports: a content filter, hidden reasoning, a `stop` sequence at the start', async () => {
    const { hosterId, chat, ended } = await sale()
    const ways: [finishReason: NonNullable<AnswerOptions['finishReason']>, outputTokens: number, body: object][] = [
      ['content_filter', 0, {}],
      ['content_filter', 1, {}],
      ['length', 1, {}],
      ['length', 4_000, {}],
      ['length', 4_000, { max_tokens: 4_000 }],
      ['stop', 1, { stop: ['.'] }],
    ]
    for (const [finishReason, outputTokens, body] of ways) {
      upstream.respondWith(...Array(2).fill(answer({ text: '', finishReason, usage: usageOf(10, outputTokens) })))
      expect(await (await chat(body)).json()).toMatchObject({
        choices: [{ message: { content: '' }, finish_reason: finishReason }],
        usage: { prompt_tokens: 0, completion_tokens: 0, cost_usd: 0 },
      })
      const stream = await readEventStream(await chat({ ...body, stream: true }))
      expect(stream).toMatchObject({ done: true, text: '', finishReasons: [finishReason] })
    }
    const rows = await ended(2 * ways.length)
    for (const row of rows) expect(row).toMatchObject({ outcome: 'served', hoster_id: hosterId, ...free })
  })

  const soldText = 'It is six minutes on foot from the signal box to the river.'

  it('the upstream reports no usage', () => expectOurCount([null]))

  it('the upstream reports 0 tokens for a prompt or a text', () =>
    expectOurCount([usageOf(inputTokens, 0), usageOf(0, countTokens(soldText))]))

  /** Serves an answer with each of these reports, as a stream and as a whole answer. */
  async function expectOurCount(reports: readonly (ReturnType<typeof usageOf> | null)[]): Promise<void> {
    const { chat, ended } = await sale()
    for (const usage of reports) {
      for (const stream of [true, false]) {
        upstream.respondWith(answer({ text: soldText, usage }))
        await (await chat({ stream })).text()
      }
    }
    for (const row of await ended(2 * reports.length)) {
      expect(row).toMatchObject({
        outcome: 'served',
        usage_source: 'gateway',
        input_tokens: inputTokens,
        output_tokens: countTokens(soldText),
      })
    }
  }

  it("a hoster reports more than the gateway's count x 1.05 + 8 tokens", async () => {
    const { chat, ended } = await sale()
    const text = 'one two three'
    const most = Math.floor(3 * 1.05 + 8)
    for (const reported of [most, most + 1, 4_000]) {
      upstream.respondWith(answer({ text, usage: usageOf(inputTokens, reported) }))
      const { usage } = (await (await chat()).json()) as { usage: { completion_tokens: number } }
      expect(usage.completion_tokens).toBe(reported === most ? most : 3)
    }
    expect((await ended(3)).map(row => [row.usage_source, row.output_tokens])).toEqual([
      ['upstream', most],
      ['gateway', 3],
      ['gateway', 3],
    ])
    const metrics = await gateway.metrics()
    expect(metrics).toMatch(/^switchyard_over_reports_total 2$/m)
  })

  it('an answer is longer than `max_tokens`', async () => {
    const { chat, ended } = await sale()
    upstream.respondWith(answer({ text: 'word '.repeat(200), usage: usageOf(10, 200) }))
    expect(await (await chat({ max_tokens: 20 })).json()).toMatchObject({
      choices: [{ message: { content: 'word '.repeat(33).trimEnd() }, finish_reason: 'length' }],
      usage: { completion_tokens: 20 },
    })

    for (const maxTokens of [20, 10, 1]) {
      const most = Math.floor(maxTokens * 1.25 + 8)
      for (const pieces of ['word '.repeat(200).split(/(?<= )/), ['word '.repeat(200)]]) {
        upstream.respondWith(answer({ pieces, usage: usageOf(10, 200) }))
        const stream = await readEventStream(await chat({ max_tokens: maxTokens, stream: true }))
        expect(stream).toMatchObject({ done: true, finishReasons: ['length'] })
        expect(stream.chunks.at(-1)!.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'length' }])
        expect(countTokens(stream.text)).toBeGreaterThanOrEqual(maxTokens)
        expect(countTokens(stream.text)).toBeLessThanOrEqual(most)
      }
    }
    const rows = await ended(7)
    expect(rows.map(row => row.output_tokens)).toEqual([20, 20, 20, 10, 10, 1, 1])
    for (const row of rows) expect(row).toMatchObject({ outcome: 'served', writeoff_nanos: 0n })
  })

  it('the upstream breaks off or sends an error in mid-stream', async () => {
    const { chat, ended } = await sale()
    const begun = [chunk({ role: 'assistant', content: '' }), contentChunk('one'), contentChunk(' two')]
    for (const ending of [
      sse(begun, { ending: 'close' }),
      sse(begun, { ending: 'reset' }),
      sse([...begun, { error: { message: 'out of memory', code: 500 } }]),
      sse([...begun, chunk({}, 'abort' as never), usageChunk(usageOf(10, 2)), '[DONE]']),
    ]) {
      upstream.respondWith(ending)
      const stream = await readEventStream(await chat({ stream: true }))
      expect(stream).toMatchObject({ done: false, error: { code: 'stream_interrupted' } })
    }
    const rows = await ended(4)
    for (const row of rows) expect(row).toMatchObject({ outcome: 'interrupted', ...free })
  })

  it('an attempt fails and another server answers', async () => {
    const bad = await startScriptedUpstream()
    try {
      const model = `model-${randomUUID()}`
      const models = (inputPicoPerToken: bigint) => [
        { modelId: model, price: { inputPicoPerToken, outputPicoPerToken: 2_000_000n } },
      ]
      const failing = await gateway.hoster({ baseUrl: bad.baseUrl, models: models(500_000n) })
      const answering = await gateway.hoster({ baseUrl: upstream.baseUrl, models: models(1_000_000n) })
      const customer = await gateway.customer({ creditNanos: credit })
      // Including one that had generated most of an answer.
      bad.respondWith(
        closeAfter(40, { body: JSON.stringify({ choices: [{ message: { content: 'x'.repeat(500) } }] }) }),
      )
      upstream.respondWith(answer({ usage: usageOf(10, 5) }))
      expect((await gateway.chat(customer, { model, messages, tier: 'cheapest' })).status).toBe(200)
      const [row] = await gateway.settled(customer, 1)
      expect(row).toMatchObject({ outcome: 'served', hoster_id: answering, cost_nanos: 20_000n })
      expect(row!.attempts.at(-1)).toMatchObject({ outcome: 'answered' })
      expect(row!.attempts.length).toBeGreaterThan(1)
      expect(await earnedNanos(gateway, failing)).toBe(0n)
      expect(await earnedNanos(gateway, answering)).toBe(16_000n)
      expect(await gateway.balanceNanos(customer)).toBe(credit - 20_000n)
    } finally {
      await bad.close()
    }
  })

  it('a server rejects the request (400)', async () => {
    const { chat, ended } = await sale()
    upstream.respondWith(status(400, { error: { message: 'no such penalty', type: 'invalid_request_error' } }))
    expect(await readError(await chat({ frequency_penalty: 9 }))).toMatchObject({
      status: 400,
      code: 'upstream_rejected',
    })
    expect(await ended()).toMatchObject([{ outcome: 'refused_upstream', ...free }])
  })

  it('the client disconnects before the first token, or before a whole answer', async () => {
    const seldom = await sale()
    for (let leave = 1; leave <= 21; leave++) await leaveEarly(seldom, leave)
    const rows = await seldom.ended(21)
    expect(rows.map(row => row.outcome)).toEqual(Array(21).fill('client_gone'))
    expect(rows.map(row => row.cost_nanos)).toEqual([...Array(20).fill(0n), inputNanos])
    expect(rows.at(-1)).toMatchObject({ input_tokens: inputTokens, output_tokens: 0, hoster_share_nanos: 5_600n })

    // Two percent of 10,020,000 are worth 28 prompts of 7,000.
    const often = await sale({ outputPicoPerToken: 1_000_000_000n })
    for (let served = 1; served <= 2; served++) {
      upstream.respondWith(answer({ usage: usageOf(10, 5) }))
      expect((await often.chat({ max_tokens: 20 })).status).toBe(200)
    }
    for (let leave = 1; leave <= 29; leave++) await leaveEarly(often, 2 + leave)
    const costs = (await often.ended(31)).map(row => row.cost_nanos)
    expect(costs).toEqual([5_010_000n, 5_010_000n, ...Array(28).fill(0n), inputNanos])
  })

  it('the client disconnects before the server has a byte of the request', async () => {
    const customer = await gateway.customer({ creditNanos: credit })
    // Accepts the connection and never answers the handshake.
    const mute = createServer(socket => socket.on('error', () => {}))
    mute.listen(0, '127.0.0.1')
    await once(mute, 'listening')
    try {
      const model = `model-${randomUUID()}`
      const baseUrl = `https://127.0.0.1:${(mute.address() as AddressInfo).port}/v1`
      const hosterId = await gateway.hoster({ baseUrl, models: [{ modelId: model }] })
      // More often than disconnects with a prompt at the server would be free.
      for (let leave = 1; leave <= 22; leave++) {
        const client = new AbortController()
        const connection = once(mute, 'connection')
        const response = gateway.chat(customer, { model, messages }, { signal: client.signal })
        const [socket] = (await connection) as [Socket]
        await once(socket, 'data')
        client.abort()
        await expect(response).rejects.toThrow()
        await gateway.settled(customer, leave)
      }
      const rows = await gateway.settled(customer, 22)
      for (const row of rows) {
        expect(row).toMatchObject({ outcome: 'client_gone', attempts: [{ outcome: 'not_sent' }], ...free })
      }
      expect(await earnedNanos(gateway, hosterId)).toBe(0n)
      expect(await gateway.balanceNanos(customer)).toBe(credit)
    } finally {
      mute.close()
    }
  })

  it('the client disconnects in mid-stream', async () => {
    const { chat, ended } = await sale()
    const words = ['one', ' two', ' three']
    const leaveAfter = async (word: string) => {
      const client = new AbortController()
      const response = await chat({ stream: true }, { signal: client.signal })
      await readUntil(response.body!.getReader(), word)
      client.abort()
    }
    upstream.respondWith(stall({ pieces: words }))
    await leaveAfter('three')
    const [counted] = await ended()
    expect(counted).toMatchObject({ outcome: 'client_gone', usage_source: 'gateway', input_tokens: inputTokens })
    expect(counted).toMatchObject({ output_tokens: 3, cost_nanos: inputNanos + 6_000n, hoster_share_nanos: 10_400n })

    // Gemini reports in every chunk, with reasoning tokens.
    const reporting = words.map((word, index) => ({ ...contentChunk(word), usage: usageOf(inputTokens, 8 + index) }))
    upstream.respondWith(sse(reporting, { ending: 'stall' }))
    await leaveAfter('three')
    const reported = (await ended(2)).find(({ request_id }) => request_id !== counted!.request_id)
    expect(reported).toMatchObject({ outcome: 'client_gone', usage_source: 'upstream', output_tokens: 10 })
  })

  it('the client reads so slowly that the time limit of the answer passes', async () => {
    const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 1n }
    const timeouts = { ...GENEROUS_TIMEOUTS, totalMs: 2_000 }
    const large = { price, contextTokens: 2 ** 30, maxOutputTokens: 2 ** 29, endpoint: { timeouts } }
    const slow = await startTestApp({ offers: [testOffer(upstream.baseUrl, large)] })
    const customer = await slow.customer({ creditNanos: credit })
    // The buffers between upstream and client fill up long before half of the time is over.
    upstream.respondWith(neverEnding({ piece: 'one two '.repeat(64_000), everyMs: 0 }))
    const socket = connect(Number(new URL(slow.url).port), '127.0.0.1')
    try {
      socket.pause()
      const body = JSON.stringify({ model: 'test-model', messages, stream: true, max_tokens: 100_000_000 })
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${customer.key}\r\n` +
          `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      expect(await (await upstream.next()).aborted).toBe(true)
      let tail = ''
      socket.setEncoding('utf8').on('data', text => {
        tail = (tail + text).slice(-1_000)
      })
      socket.resume()
      const [row] = await slow.settled(customer, 1)
      expect(row).toMatchObject({ outcome: 'client_gone', usage_source: 'gateway', input_tokens: inputTokens })
      expect(row!.cost_nanos).toBe(inputNanos + (BigInt(row!.output_tokens) + 999n) / 1_000n)
      expect(row!.output_tokens).toBeGreaterThan(100_000)
      await expect.poll(() => tail).toContain('The generated part is charged')
    } finally {
      socket.destroy()
      await slow.close()
    }
  })

  it('the drain limit of the gateway passes in mid-stream', async () => {
    const draining = await startTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
    try {
      const { chat, ended } = await sale({ at: draining })
      upstream.respondWith(stall({ pieces: ['one', ' two'] }))
      const response = await chat({ stream: true })
      await draining.stop({ drainMs: 20 })
      expect(await readEventStream(response)).toMatchObject({ done: false, error: { code: 'server_shutdown' } })
      expect(await ended()).toMatchObject([{ outcome: 'shutdown', ...free }])
    } finally {
      await draining.close()
    }
  })

  it('the gateway is killed in mid-stream', async () => {
    const { before, killed, after } = await killedInMidStream(upstream)
    expect(killed).toMatchObject({ postedNanos: before.postedNanos, leases: 1 })
    expect(killed.leasedNanos).toBeGreaterThan(0n)
    expect(after).toMatchObject({ postedNanos: before.postedNanos, leasedNanos: 0n, leases: 0, balanceUsd: '5' })
    expect(after.usage).toEqual([{ outcome: 'node_died', cost_nanos: 0n, hoster_share_nanos: 0n }])
    expect(after.violations).toEqual([])
  })

  /** Sends a request, buries its node, and sends the request again. `finish` lets the first server answer. */
  async function sentAgain() {
    const { chat, ended } = await sale()
    const gate = Promise.withResolvers<void>()
    upstream.respondWith(async (request, response) => {
      await gate.promise
      await answer()(request, response)
    }, answer())
    const headers = { 'idempotency-key': randomUUID() }
    const first = chat({}, { headers })
    await upstream.next()
    await gateway.database.pool.query('DELETE FROM node_heartbeat')
    await gateway.database.pool.query(`UPDATE node SET state = 'dead'`)
    expect((await chat({}, { headers })).status).toBe(200)
    const finish = async () => {
      gate.resolve()
      expect((await first).status).toBe(200)
    }
    return { ended, finish }
  }

  it('the node dies, and the request is sent again with its Idempotency-Key', async () => {
    const { ended, finish } = await sentAgain()
    const rows = await ended(2)
    expect(rows.find(row => row.outcome === 'superseded')).toMatchObject(free)
    expect(rows.find(row => row.outcome === 'served')?.cost_nanos).toBeGreaterThan(0n)
    await finish()
  })

  it('a paused node finishes its answer after the request was sent again with its Idempotency-Key', async () => {
    const { ended, finish } = await sentAgain()
    await finish()
    const isServed = ({ outcome }: { outcome: string }) => outcome === 'served'
    const rows = await vi.waitFor(async () => {
      const all = await ended(2)
      expect(all.filter(isServed)).toHaveLength(2)
      return all
    }, WAIT_OPTIONS)
    const [late, charged] = rows.toSorted((a, b) => Number(a.cost_nanos - b.cost_nanos))
    expect(late).toMatchObject({ ...free, writeoff_nanos: charged!.cost_nanos })
    expect(charged!.cost_nanos).toBeGreaterThan(0n)
  })

  it('the gateway has an internal error', async () => {
    const text = 'It is six minutes on foot.'
    const headers = { 'idempotency-key': randomUUID() }
    const billingBreaks = () =>
      vi.spyOn(TextBuffer.prototype, 'toString').mockImplementationOnce(() => {
        throw new Error('planted')
      })
    /** Makes settlements fail this many times, before the ledger knows of the request. */
    const settlementBreaks = (times: number) => () =>
      armFailpoints(Array(times).fill({ name: 'settlement-before-build', hit: 1, action: 'throw' }))
    const faults: [stream: boolean, plant: () => void][] = [
      [true, billingBreaks],
      [true, settlementBreaks(1)],
      [false, settlementBreaks(1)],
      // Including a fault during the settlement of the fault.
      [false, settlementBreaks(2)],
    ]
    try {
      for (const [stream, plant] of faults) {
        const { customer, chat, ended } = await sale()
        upstream.respondWith(answer({ text, usage: null }))
        plant()
        const response = await chat({ stream }, { headers })
        const error = stream ? (await readEventStream(response)).error : await readError(response)
        expect(error).toMatchObject({ code: 'internal_error' })
        expect(await ended()).toMatchObject([{ outcome: 'internal_error', ...free }])
        const leases = await gateway.database.pool.query('SELECT FROM lease WHERE customer_id = $1', [
          customer.customerId,
        ])
        expect(leases.rows).toEqual([])
        // The Idempotency-Key is free again too.
        upstream.respondWith(answer({ text, usage: null }))
        await (await chat({ stream }, { headers })).text()
        const again = (await ended(2)).filter(row => row.outcome === 'served')
        expect(again).toMatchObject([{ output_tokens: countTokens(text) }])
      }
    } finally {
      vi.restoreAllMocks()
      armFailpoints([])
    }
  })

  it('the charge cannot be recorded in ten seconds', async () => {
    const SHORT_TIMEOUTS = await startTestApp({
      yaml: 'hosters: { allow_private_urls: true }',
      mayBeCutOff: true,
      timeouts: { commitWaitMs: 200 },
    })
    try {
      const { chat, ended } = await sale({ at: SHORT_TIMEOUTS })
      const gate = Promise.withResolvers<void>()
      upstream.respondWith(async (request, response) => {
        await gate.promise
        await answer()(request, response)
      })
      const asked = upstream.requests.length
      const response = chat()
      await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(asked + 1)
      const restore = SHORT_TIMEOUTS.cutOff()
      gate.resolve()
      expect(await readError(await response)).toMatchObject({ status: 504, code: 'settlement_unavailable' })
      restore()
      expect(await ended()).toMatchObject([{ outcome: 'internal_error', ...free }])
    } finally {
      await SHORT_TIMEOUTS.close()
    }
  })

  it('refused at admission (402, 404, 429, `feature_not_supported`, `no_eligible_offer`)', async () => {
    const model = 'test-model'
    await gateway.hoster({ baseUrl: upstream.baseUrl })
    const rich = await gateway.customer()
    const poor = await gateway.customer({ creditNanos: 100n })
    const withQueryTimeout = await gateway.customer({
      limits: { requestsPerMinute: 1, requestsPerDay: 1_000, dailySpendCapNanos: credit },
    })
    expect((await gateway.chat(withQueryTimeout, { model, messages })).status).toBe(200)
    const before = await gateway.balanceNanos(withQueryTimeout)
    const asked = upstream.requests.length
    const audio = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }
    const refused = [
      await gateway.chat(poor, { model, messages }),
      await gateway.chat(rich, { model: 'no-such-model', messages }),
      await gateway.chat(withQueryTimeout, { model, messages }),
      await gateway.chat(rich, { model, messages: [{ role: 'user', content: [audio] }] }),
      await gateway.chat(rich, { model, messages, max_latency_ms: 1 }),
    ]
    const errors = await Promise.all(refused.map(readError))
    expect(errors.map(({ status, code }) => [status, code])).toEqual([
      [402, 'insufficient_credits'],
      [404, 'model_not_found'],
      [429, 'rate_limit_exceeded'],
      [400, 'feature_not_supported'],
      [500, 'no_eligible_offer'],
    ])
    expect(upstream.requests.length).toBe(asked)
    expect([...(await gateway.usage(rich)), ...(await gateway.usage(poor))]).toEqual([])
    expect((await gateway.usage(withQueryTimeout)).length).toBe(1)
    expect(await gateway.balanceNanos(withQueryTimeout)).toBe(before)
  })

  it('refund of a charge: [`switchyard ledger refund`](#refunds)', async () => {
    const { customer, hosterId, chat, ended } = await sale()
    upstream.respondWith(answer({ usage: usageOf(10, 5) }))
    await (await chat()).text()
    const [row] = await ended()
    const order = { customerId: customer.customerId, requestId: row!.request_id, reason: 'wrong language' }
    const part = await refundRequest(gateway.database.pool, { ...order, amountNanos: row!.cost_nanos / 3n })
    expect(part).toMatchObject({ kind: 'refunded', refund: { amountNanos: 6_666n, hosterShareNanos: 5_332n } })
    expect(await gateway.balanceNanos(customer)).toBe(credit - row!.cost_nanos + 6_666n)
    expect(await earnedNanos(gateway, hosterId)).toBe(row!.hoster_share_nanos - 5_332n)
    expect(await gateway.usage(customer)).toEqual([row])
  })
})
