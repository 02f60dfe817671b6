import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import { answer, sse, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))

// The prompt is bounded by its 5 bytes + 16 for the message + 64: 85 tokens, 85,000 nano-USD. An output token costs 2,000.
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
const promptNanos = 85_000n
const outputNanos = (tokens: number) => BigInt(tokens) * 2_000n

test('insufficient_credits names the balance, the cost and an affordable max_tokens, which then succeeds', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(100) })
  const sentBefore = upstream.requests.length
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
  expect(error.message).toContain('may cost up to 0.000287 USD')
  expect(error.message).toContain('You can afford max_tokens 100.')
  expect(error).toMatchObject({
    balance_usd: 0.000285,
    available_usd: 0.000285,
    needed_usd: 0.000287,
    affordable_max_tokens: 100,
  })
  expect(upstream.requests.length).toBe(sentBefore)
  expect(await gateway.balanceNanos(customer)).toBe(285_000n)
  expect(await gateway.usage(customer)).toEqual([])

  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
})

test('with an empty balance the message suggests no max_tokens', async () => {
  const customer = await gateway.customer({ creditNanos: 0n })
  for (const body of [hello, { ...hello, stream: true }, { ...hello, max_tokens: 1 }]) {
    const error = await readError(await gateway.chat(customer, body))
    expect(error).toMatchObject({ status: 402, code: 'insufficient_credits' })
    expect(error.message).not.toContain('You can afford')
  }
})

test('a huge max_tokens is refused for its cost', async () => {
  const endless = testOffer(upstream.baseUrl, {
    modelId: 'endless',
    contextTokens: 2 ** 32,
    maxOutputTokens: 2 ** 31 - 1,
  })
  const other = await startTestApp({ offers: [endless] })
  try {
    const customer = await other.customer({ tier: 'scale' })
    const error = await readError(await other.chat(customer, { ...hello, model: 'endless', max_tokens: 2 ** 31 - 1 }))
    expect(error).toMatchObject({ status: 402, code: 'insufficient_credits' })
    expect(error.message).toContain('You can afford max_tokens 2499957.')
  } finally {
    await other.close()
  }
})

test('the hold covers max_tokens for each of n choices', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(100) })
  const error = await readError(await gateway.chat(customer, { ...hello, n: 4, max_tokens: 26 }))
  expect(error).toMatchObject({ status: 402, code: 'insufficient_credits' })
  expect(error.message).toContain('You can afford max_tokens 25.')
})

test('the affordable max_tokens also covers the servers with a smaller maximum output', async () => {
  const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 6_000_000n }
  const offers = [
    testOffer(upstream.baseUrl, { modelId: 'mixed', maxOutputTokens: 1_000, endpoint: { endpointId: 'long' } }),
    testOffer(upstream.baseUrl, { modelId: 'mixed', maxOutputTokens: 100, endpoint: { endpointId: 'short' }, price }),
  ]
  const other = await startTestApp({ offers })
  try {
    // The balance pays for 30 tokens at the `long` server, but the more expensive `short` server can serve 30 tokens too.
    const customer = await other.customer({ creditNanos: promptNanos + 60_000n })
    const refused = await readError(await other.chat(customer, { ...hello, model: 'mixed', max_tokens: 900 }))
    expect(refused).toMatchObject({ status: 402, code: 'insufficient_credits', affordable_max_tokens: 10 })
    expect((await other.chat(customer, { ...hello, model: 'mixed', max_tokens: 11 })).status).toBe(402)
    expect((await other.chat(customer, { ...hello, model: 'mixed', max_tokens: 10 })).status).toBe(200)
  } finally {
    await other.close()
  }
})

test('without max_tokens, the model server receives what the balance affords', async () => {
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(40) + 1_999n })
  upstream.respondWith(answer({ usage: usageOf(10, 40) }))
  const sentBefore = upstream.requests.length
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  expect(upstream.requests[sentBefore]!.body.max_tokens).toBe(40)
})

test('without max_tokens, the model server receives 4,096 if the balance affords it', async () => {
  const customer = await gateway.customer()
  const sentBefore = upstream.requests.length
  await gateway.chat(customer, hello)
  expect(upstream.requests[sentBefore]!.body.max_tokens).toBe(4_096)
})

test('in_flight_budget while a running stream holds the rest of the balance', async () => {
  const customer = await gateway.customer({ creditNanos: 2n * promptNanos + outputNanos(150) })
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(streamEvents({ usage: usageOf(10, 5) }), { beforeEvent: index => (index === 2 ? gate.promise : undefined) }),
  )
  const running = await gateway.chat(customer, { ...hello, stream: true, max_tokens: 100 })
  expect(running.status).toBe(200)

  const headers = { 'x-switchyard-wait-for-credit-ms': '0' }
  const refused = await gateway.chat(customer, { ...hello, max_tokens: 100 }, { headers })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  const error = await readError(refused)
  expect(error).toMatchObject({
    status: 402,
    type: 'insufficient_quota',
    code: 'in_flight_budget',
    param: 'max_tokens',
  })
  expect(error.message).toContain('The balance is 0.00047 USD')
  expect(error.message).toContain('leave only 0.000185 USD')
  expect(error.message).toContain('You can afford max_tokens 50.')
  expect(error).toMatchObject({ balance_usd: 0.00047, available_usd: 0.000185, affordable_max_tokens: 50 })
  const fitting = await gateway.chat(customer, { ...hello, max_tokens: 50 })
  expect(fitting.status).toBe(200)

  gate.resolve()
  expect((await readEventStream(running)).done).toBe(true)
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
})

test('a hold does not lower the balance in the reports', async () => {
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(sse(streamEvents(), { beforeEvent: index => (index === 2 ? gate.promise : undefined) }))
  const running = await gateway.chat(customer, { ...hello, stream: true })
  const shown = (await (await gateway.get(customer, '/v1/usage')).json()) as { credit_balance_usd: number }
  expect(shown.credit_balance_usd).toBe(5)
  gate.resolve()
  await readEventStream(running)
})

test('daily_spend_cap_reached names the rest of the cap and advises against a retry', async () => {
  const customer = await gateway.customer({ limits: { dailySpendCapNanos: promptNanos + outputNanos(100) } })
  upstream.respondWith(answer({ usage: usageOf(50, 50) }))
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
  const refused = await gateway.chat(customer, { ...hello, max_tokens: 100 })
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 402, type: 'insufficient_quota', code: 'daily_spend_cap_reached' })
  expect(error.message).toContain('The daily spend cap of 0.000285 USD has 0.000135 USD left')
  expect(error.message).toContain('You can afford max_tokens 25.')
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

test('the message for a cap of 0 names no reset', async () => {
  const customer = await gateway.customer({ limits: { dailySpendCapNanos: 0n } })
  const error = await readError(await gateway.chat(customer, hello))
  expect(error).toMatchObject({ status: 402, code: 'daily_spend_cap_reached', limit_usd: 0, reset_at: null })
  expect(error.message).toBe(
    'The daily spend cap is 0 USD, so this account cannot make paid requests. Ask the operator to raise the cap.',
  )
})

test('concurrent requests cannot exceed the daily spend cap together', async () => {
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

test('a request refused with 402 counts against the rate limits', async () => {
  const customer = await gateway.customer({ creditNanos: 0n, limits: { requestsPerMinute: 10 } })
  const refused = await gateway.chat(customer, hello)
  expect(refused.status).toBe(402)
  expect(refused.headers.get('x-ratelimit-limit-requests')).toBe('10')
  expect(refused.headers.get('x-ratelimit-remaining-requests')).toBe('9')
})

test('a balance for exactly 50 requests serves 50 of 200 concurrent requests and ends at zero', async () => {
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

test('the unused rest of a hold is available to the next request', async () => {
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

test('key_spend_limit_reached names limit, usage, reset time and what is affordable; another key still works', async () => {
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
  expect(error.message).toContain('0.000285 USD, of which 0.00015 USD is used')
  expect(error.message).toContain(`resets at ${tomorrow}`)
  expect((await gateway.chat(await gateway.anotherKey(customer), { ...hello, max_tokens: 100 })).status).toBe(200)
  expect((await gateway.chat(customer, { ...hello, max_tokens: 25 })).status).toBe(200)
  expect(await readError(await gateway.chat(customer, { ...hello, stream: true }))).toMatchObject({
    code: 'key_spend_limit_reached',
  })
})

test('the affordable max_tokens does not exceed the balance if the key limit is higher', async () => {
  const customer = await gateway.customer({
    creditNanos: promptNanos + outputNanos(100),
    key: { limit: { limitNanos: 1_000_000_000n, reset: 'daily' } },
  })
  const error = await readError(await gateway.chat(customer, { ...hello, max_tokens: 101 }))
  expect(error).toMatchObject({ status: 402, code: 'insufficient_credits', affordable_max_tokens: 100 })
})

test('a key limit for 10 requests serves 10 of 60 concurrent requests', async () => {
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

test('on_insufficient: clamp lowers max_tokens and the hold to what is affordable', async () => {
  const clamp = { ...hello, on_insufficient: 'clamp' }
  const customer = await gateway.customer({ creditNanos: promptNanos + outputNanos(40) + 1_999n })
  const sentBefore = upstream.requests.length
  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  const served = await gateway.chat(customer, { ...clamp, max_tokens: 4_096 })
  expect(served.status).toBe(200)
  expect(served.headers.get('x-switchyard-max-tokens')).toBe('40')
  expect(upstream.requests[sentBefore]!.body).toMatchObject({ max_tokens: 40 })
  expect(upstream.requests[sentBefore]!.body).not.toHaveProperty('on_insufficient')
  expect((await gateway.usage(customer))[0]!.hold_nanos).toBe(promptNanos + outputNanos(40) + 1_999n)

  // 20,000 nano-USD are spent, so 30 tokens are affordable, in a stream and with max_completion_tokens too.
  upstream.respondWith(sse(streamEvents({ usage: usageOf(1, 1) })))
  const streamed = await gateway.chat(customer, { ...clamp, max_completion_tokens: 100, stream: true })
  expect(streamed.headers.get('x-switchyard-max-tokens')).toBe('30')
  expect((await readEventStream(streamed)).done).toBe(true)
  expect(upstream.requests.at(-1)!.body.max_tokens).toBe(30)
})

test('clamp keeps an affordable max_tokens, refuses fewer than 16 tokens, and applies to key limits', async () => {
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

test('account_in_debt after a chargeback of spent credit, until new credit has paid the debt', async () => {
  const customer = await gateway.customer({ creditNanos: 0n })
  const sql = gateway.database.pool
  const pay = async (nanos: bigint) => {
    const id = randomUUID()
    await sql.query(
      "SELECT start_payment($1::uuid, $2, 'manual', $3, 1, 'usd', true, $1::uuid::text, NULL, NULL, NULL, NULL)",
      [id, customer.customerId, nanos],
    )
    await sql.query('SELECT book_manual_payment($1)', [id])
    return id
  }
  const paymentId = await pay(285_000n)
  upstream.respondWith(answer({ usage: usageOf(50, 50) }))
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
  await gateway.settled(customer, 1)
  await sql.query("SELECT reverse_payment(gen_random_uuid(), $1, 285000, NULL, true, 'charged back')", [paymentId])
  const refused = await gateway.chat(customer, { ...hello, max_tokens: 1 })
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 402, type: 'insufficient_quota', code: 'account_in_debt', debt_usd: 0.00015 })
  expect(error.message).toContain('0.00015 USD are owed')
  const credits = async () => (await gateway.get(customer, '/v1/credits')).json()
  expect(await credits()).toMatchObject({ balance_usd: 0, debt_usd: 0.00015, granted_usd: 0.00015, spent_usd: 0.00015 })
  await pay(150_000n)
  expect(await credits()).toMatchObject({ balance_usd: 0, debt_usd: 0 })
  expect(await readError(await gateway.chat(customer, hello))).toMatchObject({ code: 'insufficient_credits' })
  await pay(285_000n)
  expect((await gateway.chat(customer, { ...hello, max_tokens: 100 })).status).toBe(200)
  const { data } = (await (await gateway.get(customer, '/v1/credits/transactions')).json()) as {
    data: { kind: string; amount_usd: number; balance_usd: number }[]
  }
  expect(data.filter(({ kind }) => kind !== 'usage').map(({ kind, amount_usd }) => [kind, amount_usd])).toEqual([
    ['payment', 0.000285],
    ['debt_payment', -0.00015],
    ['payment', 0.00015],
    ['reversal', -0.000135],
    ['payment', 0.000285],
  ])
})
