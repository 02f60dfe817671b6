import { randomBytes, randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { armFailpoints, type FailpointName } from '../../src/base/runtime/failpoint.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { createAutoTopUps } from '../../src/money/payments/auto-top-up.ts'
import { createDrivers } from '../../src/money/payments/create-drivers.ts'
import type { PaymentDriver } from '../../src/money/payments/payment-driver.ts'
import { createPaymentSync, payRefund } from '../../src/money/payments/payment-sync.ts'
import { createPayments } from '../../src/money/payments/payments.ts'
import { useLedgerWorld } from '../ledger/ledger-world.ts'
import { type ScriptedStripe, startScriptedStripe } from './scripted-stripe.ts'

// The provider loses answers, forgets idempotency keys, and lists charges late; nodes break and meet. A payment is charged once and credited once,
// and what provider and books do not agree on is in payment_difference.

const world = useLedgerWorld()
const USD = 1_000_000_000n
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
let stripe: ScriptedStripe
let clockMs = Date.now()
const clock = { ...systemClock, epochMs: () => clockMs }
const evidence = createCreditEvidence(fixedKey(randomBytes(32)))
const pools: Pool[] = []
/** Two nodes, each with its own connections and the rights of the desk. */
let nodes: readonly ReturnType<typeof createNode>[]

function createNode(name: string) {
  const pool = createPool(world.deskConnection, { max: 4, applicationName: name })
  pools.push(pool)
  const settings = { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripe.url }
  const drivers: PaymentDriver[] = createDrivers({ instructions: null, stripe: settings }, () => 'http://gateway')
  const limits = { minNanos: USD, maxNanos: 1_000n * USD }
  const log = { warn() {} }
  const sync = createPaymentSync({ pool, clock, drivers, evidence, log })
  const shared = { pool, clock, drivers, limits, evidence, log }
  const auto = createAutoTopUps({ ...shared, sync, mail: async () => {}, creditsUrl: () => '' })
  return { pool, sync, auto, payments: createPayments(shared), provider: drivers[0]!.provider! }
}

beforeAll(async () => {
  stripe = await startScriptedStripe()
  nodes = [createNode('node 0'), createNode('node 1')]
})
beforeEach(async () => {
  clockMs = Math.max(clockMs, Date.now())
  await forgetPayments()
  stripe.nowMs = () => clockMs
  heal()
})
afterAll(async () => {
  armFailpoints([])
  expect(await world.violations()).toEqual([])
  await Promise.all(pools.map(pool => pool.end()))
  await stripe.close()
})

function change(how: Partial<ScriptedStripe>) {
  Object.assign(stripe, how)
}

/** The provider does everything right again. */
function heal() {
  change({ losesAnswer: null, isDown: false, hasNoLists: false, listsAfterMs: 0, pageSize: 100 })
  armFailpoints([])
}

const reconcile = (node = nodes[0]!, isComplete = true) => node.sync.reconcile({ isComplete })

/** A customer with a saved card and automatic top-ups of 25 USD below 20 USD, at most one in the month. */
async function saver() {
  const customerId = await world.addCustomer(0n)
  const [methodId, account] = [randomUUID(), `cus_${customerId}`]
  await world.pool.query(
    `INSERT INTO payment_method (method_id, customer_id, driver, provider_ref, brand, last4, expires, account_ref)
     VALUES ($1, $2, 'stripe', $1::uuid::text, 'visa', '4242', '', $3)`,
    [methodId, customerId, account],
  )
  await world.pool.query(
    `INSERT INTO auto_top_up (customer_id, method_id, threshold_nanos, amount_nanos, monthly_max_nanos, consented_by, consented_at)
     VALUES ($1, $2, $3, $4, $4, $5, now())`,
    [customerId, methodId, 20n * USD, 25n * USD, randomUUID()],
  )
  return {
    customerId,
    account,
    turnOff: () => world.pool.query('DELETE FROM auto_top_up WHERE customer_id = $1', [customerId]),
    ...factsOf(customerId, account),
  }
}

function factsOf(customerId: string, account: string) {
  return {
    charges: () => [...stripe.charges.values()].filter(({ customer }) => customer === account),
    balance: async () =>
      (
        await world.pool.query<{ owned: bigint }>(
          'SELECT posted_nanos - debt_nanos AS owned FROM balance WHERE customer_id = $1',
          [customerId],
        )
      ).rows[0]!.owned,
    payments: async () =>
      (
        await world.pool.query<{ id: string; state: string; ref: string | null; failure: string | null }>(
          'SELECT payment_id AS id, state, provider_ref AS ref, failure FROM payment WHERE customer_id = $1 ORDER BY created_at',
          [customerId],
        )
      ).rows,
  }
}

/** A customer with an automatic top-up: the charge was made, and its answer was lost. */
async function chargedWithoutAnswer() {
  const someone = await saver()
  stripe.losesAnswer = path => path === '/v1/payment_intents'
  await nodes[0]!.auto.run()
  heal()
  expect(someone.charges()).toHaveLength(1)
  expect(await someone.payments()).toMatchObject([{ state: 'open', ref: null }])
  return someone
}

async function differences() {
  const { rows } = await world.pool.query<{ ref: string; problem: string }>(
    'SELECT ref, problem FROM payment_difference WHERE ended_at IS NULL ORDER BY found_at',
  )
  return rows
}

/** No payment so far is looked at again. */
const forgetPayments = () => world.pool.query('UPDATE payment SET next_look_at = NULL')

/** An operator has looked at everything. */
const acceptAll = () =>
  world.pool.query(
    "SELECT accept_payment_difference(driver, ref, 'a test') FROM payment_difference WHERE ended_at IS NULL",
  )

test('a charge without an answer is adopted when the provider has forgotten its key', async () => {
  const someone = await chargedWithoutAnswer()
  stripe.forgetKeys()
  clockMs += 30 * HOUR_MS
  await reconcile()
  await reconcile(nodes[1])
  expect(someone.charges()).toHaveLength(1)
  expect(await someone.balance()).toBe(25n * USD)
  await someone.turnOff()
})

test('a checkout without an answer is adopted, and its payer pays on the same page', async () => {
  const customerId = await world.addCustomer(0n)
  const before = stripe.sessions.size
  const idempotencyKey = randomUUID()
  const start = (node: (typeof nodes)[number]) =>
    node.payments.start({
      customerId,
      personId: randomUUID(),
      address: '127.0.0.1',
      amountNanos: 10n * USD,
      driver: null,
      savesMethod: false,
      idempotencyKey,
    })
  stripe.losesAnswer = () => true
  await expect(start(nodes[0]!)).rejects.toMatchObject({ code: 'payment_provider_unavailable' })
  heal()
  stripe.forgetKeys()
  clockMs += MINUTE_MS
  expect(await start(nodes[1]!)).toMatchObject({ state: 'open', redirectUrl: 'https://checkout.stripe.test/pay' })
  expect(stripe.sessions.size).toBe(before + 1)
  stripe.pay([...stripe.sessions.keys()].at(-1)!)
  await reconcile()
  expect(await factsOf(customerId, '').balance()).toBe(10n * USD)
})

test('a checkout that the provider never got expires without a new page', async () => {
  const customerId = await world.addCustomer(0n)
  const before = stripe.sessions.size
  stripe.isDown = true
  const order = {
    customerId,
    personId: randomUUID(),
    address: '127.0.0.1',
    amountNanos: 10n * USD,
    driver: null,
    savesMethod: false,
    idempotencyKey: 'k',
  }
  await expect(nodes[0]!.payments.start(order)).rejects.toMatchObject({ code: 'payment_provider_unavailable' })
  heal()
  clockMs += 30 * HOUR_MS
  await reconcile()
  expect(await factsOf(customerId, '').payments()).toMatchObject([{ state: 'expired' }])
  expect(stripe.sessions.size).toBe(before)
  // It is not looked for every minute for ever.
  const next = async () =>
    (
      await world.pool.query<{ inHours: number | null }>(
        'SELECT round(extract(epoch FROM next_look_at - now()) / 3600)::int AS "inHours" FROM payment WHERE customer_id = $1',
        [customerId],
      )
    ).rows
  expect(await next()).toEqual([{ inHours: 6 }])
  await world.pool.query("UPDATE payment SET created_at = now() - interval '4 days' WHERE customer_id = $1", [
    customerId,
  ])
  await reconcile()
  expect(await next()).toEqual([{ inHours: null }])
})

test('a refund without an answer is made once when the provider has forgotten its key', async () => {
  const someone = await chargedWithoutAnswer()
  await reconcile()
  await someone.turnOff()
  const [payment] = await someone.payments()
  const reversalId = randomUUID()
  await world.pool.query("SELECT reverse_payment($1, $2, $3, 1000, false, 'a test')", [
    reversalId,
    payment!.id,
    10n * USD,
  ])
  const refund = {
    reversalId,
    paymentId: payment!.id,
    driver: 'stripe',
    providerRef: payment!.ref!,
    askedMinor: 1_000n,
  }
  stripe.losesAnswer = path => path === '/v1/refunds'
  await expect(payRefund(nodes[0]!.pool, nodes[0]!.sync, nodes[0]!.provider.refunds!, refund)).rejects.toThrow()
  heal()
  stripe.forgetKeys()
  clockMs += 30 * HOUR_MS
  stripe.pageSize = 1
  await reconcile()
  expect(stripe.refundsOf(payment!.ref!)).toHaveLength(1)
  expect(await someone.balance()).toBe(15n * USD)
  const { rows } = await world.pool.query('SELECT state FROM payment_reversal WHERE payment_id = $1', [payment!.id])
  expect(rows).toEqual([{ state: 'done' }])
})

test('while the provider cannot be asked, nothing is charged', async () => {
  const someone = await chargedWithoutAnswer()
  stripe.forgetKeys()
  stripe.hasNoLists = true
  clockMs += 30 * HOUR_MS
  expect((await reconcile()).failed).toBeGreaterThan(0)
  expect(someone.charges()).toHaveLength(1)
  expect(await someone.payments()).toMatchObject([{ state: 'open' }])
  heal()
  await reconcile()
  expect(await someone.balance()).toBe(25n * USD)
  await someone.turnOff()
})

test('a charge that lists show late is charged once, since its key is still known', async () => {
  const someone = await chargedWithoutAnswer()
  stripe.listsAfterMs = 10 * MINUTE_MS
  clockMs += 5 * MINUTE_MS
  await reconcile()
  expect(someone.charges()).toHaveLength(1)
  expect(await someone.balance()).toBe(25n * USD)
  await someone.turnOff()
})

test('two nodes that adopt a charge at once credit it once', async () => {
  const someone = await chargedWithoutAnswer()
  stripe.forgetKeys()
  clockMs += 30 * HOUR_MS
  await Promise.all(nodes.map(node => reconcile(node)))
  expect(someone.charges()).toHaveLength(1)
  expect(await someone.balance()).toBe(25n * USD)
  await someone.turnOff()
})

test.each(['payment-charged', 'payment-looked', 'payment-booking', 'payment-booked'] satisfies FailpointName[])(
  'a node that breaks at %s, and keys that are forgotten, charge once',
  async name => {
    const someone = await saver()
    armFailpoints([{ name, hit: 1, action: 'throw' }])
    await nodes[0]!.auto.run()
    armFailpoints([])
    stripe.forgetKeys()
    clockMs += 30 * HOUR_MS
    await reconcile(nodes[1])
    expect(someone.charges()).toHaveLength(1)
    expect(await someone.balance()).toBe(25n * USD)
    await someone.turnOff()
  },
)

test.each([
  ['processing', 'processing'],
  ['requires_action', 'failed'],
  ['requires_payment_method', 'failed'],
  ['canceled', 'cancelled'],
])('a charge that is %s is adopted as it is', async (status, state) => {
  const someone = await chargedWithoutAnswer()
  const [charge] = someone.charges()
  stripe.changeCharge(charge!.id as string, { status })
  stripe.forgetKeys()
  clockMs += 30 * HOUR_MS
  await reconcile()
  expect(await someone.payments()).toMatchObject([{ state, ref: charge!.id }])
  expect(someone.charges()).toHaveLength(1)
  // The bank decides later.
  stripe.changeCharge(charge!.id as string, { status: 'succeeded' })
  clockMs += DAY_MS
  await reconcile()
  expect(await someone.balance()).toBe(25n * USD)
  await someone.turnOff()
})

test('what nobody wants any more is adopted, and not charged again', async () => {
  const [charged, uncharged] = [await chargedWithoutAnswer(), await saver()]
  stripe.isDown = true
  await nodes[0]!.auto.run()
  heal()
  await Promise.all([charged.turnOff(), uncharged.turnOff()])
  clockMs += 30 * HOUR_MS
  await reconcile()
  expect(await charged.balance()).toBe(25n * USD)
  expect(uncharged.charges()).toEqual([])
  expect(await uncharged.payments()).toMatchObject([{ state: 'cancelled' }])
})

test('a payment that was started in the other mode of the provider is not charged', async () => {
  const someone = await saver()
  stripe.isDown = true
  await nodes[0]!.auto.run()
  heal()
  await world.pool.query('UPDATE payment SET is_live = true WHERE customer_id = $1', [someone.customerId])
  clockMs += 30 * HOUR_MS
  await reconcile()
  expect(someone.charges()).toEqual([])
  expect(await someone.payments()).toMatchObject([{ state: 'cancelled', failure: 'The payment provider was changed.' }])
  await someone.turnOff()
})

test('a second charge of a payment has no credit: it is a difference until it is paid back', async () => {
  const someone = await chargedWithoutAnswer()
  await reconcile()
  await someone.turnOff()
  const [payment] = await someone.payments()
  stripe.pageSize = 1
  const second = stripe.addCharge({ amount: 2_500, payment_id: payment!.id, customer: someone.account })
  await reconcile()
  expect(await differences()).toEqual([{ ref: `ch_${second}`, problem: 'second_charge' }])
  expect(await world.violations()).toMatchObject([{ name: 'payments_equal_charges', violations: 1 }])
  stripe.refundCharge(second, 1_000)
  await reconcile()
  expect(await differences()).toHaveLength(1)
  stripe.refundCharge(second, 1_500)
  await reconcile(nodes[1])
  expect(await differences()).toEqual([])
  expect(await someone.balance()).toBe(25n * USD)
})

test('a late charge of a payment that has failed is credited once', async () => {
  const someone = await saver()
  stripe.declineCharges(true)
  await nodes[0]!.auto.run()
  stripe.declineCharges(false)
  const [payment] = await someone.payments()
  expect(payment).toMatchObject({ state: 'failed' })
  stripe.addCharge({ amount: 2_500, payment_id: payment!.id, customer: someone.account })
  await Promise.all(nodes.map(node => reconcile(node)))
  expect(await someone.balance()).toBe(25n * USD)
  expect(await differences()).toEqual([])
  await someone.turnOff()
})

test('charges that no payment explains are listed, those of other programs are not', async () => {
  const someone = await chargedWithoutAnswer()
  await reconcile()
  await someone.turnOff()
  const [payment] = await someone.payments()
  const lost = stripe.addCharge({ amount: 700, payment_id: randomUUID() })
  const nameless = stripe.addCharge({ amount: 800, customer: someone.account })
  stripe.addCharge({ amount: 900, payment_id: 'order 7' })
  stripe.addCharge({ amount: 900 })
  stripe.addCharge({ amount: 900, payment_id: randomUUID(), status: 'requires_payment_method' })
  const wrong = stripe.addCharge({ amount: 1, payment_id: payment!.id })
  await reconcile()
  expect(new Set(await differences())).toEqual(
    new Set([
      { ref: `ch_${lost}`, problem: 'unknown_payment' },
      { ref: `ch_${nameless}`, problem: 'unknown_payment' },
      { ref: `ch_${wrong}`, problem: 'second_charge' },
    ]),
  )
  await acceptAll()
  await reconcile()
  expect(await differences()).toEqual([])
  expect(await someone.balance()).toBe(25n * USD)
})

test('a charge of another amount than its payment is listed and not credited', async () => {
  const someone = await chargedWithoutAnswer()
  const [charge] = someone.charges()
  stripe.changeCharge(charge!.id as string, { amount: 9_999 })
  await reconcile()
  expect(await differences()).toEqual([{ ref: `ch_${charge!.id}`, problem: 'not_booked' }])
  expect(await someone.balance()).toBe(0n)
  stripe.changeCharge(charge!.id as string, { amount: 2_500 })
  await reconcile()
  expect(await differences()).toEqual([])
  expect(await someone.balance()).toBe(25n * USD)
  await someone.turnOff()
})

test('credit that the provider has no charge for is listed', async () => {
  clockMs = Date.now()
  const customerId = await world.addCustomer(0n)
  const forged = randomUUID()
  const { pool } = nodes[0]!
  await pool.query(
    "SELECT start_payment($1, $2, 'stripe', $3, 100000, 'usd', false, $1::uuid::text, NULL, NULL, NULL, NULL)",
    [forged, customerId, 1_000n * USD],
  )
  const fact = {
    state: 'paid',
    payment_id: forged,
    amount_minor: 100_000,
    total_minor: 100_000,
    currency: 'usd',
    is_live: false,
  }
  await world.pool.query("SELECT book_payment_report($1, 'stripe', 0, $2, NULL)", [forged, JSON.stringify(fact)])
  clockMs = Date.now() + MINUTE_MS
  await reconcile()
  expect(await differences()).toEqual([{ ref: forged, problem: 'no_charge' }])
  await acceptAll()
})

test('refunds outside of the gateway are found without an event', async () => {
  const someone = await chargedWithoutAnswer()
  await reconcile()
  await someone.turnOff()
  const [payment] = await someone.payments()
  stripe.refundCharge(payment!.ref!, 500)
  // Not due for a look of its own.
  await world.pool.query('UPDATE payment SET next_look_at = NULL WHERE payment_id = $1', [payment!.id])
  await reconcile()
  expect(await someone.balance()).toBe(20n * USD)
})

test('a comparison begins again where it was interrupted, reads all pages, and pauses for an hour', async () => {
  const someone = await chargedWithoutAnswer()
  await reconcile()
  await someone.turnOff()
  clockMs += 10 * DAY_MS
  const lost = [1, 2, 3, 4, 5].map(amount => stripe.addCharge({ amount, payment_id: randomUUID() }))
  stripe.hasNoLists = true
  await reconcile(nodes[0], false)
  heal()
  stripe.pageSize = 2
  // Three days at a time.
  for (let run = 0; run < 3; run++) await reconcile(nodes[run % 2], false)
  expect(await differences()).toEqual([])
  await reconcile(nodes[0], false)
  expect((await differences()).map(({ ref }) => ref).sort()).toEqual(lost.map(id => `ch_${id}`).sort())
  await acceptAll()
  const late = stripe.addCharge({ amount: 6, payment_id: randomUUID() })
  await reconcile(nodes[0], false)
  expect(await differences()).toEqual([])
  clockMs += HOUR_MS
  await reconcile(nodes[0], false)
  expect(await differences()).toEqual([{ ref: `ch_${late}`, problem: 'unknown_payment' }])
  await acceptAll()
})

// ---------------------------------------------------------------- random histories

const FAILPOINTS = [
  'payment-charged',
  'payment-looked',
  'payment-booking',
  'payment-booked',
  'payment-refunded',
] as const
type Someone = Awaited<ReturnType<typeof saver>>

/** The charge of a payment, as the provider has it. */
const succeeded = (someone: Someone) => someone.charges().filter(({ status }) => status === 'succeeded')

const steps: Record<string, (someone: Someone, pick: number) => unknown> = {
  run: (_, pick) => nodes[pick % 2]!.auto.run().catch(() => {}),
  runBoth: () => Promise.all(nodes.map(node => node.auto.run().catch(() => {}))),
  reconcile: (_, pick) => reconcile(nodes[pick % 2], false),
  reconcileBoth: () => Promise.all(nodes.map(node => reconcile(node, false))),
  loseAnswers: () => change({ losesAnswer: () => true }),
  goDown: () => change({ isDown: true }),
  breakLists: () => change({ hasNoLists: true }),
  listLate: (_, pick) => change({ listsAfterMs: (pick % 20) * MINUTE_MS }),
  smallPages: (_, pick) => change({ pageSize: 1 + (pick % 3) }),
  breakNode: (_, pick) =>
    armFailpoints([{ name: FAILPOINTS[pick % FAILPOINTS.length]!, hit: 1 + (pick % 2), action: 'throw' }]),
  heal: () => heal(),
  wait(_, pick) {
    clockMs += [MINUTE_MS, 20 * MINUTE_MS, 2 * HOUR_MS, 30 * HOUR_MS][pick % 4]!
    stripe.forgetKeys(DAY_MS)
  },
  async refund(someone, pick) {
    const { rows } = await world.pool.query<{ id: string; ref: string }>(
      "SELECT payment_id AS id, provider_ref AS ref FROM payment WHERE customer_id = $1 AND state = 'paid'",
      [someone.customerId],
    )
    const [payment] = rows
    if (payment === undefined) return
    const [reversalId, askedMinor] = [randomUUID(), BigInt(100 + (pick % 300))]
    const { rows: taken } = await world.pool.query<{ verdict: string }>(
      "SELECT reverse_payment($1, $2, $3, $4, false, 'a test') AS verdict",
      [reversalId, payment.id, askedMinor * 10_000_000n, askedMinor],
    )
    if (taken[0]!.verdict !== 'taken') return
    const { pool, sync, provider } = nodes[pick % 2]!
    const refund = { reversalId, paymentId: payment.id, driver: 'stripe', providerRef: payment.ref, askedMinor }
    await payRefund(pool, sync, provider.refunds!, refund).catch(() => {})
  },
}

test('random histories of lost answers, forgotten keys and broken nodes end with one charge, one credit and one refund each', async () => {
  const step = fc.record({ name: fc.constantFrom(...Object.keys(steps)), pick: fc.nat(1_000) })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 6, maxLength: 16 }), async history => {
      heal()
      await forgetPayments()
      const someone = await saver()
      for (const { name, pick } of history) {
        await steps[name]!(someone, pick)
        const charges = succeeded(someone)
        const ids = charges.map(({ metadata }) => (metadata as { payment_id: string }).payment_id)
        expect(new Set(ids).size, 'each payment is charged once').toBe(ids.length)
      }
      heal()
      clockMs += HOUR_MS
      await reconcile()
      await reconcile(nodes[1])
      const refunded = succeeded(someone).flatMap(({ id }) => [...stripe.refundsOf(id as string)])
      const reversals = refunded.map(({ metadata }) => (metadata as { reversal_id: string }).reversal_id)
      expect(new Set(reversals).size, 'each refund is made once').toBe(reversals.length)
      const paidMinor = succeeded(someone).reduce((sum, { amount }) => sum + (amount as number), 0)
      const returnedMinor = refunded.reduce((sum, { amount }) => sum + (amount as number), 0)
      expect(await someone.balance()).toBe(BigInt(paidMinor - returnedMinor) * 10_000_000n)
      expect(await differences()).toEqual([])
      await someone.turnOff()
    }),
    { numRuns: 12 },
  )
  expect(await world.violations()).toEqual([])
})
