import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import {
  answer,
  type ScriptedUpstream,
  sse,
  startScriptedUpstream,
  streamEvents,
  usageOf,
} from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  gateway = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

// The prompt is bounded by its 5 bytes + 16 for the message + 64: 85 tokens, 85,000 nano-USD. An output token costs 2,000.
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
const promptNanos = 85_000n
const outputNanos = (tokens: number) => BigInt(tokens) * 2_000n

test('insufficient_credits names the balance, the need, and the max_tokens that would fit, which then does', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(100) })
  const asked = upstream.requests.length
  const refused = await gateway.chat(customer, { ...hello, max_tokens: 101 })
  expect(refused.headers.get('x-should-retry')).toBeNull()
  const error = await readError(refused)
  expect(error).toMatchObject({
    status: 402,
    type: 'insufficient_quota',
    code: 'insufficient_credits',
    param: 'max_tokens',
  })
  expect(error.message).toContain('The balance is 0.000285 USD')
  expect(error.message).toContain('may cost 0.000287 USD')
  expect(error.message).toContain('It can afford max_tokens 100.')
  expect(error).toMatchObject({
    balance_usd: 0.000285,
    available_usd: 0.000285,
    needed_usd: 0.000287,
    affordable_max_tokens: 100,
  })
  expect(upstream.requests.length).toBe(asked)
  expect(await gateway.balanceNanos(customer)).toBe(285_000n)
  expect(await gateway.usage(customer)).toEqual([])

  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
})

test('an empty balance affords nothing, and the message does not pretend otherwise', async () => {
  const customer = await gateway.customer({ creditNanos: 0n })
  for (const body of [hello, { ...hello, stream: true }, { ...hello, max_tokens: 1 }]) {
    const error = await readError(await gateway.chat(customer, body))
    expect(error).toMatchObject({ status: 402, code: 'insufficient_credits' })
    expect(error.message).not.toContain('It can afford')
  }
})

test('a max_tokens nobody could pay is refused, however large', async () => {
  const rich = testOffer(upstream.baseUrl, {
    modelId: 'endless',
    contextTokens: 2 ** 32,
    maxOutputTokens: 2 ** 31 - 1,
  })
  const other = await startTestApp({ offers: [rich] })
  try {
    const customer = await other.customer({ tier: 'scale' })
    const error = await readError(await other.chat(customer, { ...hello, model: 'endless', max_tokens: 2 ** 31 - 1 }))
    expect(error).toMatchObject({ status: 402, code: 'insufficient_credits' })
    expect(error.message).toContain('It can afford max_tokens 2499957.')
  } finally {
    await other.close()
  }
})

test('each of n choices may use max_tokens, so each is paid for', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(100) })
  const error = await readError(await gateway.chat(customer, { ...hello, n: 4, max_tokens: 26 }))
  expect(error).toMatchObject({ status: 402, code: 'insufficient_credits' })
  expect(error.message).toContain('It can afford max_tokens 25.')
})

test('the max_tokens that would fit also pays for the servers that make no more than that', async () => {
  const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 6_000_000n }
  const offers = [
    testOffer(upstream.baseUrl, { modelId: 'mixed', maxOutputTokens: 1_000, endpoint: { endpointId: 'long' } }),
    testOffer(upstream.baseUrl, { modelId: 'mixed', maxOutputTokens: 100, endpoint: { endpointId: 'short' }, price }),
  ]
  const other = await startTestApp({ offers })
  try {
    // At the one that makes a thousand it pays for 30 tokens, but whoever asks for 30 may be served by the dearer one.
    const customer = await other.customer({ creditNanos: promptNanos + 60_000n })
    const refused = await readError(await other.chat(customer, { ...hello, model: 'mixed', max_tokens: 900 }))
    expect(refused).toMatchObject({ status: 402, code: 'insufficient_credits', affordable_max_tokens: 10 })
    expect((await other.chat(customer, { ...hello, model: 'mixed', max_tokens: 11 })).status).toBe(402)
    expect((await other.chat(customer, { ...hello, model: 'mixed', max_tokens: 10 })).status).toBe(200)
  } finally {
    await other.close()
  }
})

test('an omitted max_tokens is what the balance affords, and is what the model server is told', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(40) + 1_999n })
  upstream.respondWith(answer({ usage: usageOf(10, 40) }))
  const asked = upstream.requests.length
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  expect(upstream.requests[asked]!.body.max_tokens).toBe(40)
})

test('an omitted max_tokens is 4,096 where the balance affords it', async () => {
  const customer = await gateway.customer()
  const asked = upstream.requests.length
  await gateway.chat(customer, hello)
  expect(upstream.requests[asked]!.body.max_tokens).toBe(4_096)
})

test('in_flight_budget while a running stream holds the rest; it ends with that stream', async () => {
  const customer = await gateway.customer({ creditNanos: 2n * promptNanos + outputNanos(150) })
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(streamEvents({ usage: usageOf(10, 5) }), { beforeEvent: index => (index === 2 ? gate.promise : undefined) }),
  )
  const running = await gateway.chat(customer, { ...hello, stream: true, max_tokens: 100 })
  expect(running.status).toBe(200)

  const refused = await gateway.chat(customer, { ...hello, max_tokens: 100 })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  const error = await readError(refused)
  expect(error).toMatchObject({
    status: 402,
    type: 'insufficient_quota',
    code: 'in_flight_budget',
    param: 'max_tokens',
  })
  expect(error.message).toContain('The balance is 0.00047 USD')
  expect(error.message).toContain('all but 0.000185 USD')
  expect(error.message).toContain('It can afford max_tokens 50.')
  expect(error).toMatchObject({ balance_usd: 0.00047, available_usd: 0.000185, affordable_max_tokens: 50 })
  const fitting = await gateway.chat(customer, { ...hello, max_tokens: 50 })
  expect(fitting.status).toBe(200)

  gate.resolve()
  expect((await readEventStream(running)).done).toBe(true)
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
})

test('a hold is not a charge: the balance shown does not sink while a stream runs', async () => {
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(sse(streamEvents(), { beforeEvent: index => (index === 2 ? gate.promise : undefined) }))
  const running = await gateway.chat(customer, { ...hello, stream: true })
  const shown = (await (await gateway.get(customer, '/v1/usage')).json()) as { credit_balance_usd: number }
  expect(shown.credit_balance_usd).toBe(5)
  gate.resolve()
  await readEventStream(running)
})

test('daily_spend_cap_reached says what is left of the cap and that a retry today is pointless', async () => {
  const customer = await gateway.customer({ limits: { dailySpendCapNanos: promptNanos + outputNanos(100) } })
  upstream.respondWith(answer({ usage: usageOf(50, 50) }))
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
  const refused = await gateway.chat(customer, { ...hello, max_tokens: 100 })
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 402, type: 'insufficient_quota', code: 'daily_spend_cap_reached' })
  expect(error.message).toContain('0.000285 USD, of which 0.000135 USD are left')
  expect(error.message).toContain('It can afford max_tokens 25.')
  expect(error).toMatchObject({
    balance_usd: 4.99985,
    available_usd: 0.000135,
    needed_usd: 0.000285,
    affordable_max_tokens: 25,
    limit_usd: 0.000285,
    used_usd: 0.00015,
    reset_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00\.000Z$/),
  })
  expect((await gateway.chat(customer, { ...hello, max_tokens: 25 })).status).toBe(200)
})

test('a cap of 0 is said to stand, not to start again', async () => {
  const customer = await gateway.customer({ limits: { dailySpendCapNanos: 0n } })
  const error = await readError(await gateway.chat(customer, hello))
  expect(error).toMatchObject({ status: 402, code: 'daily_spend_cap_reached', limit_usd: 0, reset_at: null })
  expect(error.message).toBe(
    'The daily spend cap is 0 USD: this account makes no paid requests until the operator raises it.',
  )
})

test('the cap counts what runs, so that many requests at once do not pass it together', async () => {
  const customer = await gateway.customer({ limits: { dailySpendCapNanos: 10n * (promptNanos + outputNanos(10)) } })
  upstream.always(answer({ usage: usageOf(85, 10) }))
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => gateway.chat(customer, { ...hello, max_tokens: 10 })),
  )
  upstream.always(answer())
  expect(answers.filter(({ status }) => status === 200).length).toBe(10)
  expect(answers.filter(({ status }) => status === 402).length).toBe(20)
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - 10n * (promptNanos + outputNanos(10)))
})

test('a refusal for money counts against the limits, and says where they stand', async () => {
  const customer = await gateway.customer({ creditNanos: 0n, limits: { requestsPerMinute: 10 } })
  const refused = await gateway.chat(customer, hello)
  expect(refused.status).toBe(402)
  expect(refused.headers.get('x-ratelimit-limit-requests')).toBe('10')
  expect(refused.headers.get('x-ratelimit-remaining-requests')).toBe('9')
})

test('a balance for exactly fifty serves fifty of two hundred at once and ends at zero', async () => {
  const cost = promptNanos + outputNanos(10)
  const customer = await gateway.customer({ creditNanos: 50n * cost, tier: 'scale' })
  upstream.always(answer({ usage: usageOf(85, 10) }))
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      gateway.chat(customer, { ...hello, max_tokens: 10, stream: index % 2 === 0 }).then(async response => {
        const text = await response.text()
        return response.status === 200 ? 'served' : JSON.parse(text).error.code
      }),
    ),
  )
  upstream.always(answer())
  expect(answers.filter(outcome => outcome === 'served').length).toBe(50)
  expect(answers.filter(outcome => outcome === 'in_flight_budget' || outcome === 'insufficient_credits').length).toBe(
    150,
  )
  expect(await gateway.balanceNanos(customer)).toBe(0n)
  const rows = await gateway.usage(customer)
  expect(rows.length).toBe(50)
  expect(new Set(rows.map(row => row.cost_nanos))).toEqual(new Set([cost]))
  expect(await readError(await gateway.chat(customer, { ...hello, max_tokens: 10 }))).toMatchObject({
    status: 402,
    code: 'insufficient_credits',
  })
})

test('when less is used than was held, the rest is there for the next: a balance for one serves as many as it pays', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(16) })
  upstream.always(answer({ usage: usageOf(10, 1) }))
  const statuses: number[] = []
  while (statuses.at(-1) !== 402) statuses.push((await gateway.chat(customer, { ...hello, max_tokens: 16 })).status)
  upstream.always(answer())
  expect(statuses).toEqual([200, 402])
  let served = 0
  while ((await gateway.chat(customer, { ...hello, max_tokens: 1 })).status === 200) served++
  expect(served).toBeGreaterThan(0)
  expect(await gateway.balanceNanos(customer)).toBeGreaterThanOrEqual(0n)
})

test('key_spend_limit_reached names limit, use, reset time and what fits; another key of the customer goes on', async () => {
  const limit = { limitNanos: promptNanos + outputNanos(100), reset: 'daily' } as const
  const customer = await gateway.customer({ key: { limit } })
  upstream.respondWith(answer({ usage: usageOf(50, 50) }))
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
  const refused = await gateway.chat(customer, { ...hello, max_tokens: 100 })
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const error = await readError(refused)
  const tomorrow = new Date(Math.floor(Date.now() / 86_400_000 + 1) * 86_400_000).toISOString()
  expect(error).toMatchObject({
    status: 402,
    type: 'insufficient_quota',
    code: 'key_spend_limit_reached',
    param: 'max_tokens',
    balance_usd: 4.99985,
    available_usd: 0.000135,
    needed_usd: 0.000285,
    affordable_max_tokens: 25,
    limit_usd: 0.000285,
    used_usd: 0.00015,
    reset_at: tomorrow,
  })
  expect(error.message).toContain('0.000285 USD, of which 0.00015 USD are used')
  expect(error.message).toContain(`starts again at ${tomorrow}`)
  expect((await gateway.chat(await gateway.anotherKey(customer), { ...hello, max_tokens: 100 })).status).toBe(200)
  expect((await gateway.chat(customer, { ...hello, max_tokens: 25 })).status).toBe(200)
  expect(await readError(await gateway.chat(customer, { ...hello, stream: true }))).toMatchObject({
    code: 'key_spend_limit_reached',
  })
})

test('a key that may spend more than there is promises no more than there is', async () => {
  const customer = await gateway.customer({
    creditNanos: promptNanos + outputNanos(100),
    key: { limit: { limitNanos: 1_000_000_000n, reset: 'daily' } },
  })
  const error = await readError(await gateway.chat(customer, { ...hello, max_tokens: 101 }))
  expect(error).toMatchObject({ status: 402, code: 'insufficient_credits', affordable_max_tokens: 100 })
})

test('a key with a limit for ten serves ten of sixty at once, and its customer has money left', async () => {
  const cost = promptNanos + outputNanos(10)
  const customer = await gateway.customer({ tier: 'scale', key: { limit: { limitNanos: 10n * cost, reset: 'none' } } })
  upstream.always(answer({ usage: usageOf(85, 10) }))
  const answers = await Promise.all(
    Array.from({ length: 60 }, () => gateway.chat(customer, { ...hello, max_tokens: 10 })),
  )
  upstream.always(answer())
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - 10n * cost)
  const error = await readError(await gateway.chat(customer, { ...hello, max_tokens: 10 }))
  expect(error).toMatchObject({ code: 'key_spend_limit_reached', affordable_max_tokens: 0, reset_at: null })
})

test('on_insufficient: clamp lowers max_tokens to what is affordable, tells the model server and the caller, and holds no more', async () => {
  const clamp = { ...hello, on_insufficient: 'clamp' }
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(40) + 1_999n })
  const asked = upstream.requests.length
  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  const served = await gateway.chat(customer, { ...clamp, max_tokens: 4_096 })
  expect(served.status).toBe(200)
  expect(served.headers.get('x-switchyard-max-tokens')).toBe('40')
  expect(upstream.requests[asked]!.body).toMatchObject({ max_tokens: 40 })
  expect(upstream.requests[asked]!.body).not.toHaveProperty('on_insufficient')
  expect((await gateway.usage(customer))[0]!.hold_nanos).toBe(promptNanos + outputNanos(40) + 1_999n)

  // 20,000 nano-USD are spent: 30 tokens are left, streamed or not, by either name of the field.
  upstream.respondWith(sse(streamEvents({ usage: usageOf(1, 1) })))
  const streamed = await gateway.chat(customer, { ...clamp, max_completion_tokens: 100, stream: true })
  expect(streamed.headers.get('x-switchyard-max-tokens')).toBe('30')
  expect((await readEventStream(streamed)).done).toBe(true)
  expect(upstream.requests.at(-1)!.body.max_tokens).toBe(30)
})

test('clamp leaves alone what is affordable, and 402 where not even 16 tokens are; a key limit clamps too', async () => {
  const clamp = { ...hello, on_insufficient: 'clamp' }
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(15) })
  const refused = await readError(await gateway.chat(customer, { ...clamp, max_tokens: 100 }))
  expect(refused).toMatchObject({ status: 402, code: 'insufficient_credits', affordable_max_tokens: 15 })
  const affordable = await gateway.chat(customer, { ...clamp, max_tokens: 15 })
  expect(affordable.status).toBe(200)
  expect(affordable.headers.has('x-switchyard-max-tokens')).toBe(false)

  const limit = { limitNanos: promptNanos + outputNanos(50), reset: 'monthly' } as const
  const limited = await gateway.customer({ key: { limit } })
  const served = await gateway.chat(limited, { ...clamp, max_tokens: 100 })
  expect(served.headers.get('x-switchyard-max-tokens')).toBe('50')
})
