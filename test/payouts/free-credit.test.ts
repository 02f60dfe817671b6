import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { hasPaidCredit } from '../../src/money/ledger/accounts/has-paid-credit.ts'
import { archiveMonth } from '../../src/money/ledger/archive/archive-month.ts'
import { addUsagePartitions } from '../../src/money/ledger/settlement/add-usage-partitions.ts'
import { readFunds } from '../../src/money/payouts/earnings.ts'
import { closePromotionDays, listPromotionReviews, readPromotionDays } from '../../src/money/payouts/promotions.ts'
import { uuidAt } from '../ledger/archive-world.ts'
import { admissionOf, settle, settlementOf } from '../ledger/ledger-world.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, rules, USD } from './payout-world.ts'

// Credit that nobody paid for: what it pays to hosters comes from the budget of promotion.

let world: PayoutWorld
/** Credit counts from the day on which it was given, so these tests spend it from today on. */
const todayMs = Date.now()
/** The shares of the hosters are 80 %. */
const CENT = USD / 100n

beforeAll(async () => {
  world = await createPayoutWorld()
})
afterAll(async () => {
  expect(await world.violations()).toEqual([])
  await world.drop()
})

const grant = (customerId: string, nanos: bigint, isPromotion: boolean) =>
  grantCredit(world.pool, { customerId, amountNanos: nanos, ref: randomUUID(), reason: 'a test', isPromotion })

/** Makes a voucher and lets the customer redeem it. Returns the id of the payment. */
async function redeem(customerId: string, nanos: bigint, isPromotion: boolean): Promise<string> {
  const hash = createHash('sha256').update(randomUUID()).digest()
  await world.pool.query("SELECT make_voucher($1, $2, 'hint', $3, 'a test', $4, NULL, now() + interval '1 day')", [
    randomUUID(),
    hash,
    nanos,
    isPromotion,
  ])
  const { rows } = await world.pool.query<{ verdict: string; payment: string }>(
    'SELECT * FROM redeem_voucher($1, $2, $3, $4, NULL)',
    [randomUUID(), customerId, hash, randomUUID()],
  )
  expect(rows[0]!.verdict).toBe('redeemed')
  return rows[0]!.payment
}

/** What promotion credit has paid to the hoster. */
async function promotional(hosterId: string, atMs = todayMs): Promise<bigint> {
  await closePromotionDays(world.pool, rules, atMs)
  return (await readFunds(world.pool, hosterId, rules.holdDays, atMs))!.promotionalNanos
}

async function ownMoneySpent(customerId: string): Promise<bigint> {
  const { rows } = await world.pool.query<{ nanos: bigint }>(
    'SELECT spent_nanos AS nanos FROM own_money_spent(ARRAY[$1::uuid])',
    [customerId],
  )
  return rows[0]!.nanos
}

test.each([
  ['a grant', grant],
  ['a voucher', redeem],
])('%s that nobody paid for is promotion, and a paid one is not', async (_, give) => {
  const [hosterId, free, paid] = [await world.addHoster(), await world.addCustomer(0n), await world.addCustomer(0n)]
  await give(free, 2n * USD, true)
  await give(paid, 2n * USD, false)
  for (const customerId of [free, paid]) await world.charge(customerId, hosterId, todayMs, USD)
  expect(await promotional(hosterId)).toBe(80n * CENT)
  // Standing at hosters and the account tier come from own money.
  expect([await ownMoneySpent(free), await ownMoneySpent(paid)]).toEqual([0n, USD])
  expect([await hasPaidCredit(world.pool, free), await hasPaidCredit(world.pool, paid)]).toEqual([false, true])
})

test('promotion credit counts as promotion after its customer had spent own money, and again after it had spent all of it', async () => {
  const [hosterId, first, second] = [await world.addHoster(), await world.addCustomer(0n), await world.addCustomer(0n)]
  await grant(first, 2n * USD, false)
  await world.charge(first, hosterId, todayMs - 5 * DAY_MS, 2n * USD)
  await world.pool.query("INSERT INTO promotion_used_up VALUES ($1, (now() AT TIME ZONE 'UTC')::date - 1)", [second])
  for (const customerId of [first, second]) {
    await grant(customerId, USD, true)
    await world.charge(customerId, hosterId, todayMs + DAY_MS, USD)
  }
  expect(await promotional(hosterId, todayMs + DAY_MS)).toBe(160n * CENT)
})

test('a voucher that is taken back goes back to where it came from', async () => {
  const [hosterId, customerId] = [await world.addHoster(), await world.addCustomer(0n)]
  await grant(customerId, USD, false)
  const paymentId = await redeem(customerId, 3n * USD, true)
  const reversalId = randomUUID()
  await world.pool.query("SELECT reverse_payment($1, $2, $3, NULL, false, 'a mistake')", [
    reversalId,
    paymentId,
    3n * USD,
  ])
  const { rows } = await world.pool.query(
    `SELECT t.kind, e.account_kind, e.amount_nanos FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
     WHERE t.ref LIKE $1 AND e.account_kind <> 'customer'`,
    [`${reversalId}%`],
  )
  expect(rows).toEqual([{ kind: 'reversal', account_kind: 'platform_promo', amount_nanos: 3n * USD }])
  // What is left was paid for.
  await world.charge(customerId, hosterId, todayMs, USD)
  expect(await promotional(hosterId)).toBe(0n)
  expect(await ownMoneySpent(customerId)).toBe(USD)
  await world.pool.query('SELECT return_reversal($1)', [reversalId])
  await world.charge(customerId, hosterId, todayMs, USD)
  expect(await promotional(hosterId)).toBe(160n * CENT)
})

test('credit of the test mode of a provider is promotion', async () => {
  const [hosterId, customerId] = [await world.addHoster(), await world.addCustomer(0n)]
  const paymentId = randomUUID()
  await world.pool.query(
    "SELECT start_payment($1, $2, 'manual', $3, 100, 'usd', false, 'test mode', NULL, NULL, NULL, NULL)",
    [paymentId, customerId, USD],
  )
  await world.pool.query('SELECT book_manual_payment($1)', [paymentId])
  await world.charge(customerId, hosterId, todayMs, USD)
  expect(await promotional(hosterId)).toBe(80n * CENT)
  expect(await ownMoneySpent(customerId)).toBe(0n)
})

test('vouchers that three customers of one hoster redeem at one time are evidence', async () => {
  const hosterId = await world.addHoster()
  for (let n = 0; n < 3; n++) {
    const customerId = await world.addCustomer(0n)
    await redeem(customerId, USD, true)
    await world.charge(customerId, hosterId, todayMs, USD)
  }
  await closePromotionDays(world.pool, rules, todayMs + 40 * DAY_MS)
  const review = (await listPromotionReviews(world.pool, null)).find(each => each.hosterId === hosterId)!
  expect(review.evidence.map(({ evidence }) => evidence)).toEqual(['timing', 'timing', 'timing'])
})

test('promotional earnings of a month that was archived before the end of their hold are closed as others are', async () => {
  const [hosterId, customerId] = [await world.addHoster(), await world.addCustomer(0n)]
  const month = new Date(todayMs - 100 * DAY_MS).toISOString().slice(0, 7)
  const atMs = Date.parse(`${month}-20T12:00:00Z`)
  await addUsagePartitions(world.pool, atMs)
  await grant(customerId, 2n * USD, true)
  // As if the credit had been given then, and no day since was closed.
  await world.pool.query('ALTER TABLE ledger_tx DISABLE TRIGGER append_only')
  await world.pool.query(
    `UPDATE ledger_tx SET at = $2 WHERE tx_id IN (SELECT tx_id FROM ledger_entry WHERE account_kind = 'customer' AND account_id = $1)`,
    [customerId, new Date(atMs)],
  )
  await world.pool.query('ALTER TABLE ledger_tx ENABLE TRIGGER append_only')
  await world.pool.query("UPDATE promotion_progress SET closed_day = '2020-01-01'")
  const admission = admissionOf(customerId, 2n * USD, { modelId: 'm', requestId: uuidAt(atMs) })
  await world.node.ledger.admit(admission)
  await settle(world.node.ledger, settlementOf(admission, 2n * USD, 2n * USD, { hosterId, startedAtEpochMs: atMs }))
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-archive-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  await archiveMonth(world.pool, month, directory)
  const long = { ...rules, promotion: { ...rules.promotion, holdDays: 200 } }
  await closePromotionDays(world.pool, long, todayMs)
  const funds = await readFunds(world.pool, hosterId, rules.holdDays, todayMs)
  expect(funds).toMatchObject({ promotionalNanos: 160n * CENT, payableNanos: 0n })
  await closePromotionDays(world.pool, rules, todayMs)
  const days = await readPromotionDays(world.pool, hosterId, { from: null, to: null })
  expect(days).toEqual([{ day: `${month}-20`, shareNanos: 160n * CENT, paidNanos: USD }])
})
