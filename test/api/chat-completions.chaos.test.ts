import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import {
  answer,
  type Behaviour,
  chunk,
  closeAfter,
  contentChunk,
  hangUp,
  html200,
  neverEnding,
  sse,
  stall,
  startScriptedUpstream,
  status,
  usageOf,
} from '../harness/scripted-upstream.ts'

const behaviours: readonly Behaviour[] = [
  answer({ usage: usageOf(10, 5) }),
  answer({ usage: null }),
  answer({ delayMs: 15 }),
  answer({ toolCalls: [{ name: 'f', arguments: '{}' }] }),
  status(500),
  status(429, {}, { 'retry-after': '0' }),
  status(400, { error: { message: 'no' } }),
  hangUp(),
  hangUp('reset'),
  html200(),
  closeAfter(150),
  closeAfter(400),
  stall('headers'),
  stall({ pieces: ['one', ' two'] }),
  neverEnding({ everyMs: 1 }),
  sse([chunk({ role: 'assistant' }), contentChunk('one'), { error: { message: 'no memory' } }]),
]

test('with random clients and servers, each request is settled once, no hold remains, and failures are free', async () => {
  const upstreams = await Promise.all([startScriptedUpstream(), startScriptedUpstream(), startScriptedUpstream()])
  const next = random(20_261_121)
  for (const upstream of upstreams) upstream.always((request, response) => pick(behaviours, next)(request, response))
  const timeouts = { connectMs: 500, firstTokenMs: 100, tokenMs: 0, idleMs: 100, totalMs: 400 }
  const gateway = await startTestApp({
    offers: upstreams.map(({ baseUrl }) => testOffer(baseUrl, { endpoint: { timeouts } })),
    random: next,
  })
  try {
    const customers = await Promise.all(
      [5_000_000_000n, 3_000_000n, 400_000n].map(creditNanos => gateway.customer({ creditNanos, tier: 'scale' })),
    )
    const paidFor = new Map<string, boolean>()
    await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        await delay(Math.floor(index / 3))
        const client = new AbortController()
        if (next() < 0.4) delay(next() * 120).then(() => client.abort())
        const body = {
          model: 'test-model',
          messages: [{ role: 'user', content: 'Hello' }],
          stream: next() < 0.6,
          ...(next() < 0.7 ? { max_tokens: 1 + Math.floor(next() * 60) } : {}),
        }
        try {
          const response = await gateway.chat(pick(customers, next), body, { signal: client.signal })
          const text = await response.text()
          const complete = response.status === 200 && (!body.stream || text.includes('[DONE]'))
          paidFor.set(response.headers.get('x-request-id')!, complete)
        } catch {
          expect(client.signal.aborted).toBe(true)
        }
      }),
    )
    await gateway.stop()

    expect((await gateway.database.pool.query('SELECT FROM lease')).rowCount).toBe(0)
    let compared = 0
    for (const customer of customers) {
      const rows = await gateway.usage(customer)
      const paid = rows.reduce((sum, row) => sum + row.cost_nanos, 0n)
      const balance = await gateway.balanceNanos(customer)
      expect(balance).toBeGreaterThanOrEqual(0n)
      expect(balance + paid).toBe(await signupCreditOf(gateway, customer.customerId))
      for (const row of rows) {
        expect(row.cost_nanos).toBeLessThanOrEqual(row.hold_nanos)
        const complete = paidFor.get(row.request_id)
        if (complete === undefined) continue
        compared++
        expect([row.request_id, row.success, row.cost_nanos > 0n]).toEqual([row.request_id, complete, complete])
      }
    }
    expect(compared).toBeGreaterThan(50)
  } finally {
    await gateway.close()
    await Promise.all(upstreams.map(upstream => upstream.close()))
  }
})

async function signupCreditOf({ database }: TestApp, customerId: string): Promise<bigint> {
  const { rows } = await database.pool.query<{ amount_nanos: bigint }>(
    "SELECT amount_nanos FROM ledger_entry JOIN ledger_tx USING (tx_id) WHERE kind = 'signup_credit' AND account_id = $1",
    [customerId],
  )
  return rows[0]!.amount_nanos
}

function pick<Item>(items: readonly Item[], next: () => number): Item {
  return items[Math.floor(next() * items.length)]!
}

/** Mulberry32. The numbers are the same in every run; the order of the events is not. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
