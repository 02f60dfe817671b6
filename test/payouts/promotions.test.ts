import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commandLine } from '../../src/base/domain/acting.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { foldHosterDays, moveEarnings, readFunds, readMovements } from '../../src/money/payouts/earnings.ts'
import { setHosterCustomer } from '../../src/money/payouts/payout-accounts.ts'
import { approvePayouts, decidePromotionReview } from '../../src/money/payouts/payout-batches.ts'
import { closePromotionDays, listPromotionReviews, readPromotionDays } from '../../src/money/payouts/promotions.ts'
import { payoutsOfHoster } from '../../src/money/payouts/read-payouts.ts'
import { createPayoutWorld, DAY_MS, noWait, type PayoutWorld, rules, USD } from './payout-world.ts'

// What promotion credit pays to hosters: a budget, a longer hold, and a decision of an operator.

let world: PayoutWorld
/**
 * Promotion credit counts from the day on which it was given, so these tests spend it in the future. Each has days of its own, since a
 * closed day stays closed.
 */
let nowMs = Date.now()
const pastHoldMs = () => nowMs + 20 * DAY_MS
const pastLongHoldMs = () => nowMs + 40 * DAY_MS
/** The shares of the hosters are 80 %. */
const CENT = USD / 100n

beforeAll(async () => {
  world = await createPayoutWorld()
})
afterAll(async () => {
  expect(await world.violations()).toEqual([])
  await world.drop()
})

/** A hoster that is alone in its batches. */
async function onlyHoster() {
  await world.pool.query('UPDATE hoster SET payout_frozen_at = now()')
  nowMs += 60 * DAY_MS
  return world.addHoster()
}
const spend = async (customerId: string, hosterId: string, dollars: number, atMs = nowMs) => {
  for (let n = 0; n < dollars; n++) await world.charge(customerId, hosterId, atMs, USD)
}
const pay = (customerId: string, nanos: bigint) =>
  grantCredit(world.pool, { customerId, amountNanos: nanos, ref: randomUUID(), reason: 'paid' })
const funds = async (hosterId: string, atMs: number) => (await readFunds(world.pool, hosterId, rules.holdDays, atMs))!
const payable = async (hosterId: string, atMs: number) => {
  await closePromotionDays(world.pool, rules, atMs)
  return (await funds(hosterId, atMs)).payableNanos
}

test('issue 36: free credit of four accounts becomes cash within the budget only, and later', async () => {
  const hosterId = await onlyHoster()
  for (let n = 0; n < 4; n++) await spend(await world.addCustomer(4n * USD), hosterId, 4)
  // 12.80 USD of shares, all from signup credit.
  expect(await payable(hosterId, pastHoldMs())).toBe(0n)
  expect(await funds(hosterId, pastHoldMs())).toMatchObject({
    balanceNanos: 1_280n * CENT,
    promotionalNanos: 1_280n * CENT,
  })
  const { batchId } = await world.prepare(pastLongHoldMs())
  const [payout] = await payoutsOfHoster(world.pool, hosterId, { limit: 1, after: null })
  expect(payout).toMatchObject({ batchId, amountNanos: USD, promotionNanos: USD })
  expect(await funds(hosterId, pastLongHoldMs())).toMatchObject({ balanceNanos: 0n, promotionalNanos: 1_280n * CENT })
  const day = new Date(nowMs).toISOString().slice(0, 10)
  const all = { from: null, to: null }
  expect(await readPromotionDays(world.pool, hosterId, all)).toEqual([
    { day, shareNanos: 1_280n * CENT, paidNanos: USD },
  ])
  expect((await readMovements(world.pool, hosterId, all)).map(({ kind, amountNanos }) => [kind, amountNanos])).toEqual([
    ['promotion_excess', -1_180n * CENT],
    ['payout', -USD],
  ])
  const { rows } = await world.pool.query<{ nanos: bigint }>(
    "SELECT sum(amount_nanos)::bigint AS nanos FROM ledger_entry JOIN ledger_tx USING (tx_id) WHERE kind = 'promotion_excess' AND account_kind = 'platform_promo'",
  )
  expect(rows[0]!.nanos).toBe(1_180n * CENT)
})

test('promotion credit is spent first; own money is paid out after the usual hold', async () => {
  const [hosterId, other] = [await onlyHoster(), await world.addHoster()]
  const customerId = await world.addCustomer(2n * USD)
  await pay(customerId, 10n * USD)
  await spend(customerId, hosterId, 1)
  // The second dollar of promotion credit ends on this day: a fourth of what each hoster earned.
  await spend(customerId, hosterId, 3, nowMs + DAY_MS)
  await spend(customerId, other, 1, nowMs + DAY_MS)
  await spend(customerId, other, 1, nowMs + 2 * DAY_MS)
  await foldHosterDays(world.pool)
  expect(await payable(hosterId, pastHoldMs())).toBe(320n * CENT - 80n * CENT - 60n * CENT)
  expect(await payable(other, pastHoldMs())).toBe(160n * CENT - 20n * CENT)
  // The next search leaves the customer out.
  await spend(customerId, other, 1, nowMs + 20 * DAY_MS)
  await closePromotionDays(world.pool, rules, nowMs + 20 * DAY_MS)
  const { rows } = await world.pool.query('SELECT FROM promotion_used_up WHERE customer_id = $1', [customerId])
  expect(rows).toHaveLength(1)
  // Within the budget, nothing is taken.
  expect(await payable(hosterId, pastLongHoldMs())).toBe(320n * CENT)
  expect(await payable(other, pastLongHoldMs())).toBe(240n * CENT)
})

test('the budget of a day is divided in proportion, and a closed day stays closed', async () => {
  const hosters = [await onlyHoster(), await world.addHoster(), await world.addHoster()]
  const atMs = nowMs + 3 * DAY_MS
  for (const [n, dollars] of [1, 2, 3].entries())
    await spend(await world.addCustomer(3n * USD), hosters[n]!, dollars, atMs)
  // Asked for: 0.80, 1.00 and 1.00 USD.
  const promotion = { ...rules.promotion, dayNanos: USD }
  await closePromotionDays(world.pool, { ...rules, promotion }, pastLongHoldMs())
  await closePromotionDays(world.pool, rules, pastLongHoldMs() + DAY_MS)
  const left = await Promise.all(hosters.map(async id => (await funds(id, pastLongHoldMs())).balanceNanos))
  expect(left).toEqual([285_714_285n, 357_142_857n, 357_142_857n])
})

test('promotion pays at most the fees that paying customers brought the platform in 30 days', async () => {
  const hosterId = await onlyHoster()
  const strict = { ...rules, promotion: { ...rules.promotion, needsPayers: true } }
  const [free, payer] = [await world.addCustomer(4n * USD), await world.addCustomer(0n)]
  await pay(payer, 10n * USD)
  // Shares of 0.80 USD for each dollar, and fees of 0.20.
  await spend(free, hosterId, 1)
  await spend(payer, hosterId, 2, nowMs + DAY_MS)
  await spend(free, hosterId, 3, nowMs + 2 * DAY_MS)
  await closePromotionDays(world.pool, strict, pastLongHoldMs())
  const days = await readPromotionDays(world.pool, hosterId, { from: null, to: null })
  expect(days.map(({ shareNanos, paidNanos }) => [shareNanos, paidNanos])).toEqual([
    [80n * CENT, 0n],
    [240n * CENT, 40n * CENT],
  ])
})

test('a refund before the day is closed takes promotional earnings back, and house customers do not count', async () => {
  const hosterId = await onlyHoster()
  const [customerId, house] = [await world.addCustomer(2n * USD), await world.addCustomer(USD)]
  const requestId = await world.charge(customerId, hosterId, nowMs, USD)
  await world.charge(customerId, hosterId, nowMs, USD)
  await refundRequest(world.pool, { customerId, requestId, amountNanos: null, reason: 'cut off' })
  await world.charge(house, hosterId, nowMs, USD)
  const keyId = randomUUID()
  await world.pool.query(
    "INSERT INTO api_key (key_id, customer_id, key_hash, hint, name) VALUES ($1, $2, sha256(gen_random_uuid()::text::bytea), '', 'audits')",
    [keyId, house],
  )
  await world.pool.query('INSERT INTO house_customer (customer_id, key_id) VALUES ($1, $2)', [house, keyId])
  await closePromotionDays(world.pool, rules, nowMs)
  expect(await funds(hosterId, nowMs)).toMatchObject({ promotionalNanos: 80n * CENT })
})

test('promotional earnings do not become credit of a customer', async () => {
  const hosterId = await onlyHoster()
  const earner = await world.addCustomer(0n)
  await setHosterCustomer(world.pool, hosterId, earner, commandLine, noWait)
  await spend(await world.addCustomer(2n * USD), hosterId, 2)
  const paying = await world.addCustomer(0n)
  await pay(paying, USD)
  await spend(paying, hosterId, 1)
  const move = (amountNanos: bigint | null) =>
    moveEarnings(world.pool, { moveId: randomUUID(), hosterId, amountNanos }, commandLine, nowMs)
  expect(await move(81n * CENT)).toMatchObject({ verdict: 'not_enough', amount: 80n * CENT })
  expect(await move(null)).toMatchObject({ verdict: 'moved', amount: 80n * CENT })
  // Spent at the hoster again, it is own money.
  await world.charge(earner, hosterId, nowMs, 50n * CENT)
  await closePromotionDays(world.pool, rules, nowMs)
  expect(await funds(hosterId, nowMs)).toMatchObject({ promotionalNanos: 160n * CENT, balanceNanos: 200n * CENT })
})

/** A hoster with 0.80 USD from a stranger, 0.80 from a related customer, both promotional, and 1.60 USD from own money. */
async function relatedHoster() {
  const hosterId = await onlyHoster()
  const related = await world.addCustomer(USD)
  const personId = randomUUID()
  await world.pool.query('INSERT INTO person (person_id, email) VALUES ($1, $2)', [personId, `${personId}@example.com`])
  await world.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'owner')", [
    related,
    personId,
  ])
  await world.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
    hosterId,
    personId,
  ])
  const paying = await world.addCustomer(0n)
  await pay(paying, 2n * USD)
  for (const customerId of [related, await world.addCustomer(USD), paying, paying]) await spend(customerId, hosterId, 1)
  const { batchId } = await world.prepare(pastLongHoldMs())
  const [review] = await listPromotionReviews(world.pool, batchId)
  return { hosterId, related, batchId: batchId!, review: review! }
}
const decide = (reviewId: string, isReleased: boolean) =>
  decidePromotionReview(world.pool, null, { reviewId, isReleased, reason: 'a test' })

test('a batch with promotional earnings of related customers waits, and what is withheld is not paid', async () => {
  const { hosterId, related, batchId, review } = await relatedHoster()
  expect(review).toMatchObject({ hosterId, shareNanos: 80n * CENT, state: 'waiting' })
  expect(review.evidence).toMatchObject([{ customer_id: related, evidence: 'member' }])
  expect(await approvePayouts(world.pool, null, batchId)).toBe('undecided')
  expect(await decide(review.reviewId, false)).toBe(true)
  expect(await decide(review.reviewId, true)).toBe(false)
  expect(await payoutsOfHoster(world.pool, hosterId, { limit: 1, after: null })).toMatchObject([
    { state: 'cancelled', failure: 'earnings from promotion credit were withheld' },
  ])
  // The stranger has the budget of the day.
  const next = await world.prepare(pastLongHoldMs())
  expect(next.hosters.find(each => each.hosterId === hosterId)).toMatchObject({ amountNanos: 240n * CENT })
  expect(await approvePayouts(world.pool, null, next.batchId!)).toBe('approved')
})

test('what is released is paid within the budget, and is not asked for again', async () => {
  const { hosterId, batchId, review } = await relatedHoster()
  expect(await decide(review.reviewId, true)).toBe(true)
  expect(await approvePayouts(world.pool, null, batchId)).toBe('approved')
  const [payout] = await payoutsOfHoster(world.pool, hosterId, { limit: 1, after: null })
  expect(payout).toMatchObject({ amountNanos: 260n * CENT, promotionNanos: USD })
  const { rows } = await world.pool.query<{ action: string }>('SELECT action FROM audit_entry WHERE subject = $1', [
    hosterId,
  ])
  expect(rows).toContainEqual({ action: 'payout.promotion_released' })
  await world.prepare(pastLongHoldMs() + DAY_MS)
  expect(await listPromotionReviews(world.pool, null)).not.toContainEqual(
    expect.objectContaining({ hosterId, state: 'waiting' }),
  )
})

test('sign-ups at one time and circular flows are evidence', async () => {
  const [hosterId, source] = [await onlyHoster(), await world.addHoster()]
  const group = [await world.addCustomer(USD), await world.addCustomer(USD), await world.addCustomer(USD)]
  for (const customerId of group) await spend(customerId, hosterId, 1)
  // The first one has received earnings of a hoster.
  const paying = await world.addCustomer(0n)
  await pay(paying, USD)
  await spend(paying, source, 1)
  await setHosterCustomer(world.pool, source, group[0]!, commandLine, noWait)
  await moveEarnings(world.pool, { moveId: randomUUID(), hosterId: source, amountNanos: null }, commandLine, nowMs)
  await world.prepare(pastLongHoldMs())
  const review = (await listPromotionReviews(world.pool, null)).find(each => each.hosterId === hosterId)!
  const found = review.evidence.map(
    ({ customer_id, evidence, detail }) => `${group.indexOf(customer_id)} ${evidence} ${detail}`,
  )
  expect(found.filter(each => each.includes('timing'))).toHaveLength(3)
  expect(found.find(each => each.includes('circular'))).toMatch(/^0 circular hoster-/)
})
