import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { commandLine } from '../../src/base/domain/acting.ts'
import { armFailpoints, type FailpointName } from '../../src/base/runtime/failpoint.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { readFunds } from '../../src/money/payouts/earnings.ts'
import {
  applyPayoutChanges,
  enrollHoster,
  listPayoutChanges,
  readPayoutAccount,
  refreshPayoutAccount,
  stopPayoutChanges,
} from '../../src/money/payouts/payout-accounts.ts'
import { approvePayouts, freezePayouts, preparePayouts } from '../../src/money/payouts/payout-batches.ts'
import { createPayoutSync, type PayoutSync } from '../../src/money/payouts/payout-sync.ts'
import { type Payout, payoutsOfHoster } from '../../src/money/payouts/read-payouts.ts'
import { createStripeConnectDriver } from '../../src/money/payouts/stripe/stripe-connect-driver.ts'
import { startTestApp } from '../harness/app.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { type ScriptedStripe, sendEvent, startScriptedStripe, WEBHOOK_SECRET } from '../payments/scripted-stripe.ts'
import { createPayoutWorld, csv, DAY_MS, noWait, type PayoutWorld, rules, START_MS, USD } from './payout-world.ts'

// The real package of Stripe talks to a scripted one on loopback. Transfers are made once, whatever breaks.

let world: PayoutWorld
let stripe: ScriptedStripe
/** Two nodes, each with its own connections and the rights of the desk. */
let nodes: readonly PayoutSync[]
const pools: Pool[] = []
const LATER_MS = START_MS + 60 * DAY_MS
const log = { warn: () => {} }

beforeAll(async () => {
  stripe = await startScriptedStripe()
  world = await createPayoutWorld()
  nodes = [0, 1].map(n => {
    const pool = createPool(world.deskConnection, { max: 3, applicationName: `payouts ${n}` })
    pools.push(pool)
    const clock = { ...systemScheduler, epochMs: () => LATER_MS }
    return createPayoutSync({ pool, clock, drivers: [driver()], rules, log })
  })
})
afterAll(async () => {
  armFailpoints([])
  expect(await world.violations()).toEqual([])
  await Promise.all(pools.map(pool => pool.end()))
  await world.drop()
  await stripe.close()
})

function driver() {
  const settings = { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripe.url }
  return createStripeConnectDriver(settings, hosterId => `https://gateway.test/h/${hosterId}/earnings`)
}

/** A hoster with a finished account at Stripe and 8 USD past the hold, which are in an approved batch. */
async function owed({ approves = true } = {}) {
  // The hosters of earlier tests are not in this batch.
  await world.pool.query('UPDATE hoster SET payout_frozen_at = now()')
  const hosterId = await world.addHoster({ hasAccount: false })
  const { url } = await enrollHoster(world.pool, driver(), { hosterId, details: null }, commandLine, noWait)
  const account = (await listPayoutChanges(world.pool, hosterId))[0]!.destination!
  expect(url).toBe(`https://connect.stripe.test/${account}`)
  const event = JSON.parse(stripe.finishAccount(account, `bank-${hosterId}`)) as { id: string; type: string }
  await nodes[0]!.handleEvent(driver(), { eventId: event.id, type: event.type, ref: account })
  expect(await readPayoutAccount(world.pool, hosterId)).toMatchObject({ state: 'ready', note: null })
  // Parts of a charge are at most a third of a 32-bit number of tokens.
  const customerId = await world.addCustomer(20n * USD)
  for (let n = 0; n < 10; n++) await world.charge(customerId, hosterId, START_MS, USD)
  const { batchId } = await preparePayouts(world.pool, null, driver(), rules, LATER_MS)
  if (approves) expect(await approvePayouts(world.pool, null, batchId!)).toBe('approved')
  return {
    hosterId,
    account,
    batchId: batchId!,
    payout: async () => (await payoutsOfHoster(world.pool, hosterId, { limit: 1, after: null }))[0]!,
    funds: async () => (await readFunds(world.pool, hosterId, rules.holdDays, LATER_MS))!,
    transfers: () => [...stripe.transfers.values()].filter(({ destination }) => destination === account),
  }
}
const eventOf = (text: string) => {
  const { id, type, data } = JSON.parse(text) as { id: string; type: string; data: { object: { id: string } } }
  return { eventId: id, type, ref: data.object.id }
}
const paid = { state: 'paid', failure: null, mismatch: null } satisfies Partial<Payout>

test('a batch is paid once, however often it is settled', async () => {
  const hoster = await owed()
  expect(await nodes[0]!.settle(hoster.batchId)).toEqual({ looked: 1, booked: 1, mismatched: 0, failed: 0, file: null })
  expect(await nodes[1]!.settle(hoster.batchId)).toMatchObject({ booked: 0 })
  expect(hoster.transfers()).toMatchObject([{ amount: 800, currency: 'usd' }])
  expect(await hoster.payout()).toMatchObject({ ...paid, paidNanos: 8n * USD, providerRef: hoster.transfers()[0]!.id })
  expect(await hoster.funds()).toMatchObject({ balanceNanos: 0n })
})

test('a batch of the test mode is not sent with real money', async () => {
  const hoster = await owed()
  const live = createPayoutSync({
    pool: pools[0]!,
    clock: { ...systemScheduler, epochMs: () => LATER_MS },
    drivers: [{ ...driver(), isLive: true }],
    rules,
    log,
  })
  expect(await live.settle(hoster.batchId)).toMatchObject({ booked: 0, failed: 0 })
  expect(hoster.transfers()).toEqual([])
  expect(await hoster.payout()).toMatchObject({ state: 'approved' })
  await nodes[0]!.settle(hoster.batchId)
  expect(await live.reconcile({ isComplete: true })).toMatchObject({ looked: 0, failed: 0 })
})

test('payouts of a provider that is not set up any more are in no file for a bank', async () => {
  const hoster = await owed()
  const without = createPayoutSync({
    pool: pools[0]!,
    clock: { ...systemScheduler, epochMs: () => LATER_MS },
    drivers: [csv],
    rules,
    log,
  })
  expect([without, nodes[0]!].map(sync => sync.maySettle({ driver: 'stripe', isLive: false }))).toEqual([false, true])
  expect(nodes[0]!.maySettle({ driver: 'stripe', isLive: true })).toBe(false)
  expect(await without.settle(hoster.batchId)).toMatchObject({ booked: 0, file: null })
  expect(await hoster.payout()).toMatchObject({ state: 'approved' })
  await nodes[0]!.settle(hoster.batchId)
  expect(await hoster.payout()).toMatchObject(paid)
})

test('two nodes that settle a batch at once make one transfer', async () => {
  const hoster = await owed()
  await Promise.all(nodes.map(node => node.settle(hoster.batchId)))
  expect(hoster.transfers()).toHaveLength(1)
  expect(await hoster.payout()).toMatchObject(paid)
})

test('what is booked locks the hoster before the payout, also when the answer of the transfer was lost', async () => {
  const hoster = await owed()
  armFailpoints([{ name: 'payout-sent', hit: 1, action: 'throw' }])
  expect(await nodes[0]!.settle(hoster.batchId)).toMatchObject({ failed: 1 })
  armFailpoints([])
  const other = await world.pool.pg.connect()
  await other.query('BEGIN')
  await other.query('SELECT FROM hoster WHERE hoster_id = $1 FOR NO KEY UPDATE', [hoster.hosterId])
  const settling = nodes[1]!.settle(hoster.batchId)
  await expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(1)
  const free = await other.query('SELECT FROM payout WHERE batch_id = $1 FOR UPDATE SKIP LOCKED', [hoster.batchId])
  await other.query('COMMIT')
  other.release()
  expect(await settling).toMatchObject({ booked: 1, failed: 0 })
  expect(free.rowCount).toBe(1)
  expect(await hoster.payout()).toMatchObject({ ...paid, providerRef: hoster.transfers()[0]!.id })
})

test.each([
  'payout-begun',
  'payout-sent',
  'payout-looked',
  'payout-booking',
  'payout-booked',
] satisfies FailpointName[])('a node that breaks at %s pays once, and another node goes on', async name => {
  const hoster = await owed()
  armFailpoints([{ name, hit: 1, action: 'throw' }])
  expect(await nodes[0]!.settle(hoster.batchId)).toMatchObject({ failed: 1 })
  armFailpoints([])
  await nodes[1]!.reconcile({ isComplete: true })
  expect(hoster.transfers()).toHaveLength(1)
  expect(await hoster.payout()).toMatchObject(paid)
  expect(await hoster.funds()).toMatchObject({ balanceNanos: 0n })
})

test('a transfer with an answer that was lost is found a day later, when Stripe has forgotten the key', async () => {
  const hoster = await owed()
  armFailpoints([{ name: 'payout-sent', hit: 1, action: 'throw' }])
  await nodes[0]!.settle(hoster.batchId)
  armFailpoints([])
  stripe.forgetKeys()
  await nodes[1]!.reconcile({ isComplete: true })
  expect(hoster.transfers()).toHaveLength(1)
  expect(await hoster.payout()).toMatchObject(paid)
})

test('an account with an answer that was lost is found a day later: a hoster has one', async () => {
  const hosterId = await world.addHoster({ hasAccount: false })
  const enroll = () => enrollHoster(world.pool, driver(), { hosterId, details: null }, commandLine, noWait)
  stripe.losesAnswer = path => path === '/v1/accounts'
  await expect(enroll()).rejects.toThrow()
  stripe.losesAnswer = null
  stripe.forgetKeys()
  await enroll()
  const own = [...stripe.accounts.values()].filter(
    ({ metadata }) => (metadata as { hoster_id: string }).hoster_id === hosterId,
  )
  expect(own).toHaveLength(1)
  expect((await listPayoutChanges(world.pool, hosterId))[0]!.destination).toBe(own[0]!.id)
})

test('a refused transfer is payable again, and is in the next batch', async () => {
  const hoster = await owed()
  stripe.refuseTransfers(true)
  await nodes[0]!.settle(hoster.batchId)
  stripe.refuseTransfers(false)
  expect(await hoster.payout()).toMatchObject({ state: 'failed', failure: 'Insufficient funds.', paidNanos: 0n })
  expect(await hoster.funds()).toMatchObject({ payableNanos: 8n * USD })
  const { batchId } = await preparePayouts(world.pool, null, driver(), rules, LATER_MS)
  await approvePayouts(world.pool, null, batchId!)
  await nodes[0]!.settle(batchId!)
  expect(await hoster.payout()).toMatchObject(paid)
})

test('a provider that does not answer changes nothing, and the job goes on', async () => {
  const hoster = await owed()
  stripe.isBroken = true
  expect(await nodes[0]!.settle(hoster.batchId)).toMatchObject({ failed: 1 })
  stripe.isBroken = false
  expect(await hoster.payout()).toMatchObject({ state: 'sending' })
  expect(await hoster.funds()).toMatchObject({ balanceNanos: 0n })
  await nodes[1]!.reconcile({ isComplete: true })
  expect(await hoster.payout()).toMatchObject(paid)
})

test('reversals are booked once, whether events are doubled, in another order or lost', async () => {
  const hoster = await owed()
  await nodes[0]!.settle(hoster.batchId)
  const { id } = hoster.transfers()[0]!
  const created = eventOf(stripe.transferEvent(id))
  const reversed = eventOf(stripe.reverseTransfer(id, 300))
  armFailpoints([{ name: 'payout-event-noted', hit: 1, action: 'throw' }])
  await expect(nodes[0]!.handleEvent(driver(), reversed)).rejects.toThrow('payout-event-noted')
  armFailpoints([])
  for (const event of [reversed, created, reversed]) await nodes[1]!.handleEvent(driver(), event)
  expect(await hoster.payout()).toMatchObject({ state: 'paid', paidNanos: 5n * USD })
  expect(await hoster.funds()).toMatchObject({ payableNanos: 3n * USD })
  // No event comes for the rest.
  stripe.reverseTransfer(id, 500)
  await nodes[0]!.reconcile({ isComplete: true })
  await nodes[1]!.reconcile({ isComplete: true })
  expect(await hoster.payout()).toMatchObject({ state: 'returned', paidNanos: 0n })
  expect(await hoster.funds()).toMatchObject({ payableNanos: 8n * USD })
})

test('a report that was read before a newer one was booked is not booked', async () => {
  const hoster = await owed()
  let isHandled = false
  // The transfer exists. Before its answer arrives, another node books it, and then a reversal of it.
  stripe.onTransfer = async () => {
    const id = hoster.transfers()[0]?.id
    if (isHandled || id === undefined) return
    isHandled = true
    await nodes[1]!.handleEvent(driver(), eventOf(stripe.transferEvent(id)))
    await nodes[1]!.handleEvent(driver(), eventOf(stripe.reverseTransfer(id, 100)))
  }
  await nodes[0]!.settle(hoster.batchId)
  stripe.onTransfer = null
  expect(await hoster.payout()).toMatchObject({ state: 'paid', paidNanos: 7n * USD })
})

test.each([
  ['another amount', { amount: 1 }, /amount 1, not 800/],
  ['another currency', { currency: 'jpy' }, /currency jpy, not usd/],
  ['another account', { destination: 'acct_other' }, /to acct_other/],
  ['another mode', { livemode: true }, /live true, not f/],
  ['another payout', { metadata: { payout_id: 'x' } }, /payout x/],
])('a transfer with %s is booked nowhere, and operators see it', async (_, change, mismatch) => {
  const hoster = await owed()
  armFailpoints([{ name: 'payout-sent', hit: 1, action: 'throw' }])
  await nodes[0]!.settle(hoster.batchId)
  armFailpoints([])
  Object.assign(hoster.transfers()[0]!, change)
  expect(await nodes[0]!.reconcile({ isComplete: true })).toMatchObject({ mismatched: 1 })
  const payout = await hoster.payout()
  expect(payout).toMatchObject({ state: 'sending', paidNanos: 0n, mismatch: expect.stringMatching(mismatch) })
  // No other test may find it.
  await world.pool.query('UPDATE payout SET next_look_at = NULL WHERE payout_id = $1', [payout.payoutId])
})

test('a hoster that is frozen after the approval is not paid, and keeps its earnings', async () => {
  const hoster = await owed()
  await freezePayouts(world.pool, null, { hosterId: hoster.hosterId, isFrozen: true, reason: 'checks its answers' })
  await nodes[0]!.settle(hoster.batchId)
  expect(hoster.transfers()).toEqual([])
  expect(await hoster.payout()).toMatchObject({ state: 'cancelled', failure: 'the hoster is frozen' })
  expect(await hoster.funds()).toMatchObject({ payableNanos: 8n * USD, freezeReason: 'checks its answers' })
})

test('a hoster that names another account after the approval is not paid to the old one', async () => {
  const hoster = await owed()
  const bank = { holder: 'A Hoster', account: `NEW${hoster.hosterId.slice(-12)}` }
  await enrollHoster(world.pool, csv, { hosterId: hoster.hosterId, details: bank }, commandLine, noWait)
  await nodes[0]!.settle(hoster.batchId)
  expect(hoster.transfers()).toEqual([])
  expect(await hoster.payout()).toMatchObject({
    state: 'cancelled',
    failure: 'the payout account has changed since it was prepared',
  })
})

test('a batch that is not approved is not paid', async () => {
  const hoster = await owed({ approves: false })
  await nodes[0]!.settle(hoster.batchId)
  expect(hoster.transfers()).toEqual([])
  expect(await hoster.payout()).toMatchObject({ state: 'prepared' })
})

test('two hosters with one bank account: the second one is refused', async () => {
  const [first, second] = [await world.addHoster({ hasAccount: false }), await world.addHoster({ hasAccount: false })]
  for (const hosterId of [first!, second!]) {
    await enrollHoster(world.pool, driver(), { hosterId, details: null }, commandLine, noWait)
    const destination = (await listPayoutChanges(world.pool, hosterId))[0]!.destination
    const event = eventOf(stripe.finishAccount(destination!, 'the same bank account'))
    await nodes[0]!.handleEvent(driver(), event)
  }
  expect(await readPayoutAccount(world.pool, first!)).toMatchObject({ state: 'ready' })
  expect(await readPayoutAccount(world.pool, second!)).toMatchObject({ driver: null })
  expect(await listPayoutChanges(world.pool, second!)).toMatchObject([
    { state: 'refused', note: 'Another hoster is paid to this account.' },
  ])
})

test('another bank account at the provider is not paid before it has waited, nor after it was stopped', async () => {
  const hoster = await owed({ approves: false })
  const wait = { nowMs: LATER_MS, accountWaitHours: 72 }
  const bankIs = async (bank: string) => {
    stripe.finishAccount(hoster.account, bank)
    await refreshPayoutAccount(world.pool, driver(), hoster.account, wait)
  }
  await bankIs('bank of a thief')
  expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject({ state: 'pending' })
  const [change] = await listPayoutChanges(world.pool, hoster.hosterId)
  expect(change).toMatchObject({ state: 'ready', effectiveAt: new Date(LATER_MS + 3 * DAY_MS) })
  expect(await approvePayouts(world.pool, null, hoster.batchId)).toBe('approved')
  await nodes[0]!.settle(hoster.batchId)
  expect(hoster.transfers()).toEqual([])

  await stopPayoutChanges(world.pool, { hosterId: hoster.hosterId, changeId: null }, commandLine, LATER_MS)
  await bankIs('bank of a thief')
  expect(await listPayoutChanges(world.pool, hoster.hosterId)).toEqual([])
  expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject({ state: 'pending' })
  await bankIs(`bank-${hoster.hosterId}`)
  expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject({ state: 'ready', note: null })
  await bankIs('a new bank')
  await applyPayoutChanges(world.pool, LATER_MS + 3 * DAY_MS)
  await bankIs('a new bank')
  expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject({ state: 'ready', note: null })
})

test('a payout that a provider did not get is not sent again after its hoster was frozen or its account was changed', async () => {
  const frozen = await owed()
  const changed = await owed()
  await world.pool.query('UPDATE hoster SET payout_frozen_at = NULL WHERE hoster_id = $1', [frozen.hosterId])
  stripe.isBroken = true
  for (const { batchId } of [frozen, changed]) expect(await nodes[0]!.settle(batchId)).toMatchObject({ failed: 1 })
  stripe.isBroken = false
  await freezePayouts(world.pool, null, { hosterId: frozen.hosterId, isFrozen: true, reason: 'fraud' })
  const bank = { holder: 'A Hoster', account: `NEW${changed.hosterId.slice(-12)}` }
  await enrollHoster(world.pool, csv, { hosterId: changed.hosterId, details: bank }, commandLine, {
    ...noWait,
    nowMs: LATER_MS,
  })
  // The first try may still be on its way.
  await nodes[1]!.reconcile({ isComplete: true })
  for (const { payout } of [frozen, changed]) expect(await payout()).toMatchObject({ state: 'sending' })
  await world.pool.query('UPDATE hoster SET payout_frozen_at = $2 WHERE hoster_id = $1', [
    frozen.hosterId,
    new Date(LATER_MS - DAY_MS),
  ])
  await world.pool.query('UPDATE hoster_account SET updated_at = $2 WHERE hoster_id = $1', [
    changed.hosterId,
    new Date(LATER_MS - DAY_MS),
  ])
  await nodes[1]!.reconcile({ isComplete: true })
  expect(await frozen.payout()).toMatchObject({ state: 'failed', failure: 'the hoster is frozen', paidNanos: 0n })
  const failure = 'the payout account has changed since it was prepared'
  expect(await changed.payout()).toMatchObject({ state: 'failed', failure, paidNanos: 0n })
  for (const { transfers, funds } of [frozen, changed]) {
    expect(transfers()).toEqual([])
    expect(await funds()).toMatchObject({ payableNanos: 8n * USD })
  }
})

test('a transfer that is retried after a timeout goes to the account of the batch, once, although the account has changed', async () => {
  const hoster = await owed()
  stripe.losesAnswer = path => path === '/v1/transfers'
  expect(await nodes[0]!.settle(hoster.batchId)).toMatchObject({ failed: 1 })
  stripe.losesAnswer = null
  const bank = { holder: 'A Hoster', account: `NEW${hoster.hosterId.slice(-12)}` }
  await enrollHoster(world.pool, csv, { hosterId: hoster.hosterId, details: bank }, commandLine, noWait)
  for (const node of [...nodes, ...nodes]) await node.reconcile({ isComplete: true })
  expect(hoster.transfers()).toHaveLength(1)
  expect(await hoster.payout()).toMatchObject(paid)
  expect(await hoster.funds()).toMatchObject({ balanceNanos: 0n })
})

test('an account that is closed between batch and transfer gets nothing, is in no later batch, and makes room for another', async () => {
  const hoster = await owed()
  // Nobody reports it.
  const event = eventOf(stripe.closeAccount(hoster.account))
  await nodes[0]!.settle(hoster.batchId)
  expect(hoster.transfers()).toEqual([])
  expect(await hoster.payout()).toMatchObject({ state: 'failed', failure: 'No such destination.', paidNanos: 0n })
  expect(await hoster.funds()).toMatchObject({ payableNanos: 8n * USD })
  const closed = { state: 'pending', note: expect.stringContaining('is closed') }
  expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject(closed)
  expect((await preparePayouts(world.pool, null, driver(), rules, LATER_MS)).batchId).toBeNull()
  // An event about it ends, too: one that can never be handled would be tried for ever.
  expect(await nodes[0]!.handleEvent(driver(), { ...event, ref: hoster.account })).toBe('no_payout')
  await enrollHoster(world.pool, driver(), { hosterId: hoster.hosterId, details: null }, commandLine, {
    nowMs: LATER_MS,
    accountWaitHours: 72,
  })
  const [change] = await listPayoutChanges(world.pool, hoster.hosterId)
  expect(change!.destination).not.toBe(hoster.account)
  expect(change!.effectiveAt).toEqual(new Date(LATER_MS + 3 * DAY_MS))
})

test('an account without its bank account, with a hidden one, or without its capability gets nothing', async () => {
  const hoster = await owed({ approves: false })
  const bank = (fingerprint: string | null) => ({ object: 'bank_account', fingerprint })
  const known = bank(`bank-${hoster.hosterId}`)
  const strange: readonly (readonly [what: string, change: object])[] = [
    ['no bank account', { external_accounts: { object: 'list', data: [] } }],
    ['one without a fingerprint', { external_accounts: { object: 'list', data: [known, bank(null)] } }],
    ['more than fit', { external_accounts: { object: 'list', data: [known], has_more: true } }],
    ['no list', { external_accounts: null }],
    ['no capability', { capabilities: { transfers: 'inactive' } }],
    ['no capabilities', { capabilities: null }],
  ]
  const whole = structuredClone(stripe.accounts.get(hoster.account)!)
  for (const [what, change] of strange) {
    await nodes[0]!.handleEvent(driver(), eventOf(stripe.changeAccount(hoster.account, { ...change })))
    expect(await readPayoutAccount(world.pool, hoster.hosterId), what).toMatchObject({ state: 'pending' })
    await nodes[0]!.handleEvent(driver(), eventOf(stripe.changeAccount(hoster.account, whole)))
    expect(await readPayoutAccount(world.pool, hoster.hosterId), what).toMatchObject({ state: 'ready' })
  }
  // The event of the last change was lost.
  stripe.changeAccount(hoster.account, { capabilities: { transfers: 'inactive' } })
  await approvePayouts(world.pool, null, hoster.batchId)
  await nodes[0]!.settle(hoster.batchId)
  expect(hoster.transfers()).toEqual([])
  expect(await hoster.payout()).toMatchObject({ state: 'failed' })
  expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject({ state: 'pending' })
})

test("an event about another hoster's account changes that account only, and only as Stripe reports it", async () => {
  const [victim, thief] = [await owed({ approves: false }), await owed({ approves: false })]
  const before = await readPayoutAccount(world.pool, victim.hosterId)
  // What the event says is not believed: neither the object nor whose it is.
  const forged = { id: victim.account, object: 'account', metadata: { hoster_id: thief.hosterId }, capabilities: {} }
  const events = [
    { eventId: 'evt_forged_1', type: 'account.updated', ref: forged.id },
    { eventId: 'evt_forged_1', type: 'account.updated', ref: thief.account },
    { eventId: 'evt_forged_2', type: 'account.updated', ref: 'acct_of_nobody' },
  ]
  for (const event of events) await nodes[0]!.handleEvent(driver(), event)
  expect(await readPayoutAccount(world.pool, victim.hosterId)).toEqual(before)
  // The thief enters the bank account of the victim, and the other way round.
  stripe.finishAccount(thief.account, `bank-${victim.hosterId}`)
  await nodes[0]!.handleEvent(driver(), { eventId: 'evt_forged_3', type: 'account.updated', ref: thief.account })
  expect(await readPayoutAccount(world.pool, victim.hosterId)).toEqual(before)
  expect(await readPayoutAccount(world.pool, thief.hosterId)).toMatchObject({ state: 'pending' })
  expect(await listPayoutChanges(world.pool, thief.hosterId)).toMatchObject([{ state: 'refused' }])
})

test.each([
  ['a negative reversal', { amount_reversed: -800 }],
  ['a reversal of half a cent', { amount_reversed: 0.5 }],
  ['no reversal', { amount_reversed: undefined }],
  ['a negative amount', { amount: -800 }],
  ['no amount', { amount: null }],
  ['an amount of nothing', { amount: 0 }],
  ['an amount beyond all numbers', { amount: 1e300 }],
  ['the currency in capitals', { currency: 'USD' }],
  ['the account of the platform', { destination: 'acct_platform' }],
])('a transfer with %s moves nothing', async (_what, change) => {
  const hoster = await owed()
  armFailpoints([{ name: 'payout-sent', hit: 1, action: 'throw' }])
  await nodes[0]!.settle(hoster.batchId)
  armFailpoints([])
  Object.assign(hoster.transfers()[0]!, change)
  const found = await nodes[0]!.reconcile({ isComplete: true })
  expect(found.mismatched + found.failed).toBe(1)
  const payout = await hoster.payout()
  expect(payout).toMatchObject({ state: 'sending', paidNanos: 0n })
  expect(await hoster.funds()).toMatchObject({ balanceNanos: 0n, payableNanos: 0n })
  await world.pool.query('UPDATE payout SET next_look_at = NULL WHERE payout_id = $1', [payout.payoutId])
})

test('nobody is paid nothing, less than nothing or a part of a cent', async () => {
  for (const minNanos of [0n, 1n, -USD]) {
    const hosterId = await world.addHoster({ hasAccount: false })
    await world.pool.query('UPDATE hoster SET payout_frozen_at = now() WHERE hoster_id <> $1', [hosterId])
    const account = { holder: 'A Hoster', account: `ZERO${hosterId.slice(-12)}` }
    await enrollHoster(world.pool, csv, { hosterId, details: account }, commandLine, noWait)
    const customerId = await world.addCustomer(USD)
    for (const nanos of [0n, 9_999_999n]) {
      if (nanos > 0n) await world.charge(customerId, hosterId, START_MS, nanos)
      const { batchId, hosters } = await preparePayouts(world.pool, null, csv, { ...rules, minNanos }, LATER_MS)
      expect(batchId).toBeNull()
      expect(hosters.find(each => each.hosterId === hosterId)?.amountNanos ?? 0n).toBe(0n)
    }
  }
})

test('signed events of transfers reach the books by the webhook, and forged ones do not', async () => {
  const yaml = `payments:
  stripe:
    secret_key: sk_test_x
    webhook_secret: ${WEBHOOK_SECRET}
    api_url: ${stripe.url}
payouts:
  stripe: true
`
  const hoster = await owed()
  await nodes[0]!.settle(hoster.batchId)
  const { id } = hoster.transfers()[0]!
  const app = await startTestApp({ offers: [], yaml, database: world })
  try {
    const event = stripe.reverseTransfer(id, 800)
    expect((await sendEvent(app.url, event, { secret: 'whsec_other' })).status).toBe(400)
    expect(await hoster.payout()).toMatchObject(paid)
    const answers = await Promise.all([sendEvent(app.url, event), sendEvent(app.url, event)])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(await hoster.payout()).toMatchObject({ state: 'returned' })
    // Accounts of hosters have events of their own: none of them is about a payment or a transfer of the platform.
    const reversed = { ...JSON.parse(event), id: 'evt_of_an_account', account: hoster.account }
    expect((await sendEvent(app.url, JSON.stringify(reversed))).status).toBe(200)
    const { rows } = await world.pool.query('SELECT FROM payout_event WHERE event_id = $1', [reversed.id])
    expect(rows).toEqual([])
    expect((await sendEvent(app.url, stripe.closeAccount(hoster.account))).status).toBe(200)
    expect(await readPayoutAccount(world.pool, hoster.hosterId)).toMatchObject({ state: 'pending' })
  } finally {
    await app.close()
  }
})
