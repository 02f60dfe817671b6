import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TokenUsage } from '../../src/base/domain/completion.ts'
import { offerPrice, type PriceList, plainPrices } from '../../src/base/domain/price-list.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { parseEventStream } from '../harness/event-stream.ts'
import { answer, sse, status, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { type AccountOfHistory, type AnswerFacts, checkAccount } from './account-check.ts'

const upstream = useUpstream()
let gateway: TestApp
/** A gateway with corrupted tables, which is closed without an audit. */
let corrupted: TestApp

beforeAll(async () => {
  // The prompt contains the script of the answer.
  upstream.always((request, response) => {
    const script = JSON.parse(request.body.messages![0]!.content as string) as Script
    const { ending, output } = script
    const usage = usageIn(script)
    if (ending === 'fails') return status(500)(request, response)
    if (ending === 'breaks off' && request.body.stream)
      return sse(streamEvents({ usage }).slice(0, 3), { ending: 'reset' })(request, response)
    return answer({ text: 'word '.repeat(output), usage })(request, response)
  })
  gateway = await startGateway()
  corrupted = await startGateway()
})
afterAll(async () => {
  await corrupted?.stop()
  await corrupted?.database.drop()
  await gateway?.close()
})

/** Starts a gateway with odd prices and shares, so that every amount rounds. Every kind of token has a price. */
async function startGateway(): Promise<TestApp> {
  const plain = { inputPicoPerToken: 150_001n, outputPicoPerToken: 600_007n }
  const list: PriceList = {
    ...plainPrices(150_001n, 600_007n),
    parts: { cache_read: 15_013n, cache_write: 180_017n, cache_write_long: 300_019n, output_audio: 700_001n },
    perRequest: 3_333_337n,
    steps: [{ ...plainPrices(210_011n, 650_003n), aboveInputTokens: 100 }],
  }
  const price = offerPrice(list, 'local', 0)
  const cloudPrice = offerPrice({ ...list, steps: [] }, 'cloud', 0)
  const hosterPrice = { ...plain, cacheReadPicoPerToken: 50_003n, cacheWritePicoPerToken: 140_009n }
  const app = await startTestApp({
    yaml: 'hosters: { allow_private_urls: true }\nreports: { requests_per_minute: 1000000 }',
    offers: [
      testOffer(upstream.baseUrl, { modelId: 'local-model', price, endpoint: { endpointId: 'gpu-1' } }),
      testOffer(upstream.baseUrl, {
        modelId: 'mixed',
        price: cloudPrice,
        endpoint: { endpointId: 'cloud-1', kind: 'cloud' },
      }),
    ],
  })
  await app.hoster({
    baseUrl: `${upstream.baseUrl}/hoster`,
    shareBps: 8_333,
    models: [{ modelId: 'mixed', price: hosterPrice }],
  })
  return app
}

/** The report of the upstream. Some of its parts exceed the sums that they belong to. */
function usageIn({ input, output, parts }: Script): TokenUsage {
  if (parts === undefined) return usageOf(input, output)
  const { reasoning, spoken, ...details } = parts
  return {
    ...usageOf(input, output),
    prompt_tokens_details: details,
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: spoken },
  }
}

interface Script {
  readonly ending: 'ends' | 'fails' | 'breaks off'
  readonly input: number
  readonly output: number
  readonly parts?:
    | {
        readonly cached_tokens: number
        readonly cache_write_tokens: number
        readonly cache_write_long_tokens: number
        readonly audio_tokens: number
        readonly reasoning: number
        readonly spoken: number
      }
    | undefined
}

interface Ask {
  readonly kind: 'ask'
  readonly key: number
  readonly model: string
  readonly script: Script
  readonly stream: boolean
  readonly maxTokens: number | undefined
  readonly clamp: boolean
  readonly maxCostUsd: number | undefined
  readonly dryRun: boolean
  /** One of a few Idempotency-Keys: with the same body a retry, with another body a mistake. */
  readonly order: number | undefined
}
type Retry = { readonly kind: 'retry'; readonly pick: number }
type Refund = { readonly kind: 'refund'; readonly pick: number; readonly percent: bigint }
type Step = Ask | Retry | Refund

const ask: fc.Arbitrary<Ask> = fc.record({
  kind: fc.constant('ask' as const),
  key: fc.nat(2),
  model: fc.constantFrom('local-model', 'mixed', 'mixed'),
  script: fc.record({
    ending: fc.constantFrom('ends' as const, 'ends' as const, 'ends' as const, 'fails' as const, 'breaks off' as const),
    input: fc.nat(150),
    output: fc.nat(300),
    parts: fc.option(
      fc.record({
        ...{ cached_tokens: fc.nat(100), cache_write_tokens: fc.nat(80), cache_write_long_tokens: fc.nat(40) },
        ...{ audio_tokens: fc.constantFrom(0, 0, 9), reasoning: fc.nat(100), spoken: fc.constantFrom(0, 0, 7) },
      }),
      { nil: undefined },
    ),
  }),
  stream: fc.boolean(),
  maxTokens: fc.option(fc.integer({ min: 1, max: 600 }), { nil: undefined }),
  clamp: fc.boolean(),
  maxCostUsd: fc.constantFrom(undefined, undefined, undefined, 0.0001, 0.0002),
  dryRun: fc.constantFrom(false, false, false, false, true),
  order: fc.constantFrom(undefined, undefined, undefined, 0, 1, 2),
})
const pick = fc.nat(1_000)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: ask },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('retry' as const), pick }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('refund' as const), pick, percent: fc.constantFrom(1n, 33n, 100n) }),
  },
)
/** Sequences of up to three concurrent steps. */
const histories = fc.array(fc.array(step, { minLength: 1, maxLength: 3 }), { minLength: 8, maxLength: 20, size: 'max' })

const GRANTED_NANOS = 500_000n

interface Life extends AccountOfHistory {
  readonly answers: AnswerFacts[]
  readonly refunds: Map<string, bigint>
  readonly orders: Map<string, { ask: Ask; requestIds: Set<string>; bodies: Set<string> }>
  /** Counts of each kind of answer. */
  readonly seen: Map<string, number>
}

/** Runs the steps for a customer with little money and three keys, two of them with lower limits. */
async function live(gateway: TestApp, steps: readonly (readonly Step[])[]): Promise<Life> {
  const customer = await gateway.customer({ creditNanos: GRANTED_NANOS, tier: 'scale' })
  const limits = [120_000n, 300_000n].map(limitNanos => ({ limitNanos, reset: 'none' as const }))
  const keys = [customer]
  for (const limit of limits) keys.push(await gateway.anotherKey(customer, { limit }))
  const life: Life = {
    ...{ gateway, keys, grantedNanos: GRANTED_NANOS },
    ...{ answers: [], refunds: new Map(), orders: new Map(), seen: new Map() },
  }
  for (const burst of steps) await Promise.all(burst.map(step => carryOut(life, step)))
  return life
}

async function carryOut(life: Life, step: Step): Promise<void> {
  if (step.kind === 'ask') return send(life, step, step.order === undefined ? undefined : `order-${step.order}`)
  if (step.kind === 'retry') {
    const order = [...life.orders][step.pick % Math.max(life.orders.size, 1)]
    return order && send(life, order[1].ask, order[0])
  }
  const one = life.answers[step.pick % Math.max(life.answers.length, 1)]
  if (one === undefined) return
  const { customerId } = life.keys[0]!
  const amountNanos = (one.costNanos * step.percent + 99n) / 100n
  if (amountNanos === 0n) return
  const order = { customerId, requestId: one.requestId, amountNanos, reason: 'a test' }
  if ((await refundRequest(life.gateway.database.pool, order)).kind === 'refunded')
    life.refunds.set(one.requestId, amountNanos)
}

async function send(life: Life, ask: Ask, order: string | undefined): Promise<void> {
  const body = {
    model: ask.model,
    messages: [{ role: 'user', content: JSON.stringify(ask.script) }],
    ...(ask.stream && { stream: true, stream_options: { include_usage: true } }),
    ...(ask.maxTokens !== undefined && { max_tokens: ask.maxTokens }),
    ...(ask.clamp && { on_insufficient: 'clamp' }),
    ...(ask.maxCostUsd !== undefined && { max_cost_usd: ask.maxCostUsd }),
    ...(ask.dryRun && { dry_run: true }),
  }
  const headers = order === undefined ? {} : { 'idempotency-key': order }
  const response = await life.gateway.chat(life.keys[ask.key]!, body, { headers })
  const text = await response.text()
  expect([200, 400, 402, 409, 422, 500]).toContain(response.status)
  const requestId = response.headers.get('x-request-id')!
  const isReplay = response.headers.has('idempotent-replayed')
  const what = response.status !== 200 ? JSON.parse(text).error.code : isReplay ? 'replayed' : 'answered'
  life.seen.set(what, (life.seen.get(what) ?? 0) + 1)
  if (response.status !== 200 || ask.dryRun) return
  const usage = ask.stream ? parseEventStream(text).usage : JSON.parse(text).usage
  // Broken off: free, and there is nothing to repeat.
  if (usage === null) return
  if (order !== undefined) {
    const known = life.orders.get(order) ?? { ask, requestIds: new Set(), bodies: new Set() }
    known.requestIds.add(requestId)
    known.bodies.add(text)
    life.orders.set(order, known)
  }
  if (isReplay) return
  if (ask.script.parts !== undefined) life.seen.set('with parts', (life.seen.get('with parts') ?? 0) + 1)
  const lowered = response.headers.get('x-switchyard-max-tokens')
  life.answers.push({
    requestId,
    costNanos: BigInt(Math.round((usage as { cost_usd: number }).cost_usd * 1e9)),
    maxTokens: lowered === null ? null : Number(lowered),
  })
}

/** Also checks that each order led to one request and one answer, however often it was sent. */
async function check(life: Life): Promise<void> {
  await checkAccount(life)
  expect((await audit(life.gateway.database.pool)).filter(({ violations }) => violations > 0)).toEqual([])
  for (const { requestIds, bodies } of life.orders.values()) expect([requestIds.size, bodies.size]).toEqual([1, 1])
}

test('answers, receipts, list, CSV, reports, credit, statement and ledger agree after any history', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(histories, async steps => {
      const life = await live(gateway, steps)
      await check(life)
      for (const [what, times] of life.seen) seen.set(what, (seen.get(what) ?? 0) + times)
      const clamped = life.answers.filter(({ maxTokens }) => maxTokens !== null).length
      seen.set('clamped', (seen.get('clamped') ?? 0) + clamped)
      seen.set('refunded', (seen.get('refunded') ?? 0) + life.refunds.size)
    }),
    { numRuns: 12, seed: 20_261_121, endOnFailure: true },
  )
  // Histories without these events would prove nothing.
  const refusals = ['insufficient_credits', 'in_flight_budget', 'key_spend_limit_reached']
  const refusedForMoney = refusals.reduce((times, code) => times + (seen.get(code) ?? 0), 0)
  expect(refusedForMoney).toBeGreaterThan(5)
  const kinds = [
    'answered',
    'with parts',
    'replayed',
    'clamped',
    'refunded',
    'idempotency_key_reused',
    'all_hosters_failed',
  ]
  for (const what of kinds) expect({ what, isThere: (seen.get(what) ?? 0) > 2 }).toEqual({ what, isThere: true })
})

const ofUsage = (change: string) => [
  `UPDATE usage_event SET ${change} WHERE customer_id = $customer AND request_id = $request`,
]
/** The ledger and the refunds refuse changes, except by the owner of the database. */
const ofLedger = (table: string, statement: string) => [
  `ALTER TABLE ${table} DISABLE TRIGGER append_only`,
  statement,
  `ALTER TABLE ${table} ENABLE TRIGGER append_only`,
]
const mine = 'WHERE customer_id = $customer'
const oneOf = (table: string, order: string) =>
  `${mine} AND ctid = (SELECT ctid FROM ${table} ${mine} ORDER BY ${order} LIMIT 1)`

/** Changes one figure in one table by the smallest amount, for a partly refunded request that a hoster served. */
const errors: [what: string, statements: string[]][] = [
  ['the charge of a request', ofUsage('cost_nanos = cost_nanos + 1, fee_nanos = fee_nanos + 1')],
  ['the share of a request', ofUsage('hoster_share_nanos = hoster_share_nanos - 1, fee_nanos = fee_nanos + 1')],
  ['the cached tokens of a request', ofUsage('cache_read_tokens = cache_read_tokens + 1')],
  [
    'the price of the cached tokens of a request',
    ofUsage('cache_read_pico_per_token = cache_read_pico_per_token + 1000000'),
  ],
  ['the written tokens of a request', ofUsage('cache_write_tokens = NULL, cache_write_pico_per_token = NULL')],
  ['the input tokens of a request', ofUsage('input_tokens = input_tokens + 1')],
  ['the output tokens of a request', ofUsage('output_tokens = output_tokens - 1')],
  ['the price of a request', ofUsage('output_pico_per_token = output_pico_per_token + 1000000')],
  ['the hold of a request', ofUsage('hold_nanos = cost_nanos, cost_nanos = cost_nanos - 1, fee_nanos = fee_nanos - 1')],
  [
    'the key of a request',
    ofUsage(`key_id = (SELECT key_id FROM api_key k ${mine} AND k.key_id <> usage_event.key_id LIMIT 1)`),
  ],
  ['the model of a request', ofUsage("model_id = 'another'")],
  ['the server of a request', ofUsage("provider = 'cloud'")],
  ['the transaction of a request', ofUsage('tx_id = tx_id - 1')],
  [
    'the lowered max_tokens',
    [`UPDATE usage_event SET routing = jsonb_set(routing, '{clamp,allowed}', '1') ${mine} AND routing ? 'clamp'`],
  ],
  ['a deleted request', [`DELETE FROM usage_event ${mine} AND cost_nanos = 0`]],
  ['the cost of an hour', [`UPDATE usage_hour SET cost_nanos = cost_nanos + 1 ${oneOf('usage_hour', 'hour')}`]],
  ['the requests of an hour', [`UPDATE usage_hour SET requests = requests + 1 ${oneOf('usage_hour', 'hour')}`]],
  [
    'the cached tokens of a day',
    [`UPDATE usage_day SET cached_tokens = cached_tokens + 1 ${oneOf('usage_day', 'day')}`],
  ],
  [
    'the price of a request, which is a part',
    [`UPDATE usage_event SET other_parts = NULL ${mine} AND provider = 'local' AND cost_nanos > 0`],
  ],
  ['the tokens of a day', [`UPDATE usage_day SET output_tokens = output_tokens + 1 ${oneOf('usage_day', 'day')}`]],
  [
    'the cost of a day',
    [`UPDATE usage_day SET cost_nanos = cost_nanos + 1, fee_nanos = fee_nanos + 1 ${oneOf('usage_day', 'day')}`],
  ],
  ['the shares of a day', [`UPDATE usage_day SET fee_nanos = fee_nanos + 1 ${oneOf('usage_day', 'day')}`]],
  [
    'the charges of a key in a day',
    [`UPDATE usage_key_day SET cost_nanos = cost_nanos + 1 ${oneOf('usage_key_day', 'day')}`],
  ],
  [
    'the rest of the limit of a key',
    [`UPDATE key_spend SET spent_nanos = spent_nanos + 1 ${oneOf('key_spend', 'key_id')}`],
  ],
  ['the balance', [`UPDATE balance SET posted_nanos = posted_nanos + 1 ${mine}`]],
  ['the held amount', [`UPDATE balance SET leased_nanos = leased_nanos + 1 ${mine}`]],
  [
    'the amount of a refund',
    ofLedger('refund', `UPDATE refund SET amount_nanos = amount_nanos + 1, fee_nanos = fee_nanos + 1 ${mine}`),
  ],
  [
    'the share of the hoster in a refund',
    ofLedger(
      'refund',
      `UPDATE refund SET hoster_share_nanos = hoster_share_nanos - 1, fee_nanos = fee_nanos + 1 ${mine}`,
    ),
  ],
  [
    'an entry of the ledger',
    ofLedger(
      'ledger_entry',
      `UPDATE ledger_entry SET amount_nanos = amount_nanos + 1
       WHERE account_kind = 'platform_revenue' AND tx_id = (SELECT tx_id FROM usage_event ${mine} AND request_id = $request)`,
    ),
  ],
]

describe('a single wrong figure is found without the audit:', () => {
  test.each(errors)('%s', async (_what, statements) => {
    const plain = {
      kind: 'ask',
      key: 0,
      model: 'mixed',
      stream: false,
      maxTokens: 20,
      clamp: false,
      dryRun: false,
    } as const
    const details = { cached_tokens: 7, cache_write_tokens: 5, cache_write_long_tokens: 2, audio_tokens: 0 }
    const parts = { ...details, reasoning: 3, spoken: 0 }
    const script = { ending: 'ends', input: 17, output: 11, parts } as const
    const once = { ...plain, script, maxCostUsd: undefined, order: undefined }
    const life = await live(corrupted, [
      [{ ...once, order: 1 }],
      [
        { kind: 'retry', pick: 0 },
        { ...once, key: 1, stream: true },
      ],
      [{ kind: 'refund', pick: 0, percent: 33n }],
      [{ ...once, model: 'local-model', maxTokens: 600, maxCostUsd: 0.0001 }],
      [{ ...once, model: 'local-model', script: { ...script, ending: 'fails' } }],
    ])
    await checkAccount(life)
    const values = { $customer: life.keys[0]!.customerId, $request: life.answers[0]!.requestId }
    for (const statement of statements) {
      const filled = statement.replaceAll(/\$\w+/g, name => `'${values[name as keyof typeof values]}'`)
      const { rowCount } = await corrupted.database.pool.query(filled)
      expect([statement, rowCount]).not.toEqual([statement, 0])
    }
    await expect(checkAccount(life)).rejects.toThrow()
  })
})
