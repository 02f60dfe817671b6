import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import type { ServiceTier } from '../../src/base/domain/chat-job.ts'
import type { Scheduler } from '../../src/base/runtime/scheduler.ts'
import { createNewcomers } from '../../src/market/supply/newcomers/newcomers.ts'
import { writeReport } from '../../src/market/supply/status/write-report.ts'
import { scoreHosters } from '../../src/market/trust/score-hosters.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { type RouteView, route } from '../../src/request/route/route.ts'
import type { TestCustomer } from '../harness/app.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { healthOf, jobOf, offerOf, seededRandom } from '../supply/random-market.ts'

const upstreams = [useUpstream(), useUpstream()]
const NEWCOMERS = 'newcomers: { successes: 3, payers: 1, in_flight: 5, usd_per_day: 20.00 }'
const app = useTestApp({ yaml: `hosters: { allow_private_urls: true }\nrouting: { ${NEWCOMERS} }` })
const customer = useCustomer(app)

const hoster = (name: string, perMillion: bigint) =>
  offerOf({
    name,
    kind: 'hoster',
    hosterId: name,
    trustScore: 1,
    price: { inputPicoPerToken: perMillion, outputPicoPerToken: perMillion },
  })
const cloud = offerOf({ name: 'cloud', kind: 'cloud', price: { inputPicoPerToken: 50n, outputPicoPerToken: 50n } })

/** How often each endpoint comes first, and the usual order of the others. */
function firsts(offers: Parameters<typeof offerOf>[0][], tier: ServiceTier, newcomer: RouteView['newcomer']) {
  const random = seededRandom(11)
  const counts: Record<string, number> = {}
  for (let n = 0; n < 5_000; n++) {
    const ticket = {
      requestId: '',
      hold: { leaseId: '', nanos: 0n, isOpen: true },
      caller: {} as never,
      startedAtEpochMs: 0,
      startedMonotonicMs: 0,
      models: ['m'],
      eligible: offers as never,
      excluded: [],
      maxTokens: 256,
      clamp: null,
      label: null,
    }
    const view = { health: healthOf(), newcomer }
    const { offers: planned } = route(ticket, jobOf({ constraints: { serviceTier: tier } }), view, random)
    const name = planned[0]!.endpoint.name
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

test.each(['cheapest', 'balanced', 'fastest'] as const)(
  '%s: newcomers get one request in a hundred, also before clouds',
  tier => {
    const { new: tried = 0, ...others } = firsts([hoster('new', 1n), cloud], tier, () => 'open')
    expect(others).toEqual({ cloud: 5_000 - tried })
    expect(tried).toBeGreaterThan(25)
    expect(tried).toBeLessThan(80)
  },
)

test('a newcomer at its limits gets none, and with cheapest none that costs more', () => {
  expect(firsts([hoster('new', 1n), cloud], 'balanced', () => 'capped')).toEqual({ cloud: 5_000 })
  expect(firsts([hoster('new', 51n), cloud], 'cheapest', () => 'open')).toEqual({ cloud: 5_000 })
})

test('newcomers alone are ranked as usual', () => {
  expect(firsts([hoster('one', 1n), hoster('two', 2n)], 'cheapest', () => 'capped')).toEqual({ one: 5_000 })
})

test('a hoster proves itself with answers that are paid for, and the receipt says so until then', async () => {
  const price = (perMillion: bigint) => [{ price: { inputPicoPerToken: perMillion, outputPicoPerToken: perMillion } }]
  const [proved, fresh] = upstreams
  const provedId = await app.hoster({ baseUrl: proved!.baseUrl, models: price(9_000_000n) })
  const { pool } = app.database
  const { rows } = await pool.query<{ endpoint_id: string }>('SELECT endpoint_id FROM hoster_endpoint')
  const records = useRecords(rows[0]!.endpoint_id)
  expect(await records.standing()).toBe('open')
  await records.report({ answered: 3, costNanos: 20_000_000_000n })
  expect(await records.standing()).toBe('capped')

  // The customers of tests have promotion credit.
  const ask = async (asking: TestCustomer) => {
    for (let n = 0; n < 3; n++) await (await app.chat(asking, chat)).arrayBuffer()
    await app.settled(asking, 3)
    const clock = { epochMs: Date.now, monotonicMs: Date.now }
    await scoreHosters({ pool, clock, log: { info() {}, warn() {} }, delayMs: 0 })
    return records.standing()
  }
  const chat = { model: 'test-model', tier: 'cheapest', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }
  expect(await ask(customer)).toBe('capped')
  const payer = await app.customer({ creditNanos: 0n })
  await grantCredit(pool, { customerId: payer.customerId, amountNanos: 1_000_000_000n, ref: 'paid', reason: 'paid' })
  expect(await ask(payer)).toBe('none')

  await app.hoster({ baseUrl: fresh!.baseUrl, models: price(1_000_000n) })
  const alone = await app.chat(customer, chat)
  await alone.arrayBuffer()
  // This gateway has read the records when it started: both are new, and the cheaper one is first.
  expect(alone.headers.get('x-switchyard-hoster')).not.toBe(provedId)
})

test('a newcomer has few requests in flight', async () => {
  const records = useRecords(randomUUID(), 5)
  expect(await records.standing()).toBe('capped')
})

const noFailures = {
  failed: 0,
  busy: 0,
  answeredInRow: 0,
  failedInRow: 0,
  lastError: null,
  errors: [],
  ownCostNanos: 0n,
}

/** The records of one offer, as nodes report them and as a node that starts reads them. */
function useRecords(endpointId: string, inFlight = 0) {
  const { pool } = app.database
  const nowMs = Date.now()
  return {
    report: (counts: { answered: number; costNanos: bigint }) =>
      transaction(pool, sql =>
        writeReport(
          sql,
          {
            nodeId: randomUUID(),
            version: 'test',
            servers: [],
            agents: [],
            disks: [],
            masterKeys: [],
            attempts: [{ endpointId, modelId: 'test-model', ...noFailures, ...counts }],
            changes: [],
          },
          new Date(nowMs),
        ),
      ),
    async standing() {
      const newcomers = createNewcomers({
        pool,
        limits: { successes: 3, payers: 1, inFlight: 5, nanosPerDay: 20_000_000_000n },
        needsComparison: () => false,
        inFlight: () => inFlight,
        scheduler: { epochMs: () => nowMs } as Scheduler,
        log: { warn: vi.fn() },
      })
      await newcomers.refresh()
      return newcomers.standing(`${endpointId}/test-model`)
    },
  }
}
