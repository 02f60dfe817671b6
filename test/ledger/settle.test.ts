import { randomUUIDv7 } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { RoutingNote } from '../../src/base/domain/routing-note.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { encodeSettlement, encodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settle, settlementOf, unlimited, useLedgerWorld, useNode } from './ledger-world.ts'

const logged: unknown[] = []
const log = {
  warn: (facts: object) => logged.push(facts),
  error: (facts: object) => logged.push(facts),
}
const world = useLedgerWorld()
const node = useNode(world, { log })

test('a row that PostgreSQL rejects fails alone: the rest of its batch is charged, and its lease is released', async () => {
  const customerId = await world.addCustomer(10_000n)
  const admissions = Array.from({ length: 40 }, () => admissionOf(customerId, 100n))
  await Promise.all(admissions.map(admission => node.ledger.admit(admission)))
  const settled = await Promise.allSettled(
    admissions.map((admission, i) =>
      settle(node.ledger, settlementOf(admission, 100n, 10n, i === 17 ? { latencyMs: Number.NaN } : {})),
    ),
  )
  expect(settled.map(({ status }) => status)).toEqual(admissions.map((_, i) => (i === 17 ? 'rejected' : 'fulfilled')))
  expect(logged).toContainEqual(expect.objectContaining({ request: admissions[17]!.requestId }))
  await node.ledger.drain(5_000)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 10_000n - 390n, leasedNanos: 0n })
  expect(await world.violations()).toEqual([])
})

test('of two settlements of one hold the first counts, and the second is not sent', async () => {
  const customerId = await world.addCustomer(10_000n)
  const admission = admissionOf(customerId, 100n)
  const result = await node.ledger.admit(admission)
  if (result.kind !== 'granted') throw new Error(`not granted: ${result.kind}`)
  const { hold } = result
  expect(hold).toEqual({ leaseId: admission.requestId, nanos: 100n, isOpen: true })
  const first = node.ledger.settle(settlementOf(admission, 100n, 10n), hold)
  await node.ledger.settle(settlementOf(admission, 100n, 70n), hold)
  await first
  expect(hold.isOpen).toBe(false)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 9_990n, leasedNanos: 0n })
  // PostgreSQL would return it as a duplicate, and that would be logged.
  expect(logged).not.toContainEqual(expect.objectContaining({ request: admission.requestId }))
})

describe('a request that was sent again at another node before it ended', () => {
  const superseded = { outcome: 'superseded', provider: 'none', hosterId: null, success: false } as const
  const freeRow = { ...superseded, hosterShareNanos: 0n, feeNanos: 0n, costNanos: 0n, inputTokens: 0, latencyMs: 0 }

  /** Writes the free row that the other node writes. */
  async function supersede(admission: Admission): Promise<ReadonlyMap<string, unknown>> {
    const row = settlementOf(admission, 0n, 0n, { ...freeRow, leaseId: admission.requestId })
    return storeOf(world.pool).settle(2, encodeSettlements([row]))
  }

  async function expectWrittenOff(customerId: string, nanos: bigint): Promise<void> {
    expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 10_000n })
    const { rows } = await world.pool.query(
      'SELECT outcome, cost_nanos, hoster_share_nanos, fee_nanos, writeoff_nanos, tx_id FROM usage_event WHERE customer_id = $1',
      [customerId],
    )
    const free = { cost_nanos: 0n, hoster_share_nanos: 0n, fee_nanos: 0n, tx_id: null }
    expect(rows).toEqual([{ outcome: 'served', ...free, writeoff_nanos: nanos }])
    const sums = await world.pool.query(
      'SELECT sum(requests)::int AS requests, sum(successes)::int AS successes FROM usage_day WHERE customer_id = $1',
      [customerId],
    )
    expect(sums.rows).toEqual([{ requests: 1, successes: 1 }])
    expect(await world.violations()).toEqual([])
  }

  test('is written off when it ends after all, once', async () => {
    const customerId = await world.addCustomer(10_000n)
    const admission = admissionOf(customerId, 100n)
    await node.ledger.admit(admission)
    expect(await supersede(admission)).toEqual(new Map())
    expect(await supersede(admission)).toEqual(new Map([[admission.requestId, 'duplicate']]))
    const records = encodeSettlements([settlementOf(admission, 100n, 70n)])
    const store = storeOf(world.pool)
    expect(await store.settle(1, records)).toEqual(new Map([[admission.requestId, 'written_off']]))
    expect(await store.settle(1, records)).toEqual(new Map([[admission.requestId, 'duplicate']]))
    expect(await supersede(admission)).toEqual(new Map([[admission.requestId, 'duplicate']]))
    await expectWrittenOff(customerId, 70n)
  })

  test('is written off too when its bulk lease is open', async () => {
    const customerId = await world.addCustomer(10_000n)
    const leaseId = randomUUIDv7()
    const bulk = { leaseId, customerId, limits: unlimited, wantNanos: 1_000n, floorNanos: 100n, slots: 20 }
    await storeOf(world.pool).admit(node.nodeId, [bulk])
    const admission = admissionOf(customerId, 100n)
    await supersede(admission)
    await settle(node.ledger, settlementOf(admission, 100n, 70n, { leaseId }))
    await storeOf(world.pool).handBack([{ leaseId, keepNanos: null, slotsUsed: 1 }])
    await expectWrittenOff(customerId, 70n)
  })

  test('is written off too when it was admitted after that, and cost more than its hold', async () => {
    const customerId = await world.addCustomer(10_000n)
    const admission = admissionOf(customerId, 100n)
    await supersede(admission)
    await node.ledger.admit(admission)
    await settle(node.ledger, settlementOf(admission, 100n, 150n))
    expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n })
    await expectWrittenOff(customerId, 150n)
  })
})

test('requests without leases are charged while the free balance covers them, and then written off', async () => {
  const customerId = await world.addCustomer(500n)
  const late = [admissionOf(customerId, 200n), admissionOf(customerId, 200n)]
  await Promise.all(late.map(admission => node.ledger.admit(admission)))
  const lateIds = late.map(({ requestId }) => requestId)
  expect(await storeOf(world.pool).release(lateIds)).toEqual(new Map(lateIds.map(id => [id, 'released'])))
  await node.ledger.admit(admissionOf(customerId, 250n))
  // 250 are free. Sent together, so that the second must see the charge of the first.
  await Promise.all(late.map(admission => settle(node.ledger, settlementOf(admission, 200n, 150n))))
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 350n, leasedNanos: 250n })
  const { rows } = await world.pool.query(
    'SELECT cost_nanos, hoster_share_nanos, fee_nanos, writeoff_nanos FROM usage_event WHERE customer_id = $1 ORDER BY cost_nanos',
    [customerId],
  )
  expect(rows).toEqual([
    { cost_nanos: 0n, hoster_share_nanos: 0n, fee_nanos: 0n, writeoff_nanos: 150n },
    { cost_nanos: 150n, hoster_share_nanos: 120n, fee_nanos: 30n, writeoff_nanos: 0n },
  ])
  expect(await world.violations()).toEqual([])
})

test('a text that jsonb cannot store is replaced, and the charge is kept', async () => {
  const customerId = await world.addCustomer(500n)
  const admission = admissionOf(customerId, 200n)
  await node.ledger.admit(admission)
  const constraints = { fallback_models: ['\ud800', '\0', '\\u0000', '\\\ud800', '\ud83d\ude00'] }
  const routing: RoutingNote = { model: 'auto', constraints, ranked: [], excluded: [] }
  await settle(node.ledger, settlementOf(admission, 200n, 150n, { routing }))
  const { rows } = await world.pool.query('SELECT cost_nanos, routing FROM usage_event WHERE customer_id = $1', [
    customerId,
  ])
  const kept = { fallback_models: ['\ufffd', '\ufffd', '\\u0000', '\\\ufffd', '\ud83d\ude00'] }
  expect(rows).toEqual([{ cost_nanos: 150n, routing: { ...routing, constraints: kept } }])
})

test('the usage row has every field of the settlement', async () => {
  const customerId = await world.addCustomer(500n)
  const admission = admissionOf(customerId, 200n)
  await node.ledger.admit(admission)
  const routing: RoutingNote = {
    model: 'auto',
    constraints: { tier: 'cheapest' },
    ranked: [{ offerId: 'a/"b"', provider: 'hoster', costPicos: '1', predictedMs: null }],
    excluded: [{ offerId: 'c/b', provider: 'cloud', reason: 'privacy_mode' }],
  }
  const settlement = settlementOf(admission, 200n, 150n, {
    inputTokens: 151,
    reportedInputTokens: 152,
    outputTokens: 3,
    latencyMs: 121,
    finishReason: 'end\\ "quoted", {x}',
    reportedOutputTokens: 4,
    countedInputTokens: 160,
    countedOutputTokens: 2,
    priceVersion: 7,
    priceGroup: { name: 'partners', version: 3 },
    upstreamCostNanos: 77n,
    parts: [
      { kind: 'cache_read', tokens: 30, picoPerToken: 100n },
      { kind: 'cache_write', tokens: 20, picoPerToken: 1_250n },
      { kind: 'input_audio', tokens: 9, picoPerToken: 8_000n },
    ],
    reasoningTokens: 2,
    label: 'a/b',
    routing,
  })
  await settle(node.ledger, settlement)
  const { rows } = await world.pool.query('SELECT * FROM usage_event WHERE customer_id = $1', [customerId])
  expect(rows).toEqual([
    {
      customer_id: customerId,
      request_id: admission.requestId,
      key_id: settlement.keyId,
      started_at: new Date(settlement.startedAtEpochMs),
      model_id: settlement.modelId,
      provider: 'hoster',
      endpoint_id: settlement.endpointId!.replace('\0', '\ufffd'),
      hoster_id: settlement.hosterId,
      input_tokens: 151,
      output_tokens: 3,
      reported_input_tokens: 152,
      reported_output_tokens: 4,
      counted_input_tokens: 160,
      counted_output_tokens: 2,
      usage_source: 'upstream',
      input_pico_per_token: 1_000n,
      output_pico_per_token: 2_000n,
      price_version: 7,
      price_group: 'partners',
      price_group_version: 3,
      upstream_cost_nanos: 77n,
      hold_nanos: 200n,
      cost_nanos: 150n,
      hoster_share_nanos: 120n,
      fee_nanos: 30n,
      writeoff_nanos: 0n,
      latency_ms: 121,
      first_token_ms: 20,
      success: true,
      outcome: 'served',
      finish_reason: settlement.finishReason,
      attempts: settlement.attempts,
      routing,
      tx_id: expect.any(BigInt),
      cap_day: new Date().toISOString().slice(0, 10),
      key_window: null,
      label: 'a/b',
      member_id: null,
      member_window: null,
      cache_read_tokens: 30,
      cache_read_pico_per_token: 100n,
      cache_write_tokens: 20,
      cache_write_pico_per_token: 1_250n,
      reasoning_tokens: 2,
      other_parts: [{ kind: 'input_audio', tokens: 9, pico_per_token: 8_000 }],
    },
  ])
  const sums = await world.pool.query('SELECT cached_tokens FROM usage_day WHERE customer_id = $1', [customerId])
  expect(sums.rows).toEqual([{ cached_tokens: 30n }])
})

test('odd texts are stored unchanged, and so are the other rows of the batch', async () => {
  const customerId = await world.addCustomer(500n)
  const texts = ['plain', '', '(a,"b")\\,\'\n\t\u2028{}', 'a\x1eb\ud800', 'NULL']
  const settlements = await Promise.all(
    texts.map(async text => {
      const admission = admissionOf(customerId, 50n)
      await node.ledger.admit(admission)
      return settlementOf(admission, 50n, 10n, { modelId: text, endpointId: text, finishReason: text })
    }),
  )
  await Promise.all(settlements.map(settlement => settle(node.ledger, settlement)))
  const { rows } = await world.pool.query(
    'SELECT request_id, model_id, endpoint_id, finish_reason FROM usage_event WHERE customer_id = $1',
    [customerId],
  )
  const stored = texts.map(text => text.replace('\x1e', '\ufffd').replace('\ud800', '\ufffd'))
  expect(new Map(rows.map(({ request_id, ...row }) => [request_id, row]))).toEqual(
    new Map(
      settlements.map(({ requestId }, at) => [
        requestId,
        { model_id: stored[at], endpoint_id: stored[at], finish_reason: stored[at] },
      ]),
    ),
  )
})

test('a charge counts against the cap of the day its lease was granted', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { requestsPerMinute: 100, requestsPerDay: 100, dailySpendCapNanos: 300n }
  let nowMs = Date.UTC(2026, 10, 21, 23, 59, 59)
  const { ledger } = await world.addNode({ windowClock: () => nowMs })
  const yesterday = admissionOf(customerId, 300n, { limits })
  expect(await ledger.admit(yesterday)).toMatchObject({ kind: 'granted' })
  nowMs += 2_000
  const today = admissionOf(customerId, 300n, { limits })
  expect(await ledger.admit(today)).toMatchObject({ kind: 'granted', windows: { minuteUsed: 1, dayUsed: 1 } })
  await settle(ledger, settlementOf(yesterday, 300n, 300n))
  await settle(ledger, settlementOf(today, 300n, 100n))
  expect(await ledger.admit(admissionOf(customerId, 200n, { limits }))).toMatchObject({ kind: 'granted' })
  expect(await ledger.admit(admissionOf(customerId, 1n, { limits }))).toMatchObject({ code: 'in_flight_budget' })
  expect(await world.violations()).toEqual([])
})

test('after a clock was days ahead and is set back, the day is as it was', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { requestsPerMinute: 100, requestsPerDay: 100, dailySpendCapNanos: 300n }
  let nowMs = Date.UTC(2026, 10, 21, 12)
  const { ledger } = await world.addNode({ windowClock: () => nowMs })
  const [spent, held] = [admissionOf(customerId, 100n, { limits }), admissionOf(customerId, 150n, { limits })]
  await Promise.all([spent, held].map(admission => ledger.admit(admission)))
  await settle(ledger, settlementOf(spent, 100n, 100n))
  nowMs += 40 * 86_400_000
  expect(await ledger.admit(admissionOf(customerId, 10n, { limits }))).toMatchObject({ kind: 'granted' })
  nowMs -= 40 * 86_400_000
  expect(await ledger.admit(admissionOf(customerId, 51n, { limits }))).toMatchObject({
    code: 'in_flight_budget',
    capLeftNanos: 50n,
  })
  await settle(ledger, settlementOf(held, 150n, 150n))
  expect(await world.violations()).toEqual([])
})

test('after a clock was set back by days and forward again, the day has its leases', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { requestsPerMinute: 100, requestsPerDay: 100, dailySpendCapNanos: 300n }
  let nowMs = Date.UTC(2026, 10, 21, 12)
  const { ledger } = await world.addNode({ windowClock: () => nowMs })
  const held = admissionOf(customerId, 150n, { limits })
  await ledger.admit(held)
  nowMs -= 40 * 86_400_000
  expect(await ledger.admit(admissionOf(customerId, 10n, { limits }))).toMatchObject({ kind: 'granted' })
  nowMs += 40 * 86_400_000
  expect(await ledger.admit(admissionOf(customerId, 151n, { limits }))).toMatchObject({
    code: 'in_flight_budget',
    capLeftNanos: 150n,
  })
  await settle(ledger, settlementOf(held, 150n, 150n))
  expect(await world.violations()).toEqual([])
})

test('after a clock was set back by days and forward again, the day has its charges', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { requestsPerMinute: 100, requestsPerDay: 100, dailySpendCapNanos: 300n }
  // The real time, since the ids contain it too.
  let nowMs = Date.now()
  const { ledger } = await world.addNode({ windowClock: () => nowMs })
  const charged = admissionOf(customerId, 200n, { limits })
  await ledger.admit(charged)
  await settle(ledger, settlementOf(charged, 200n, 200n))
  nowMs -= 40 * 86_400_000
  expect(await ledger.admit(admissionOf(customerId, 10n, { limits }))).toMatchObject({ kind: 'granted' })
  nowMs += 40 * 86_400_000
  expect(await ledger.admit(admissionOf(customerId, 101n, { limits }))).toMatchObject({
    code: 'daily_spend_cap_reached',
    capLeftNanos: 100n,
  })
  expect(await world.violations()).toEqual([])
})

test('a journal of another version is refused as a whole, before any record is settled', async () => {
  const customerId = await world.addCustomer(500n)
  const admission = admissionOf(customerId, 200n)
  await node.ledger.admit(admission)
  const settlement = settlementOf(admission, 200n, 150n)
  const forgotten: string[] = []
  const recovered = [encodeSettlement(settlement), '{"v":2}'].map(record => ({
    payload: Buffer.from(record),
    forget: () => forgotten.push(record),
  }))
  await expect(node.ledger.replay(recovered)).rejects.toThrow('Start that version again')
  expect(await world.pool.query('SELECT FROM usage_event WHERE customer_id = $1', [customerId])).toMatchObject({
    rowCount: 0,
  })
  expect(forgotten).toEqual([])
  await settle(node.ledger, settlement)
})
