import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { applyPayoutChanges } from '../../src/money/payouts/payout-accounts.ts'
import type { Earnings } from '../../src/wire/api/earnings.ts'
import type {
  PayoutBatchShown,
  PreparedBatchShown,
  PromotionReviewsShown,
} from '../../src/wire/api/operator/payouts.ts'
import type { HosterPayouts } from '../../src/wire/api/payouts.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest, signedInHoster } from '../harness/hosters.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, USD } from './payout-world.ts'

let world: PayoutWorld
let app: TestApp
let operator: BrowserClient
let second: BrowserClient
/** Its day is past the hold. */
const PAST_MS = Date.now() - 40 * DAY_MS

beforeAll(async () => {
  world = await createPayoutWorld()
  app = await startTestApp({ offers: [], database: world, yaml: 'payouts: { min_usd: 2 }' })
  operator = (await signedInOperator(app)).browser
  second = (await signedInOperator(app)).browser
})
afterAll(async () => {
  // Closing audits the ledger.
  await app.close()
  await world.drop()
})

const read = async <T>(response: Response): Promise<T> => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}

/** A hoster with `charges` of 1 USD past the hold, of which it earned 0.80 each. */
async function hosterWith(charges: number, more?: { hasAccount?: boolean }) {
  // The hosters of earlier tests are in no batch.
  await world.pool.query('UPDATE hoster SET payout_frozen_at = now()')
  const hosterId = await world.addHoster(more)
  const customerId = await world.addCustomer(BigInt(charges + 1) * USD)
  for (let n = 0; n < charges; n++) await world.charge(customerId, hosterId, PAST_MS, USD)
  return { hosterId, customerId }
}
const prepare = async (browser = operator) =>
  read<PreparedBatchShown>(await browser.post('operator/payouts', { driver: 'csv' }))
const audited = async (subject: string) =>
  (
    await world.pool.query<{ action: string }>('SELECT action FROM audit_entry WHERE subject = $1 ORDER BY entry_id', [
      subject,
    ])
  ).rows.map(({ action }) => action)

test('a hoster reads what it earned by day and model, and nothing of others', async () => {
  const { hosterId, customerId } = await hosterWith(2)
  await world.charge(customerId, hosterId, Date.now(), USD / 2n, 'other/model')
  const { key } = await hosterKey(app, hosterId, ['read'])
  const day = new Date(PAST_MS).toISOString().slice(0, 10)
  const shown = await read<Earnings>(await hosterRequest(app, key, `hoster/earnings?from=${day}`))
  expect(shown).toMatchObject({ balance_usd: 2, held_usd: 0.4, payable_usd: 1.6, frozen_reason: null })
  const today = new Date().toISOString().slice(0, 10)
  expect(shown.held_until).toBe(new Date(Date.parse(today) + 15 * DAY_MS).toISOString().slice(0, 10))
  expect(shown.lines).toEqual([
    expect.objectContaining({ day, model: 'm', requests: 2, gross_usd: 2, share_usd: 1.6, fee_usd: 0.4 }),
    expect.objectContaining({ day: today, model: 'other/model', requests: 1, gross_usd: 0.5, share_usd: 0.4 }),
  ])
  const csv = await hosterRequest(app, key, `hoster/earnings/export?from=${day}`)
  expect(csv.headers.get('content-type')).toMatch('text/csv')
  expect((await csv.text()).split('\r\n')[1]).toBe(`${day},m,2,2000000000,0,2.00,1.60,0.40,0.00,0.00`)
  const other = await hosterKey(app, await world.addHoster())
  expect(await read(await hosterRequest(app, other.key, `hoster/earnings?from=${day}`))).toMatchObject({
    balance_usd: 0,
    lines: [],
  })
  const refused = await readError(await hosterRequest(app, key, 'hoster/earnings?from=2020-01-01'))
  expect(refused).toMatchObject({ status: 400, param: 'from' })
})

test('only a person with a confirmed session names a payout account, and a key cannot', async () => {
  const { hosterId } = await hosterWith(0, { hasAccount: false })
  const path = `hosters/${hosterId}/payout-account`
  const account = { driver: 'csv', holder: 'Acme GmbH', account: 'DE89 3704 0044 0532 0130 00' }
  const { key } = await hosterKey(app, hosterId)
  expect((await hosterRequest(app, key, 'hoster/payout-account', { method: 'POST', body: account })).status).toBe(405)
  const { browser: viewer } = await signedInHoster(app, hosterId, 'viewer')
  expect(await readError(await viewer.post(path, account))).toMatchObject({ code: 'role_not_allowed' })
  const { browser: owner, personId } = await signedInHoster(app, hosterId)
  for (const [body, param] of [
    [{ ...account, account: 'DE89 3704 0044 0532 0130 01' }, 'account'],
    [{ ...account, account: '=1+1' }, 'account'],
    [{ driver: 'csv', account: '1234' }, 'holder'],
    [{ driver: 'stripe' }, 'driver'],
    [{ ...account, more: 1 }, 'more'],
  ] as const)
    expect(await readError(await owner.post(path, body))).toMatchObject({ status: 400, param })
  const waiting = { account: null, changes: [{ kind: 'account', state: 'ready', account: '…3000' }] }
  expect(await read(await owner.post(path, account))).toMatchObject({ ...waiting, url: null })
  expect(await read(await hosterRequest(app, key, 'hoster/payout-account'))).toMatchObject(waiting)
  expect(await audited(hosterId)).toContain('hoster.payout_change_requested')
  await world.pool.query("UPDATE person_session SET confirmed_at = now() - interval '1 hour' WHERE person_id = $1", [
    personId,
  ])
  expect(await readError(await owner.post(path, account))).toMatchObject({ code: 'confirmation_required' })

  const another = await world.addHoster({ hasAccount: false })
  const { browser: thief } = await signedInHoster(app, another)
  expect(await read(await thief.post(`hosters/${another}/payout-account`, account))).toMatchObject({
    changes: [{ state: 'refused', note: 'Another hoster is paid to this account.' }],
  })
})

test('earnings are moved once to the balance of a customer of the same person', async () => {
  const { hosterId } = await hosterWith(3)
  const customer = await app.customer({ creditNanos: 0n })
  const { browser } = await signedInMember(app, customer.customerId, 'owner')
  const { rows } = await world.pool.query<{ id: string }>(
    'SELECT person_id AS id FROM membership WHERE customer_id = $1',
    [customer.customerId],
  )
  await world.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
    hosterId,
    rows[0]!.id,
  ])
  const { key } = await hosterKey(app, hosterId)
  const move = (body: object) => hosterRequest(app, key, 'hoster/earnings/move', { method: 'POST', body })
  expect(await readError(await move({ id: randomUUID() }))).toMatchObject({ status: 400, param: 'id' })
  const others = await app.customer()
  const link = (customer_id: string) => browser.post(`hosters/${hosterId}/payout-customer`, { customer_id })
  expect(await readError(await link(others.customerId))).toMatchObject({ status: 400, param: 'customer_id' })
  expect(await read(await link(customer.customerId))).toMatchObject({
    customer_id: null,
    changes: [{ kind: 'customer', customer_id: customer.customerId }],
  })
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)

  const id = randomUUID()
  const answers = await Promise.all([1, 2, 3].map(() => move({ id, amount_usd: 0.5 })))
  const moved = await Promise.all(answers.map(each => read<{ is_repeat: boolean }>(each)))
  expect(moved.filter(({ is_repeat }) => !is_repeat)).toHaveLength(1)
  expect(await app.balanceNanos(customer)).toBe(USD / 2n)
  expect(await readError(await move({ id, amount_usd: 0.6 }))).toMatchObject({ code: 'idempotency_key_reused' })
  expect(await readError(await move({ id: randomUUID(), amount_usd: 2 }))).toMatchObject({ param: 'amount_usd' })
  await operator.post(`operator/hosters/${hosterId}/freeze`, { reason: 'checks its answers' })
  expect(await readError(await move({ id: randomUUID() }))).toMatchObject({ status: 403, code: 'earnings_frozen' })
  const statement = await read<Earnings>(await hosterRequest(app, key, 'hoster/earnings'))
  expect(statement).toMatchObject({ balance_usd: 1.9, frozen_reason: 'checks its answers' })
  expect(statement.movements).toMatchObject([{ kind: 'earnings_moved', amount_usd: -0.5 }])
  const credits = await read<{ data: object[] }>(
    await browser.get(`customers/${customer.customerId}/credits/transactions`),
  )
  expect(credits.data).toMatchObject([{ kind: 'earnings_moved', amount_usd: 0.5 }])
})

test('an operator pays a batch by bank: prepared, approved, sent, and booked once each', async () => {
  const { hosterId } = await hosterWith(5)
  const { batch, hosters } = await prepare()
  expect(batch).toMatchObject({ state: 'prepared', payouts: 1, amount_usd: 4 })
  expect(hosters.find(each => each.hoster_id === hosterId)).toMatchObject({ result: 'prepared', payable_usd: 4 })
  const path = `operator/payouts/${batch!.id}`
  expect(await readError(await operator.post(`${path}/settle`))).toMatchObject({ status: 400, param: 'batch_id' })
  const transfer = `operator/transfers/${batch!.data[0]!.id}`
  expect(await readError(await operator.post(transfer, { is_paid: true }))).toMatchObject({ param: 'payout_id' })
  expect(await read(await operator.post(`${path}/approve`))).toMatchObject({ result: 'approved' })
  expect(await read(await second.post(`${path}/approve`))).toMatchObject({ result: 'approved_before' })
  const { reference } = batch!.data[0]!
  for (const browser of [operator, second]) {
    const { file } = await read<{ file: string }>(await browser.post(`${path}/settle`))
    expect(file.split('\r\n')[1]).toBe(`${reference},A Hoster,${batch!.data[0]!.account},4.00,USD,${hosterId}`)
  }
  for (const browser of [operator, second])
    expect(await read(await browser.post(transfer, { is_paid: true }))).toMatchObject({ state: 'settled', paid_usd: 4 })
  const { key } = await hosterKey(app, hosterId)
  expect(await read<HosterPayouts>(await hosterRequest(app, key, 'hoster/payouts'))).toMatchObject({
    data: [{ state: 'paid', paid_usd: 4, reference, account: expect.stringMatching(/^…/) }],
  })
  expect(await audited(batch!.id)).toEqual(['payout.prepared', 'payout.approved', 'payout.settled', 'payout.settled'])
  expect(await audited(batch!.data[0]!.id)).toEqual(['payout.paid'])
  // The bank sends it back a week later.
  expect(await readError(await operator.post(transfer, { is_paid: false }))).toMatchObject({ param: 'reason' })
  await read(await operator.post(transfer, { is_paid: false, reason: 'account closed' }))
  expect(await read(await hosterRequest(app, key, 'hoster/earnings'))).toMatchObject({ payable_usd: 4 })
})

test('two operators who prepare at once make one batch', async () => {
  const { hosterId } = await hosterWith(4)
  const both = await Promise.all([prepare(operator), prepare(second)])
  const batches = both.flatMap(({ batch }) => (batch === null ? [] : [batch]))
  expect(batches.flatMap(({ data }) => data)).toMatchObject([{ hoster_id: hosterId, amount_usd: 3.2 }])
  expect(await read(await operator.post(`operator/payouts/${batches[0]!.id}/cancel`))).toMatchObject({
    state: 'cancelled',
  })
  const funds = await read<{ data: { hoster_id: string }[] }>(await operator.get('operator/earnings'))
  expect(funds.data.find(each => each.hoster_id === hosterId)).toMatchObject({ payable_usd: 3.2 })
})

test('above 1,000 USD another operator must approve', async () => {
  const { hosterId } = await hosterWith(1)
  // A hoster with an old balance, as a large claw-back that is given back.
  await world.pool.query(
    `SELECT post_hoster('clawback_returned', $1::uuid::text, $1::uuid, 1500000000000, 'hoster_clawback', '00000000-0000-0000-0000-000000000000', 'a test')`,
    [hosterId],
  )
  const { batch } = await prepare()
  const path = `operator/payouts/${batch!.id}`
  const alone = await read<{ batch: PayoutBatchShown }>(await operator.post(`${path}/approve`))
  expect(alone).toMatchObject({ result: 'second_operator', batch: { state: 'prepared' } })
  expect(await read(await second.post(`${path}/approve`))).toMatchObject({ result: 'approved' })
  expect(await read(await operator.post(`${path}/cancel`))).toMatchObject({ state: 'cancelled' })
  // So that the audit of the whole ledger passes.
  await world.pool.query(
    `SELECT post_hoster('clawback', $1::uuid::text, $1::uuid, -1500000000000, 'hoster_clawback', '00000000-0000-0000-0000-000000000000', 'a test')`,
    [hosterId],
  )
  await world.pool.query(
    `INSERT INTO clawback (clawback_id, hoster_id, cause, amount_nanos, returned_at, reason) VALUES ($1, $1, 'fraud', 1500000000000, now(), 'a test')`,
    [hosterId],
  )
})

test('security 47: earnings are taken back for fraud and disputes only, within what was earned, and may leave a debt', async () => {
  const { hosterId } = await hosterWith(5)
  const { batch } = await prepare()
  await operator.post(`operator/payouts/${batch!.id}/approve`)
  const path = `operator/hosters/${hosterId}/clawbacks`
  const fraud = { id: randomUUID(), amount_usd: 1.5, reason: 'answers of a smaller model' }
  for (const is_repeat of [false, true])
    expect(await read(await operator.post(path, fraud))).toEqual({ clawback_id: fraud.id, is_repeat })
  const more = { id: randomUUID(), amount_usd: 2.6, reason: 'x' }
  expect(await readError(await operator.post(path, more))).toMatchObject({ param: 'amount_usd' })
  const unknown = { ...more, dispute_id: randomUUID() }
  expect(await readError(await operator.post(path, unknown))).toMatchObject({ param: 'dispute_id' })
  // The batch was prepared with money that the hoster gives back: it is not sent.
  await operator.post(`operator/payouts/${batch!.id}/settle`)
  expect(await read(await operator.get(`operator/payouts/${batch!.id}`))).toMatchObject({
    state: 'cancelled',
    data: [{ state: 'cancelled', failure: 'earnings were taken back since it was prepared' }],
  })
  expect((await operator.post(`operator/clawbacks/${fraud.id}/return`, { reason: 'a mistake' })).status).toBe(200)
  expect((await operator.post(`operator/clawbacks/${fraud.id}/return`, { reason: 'a mistake' })).status).toBe(404)
  expect(await audited(hosterId)).toEqual(expect.arrayContaining(['hoster.clawed_back', 'hoster.clawback_returned']))
})

test('security 47: a refund after the payout leaves a debt, which later earnings pay first', async () => {
  const { hosterId, customerId } = await hosterWith(4)
  const request = await world.charge(customerId, hosterId, PAST_MS, USD / 2n)
  const { batch } = await prepare()
  await operator.post(`operator/payouts/${batch!.id}/approve`)
  await operator.post(`operator/payouts/${batch!.id}/settle`)
  await read(await operator.post(`operator/transfers/${batch!.data[0]!.id}`, { is_paid: true }))
  const order = { request_id: request, reason: 'cut off' }
  await read(await operator.post(`operator/customers/${customerId}/refunds`, order))
  const { key } = await hosterKey(app, hosterId)
  const funds = async () =>
    read<Earnings>(await hosterRequest(app, key, 'hoster/earnings?from=2026-01-01&until=2026-01-02'))
  expect(await funds()).toMatchObject({ balance_usd: -0.4, payable_usd: -0.4 })
  const rich = await world.addCustomer(10n * USD)
  for (let n = 0; n < 4; n++) await world.charge(rich, hosterId, PAST_MS, USD)
  expect(await funds()).toMatchObject({ payable_usd: 2.8 })
  expect((await prepare()).batch).toMatchObject({ amount_usd: 2.8 })
})

test('people without a role on the installation, and SQL of the gateway, move no payouts', async () => {
  const { hosterId } = await hosterWith(3)
  const { browser } = await signedInHoster(app, hosterId)
  for (const path of ['operator/payouts', `operator/hosters/${hosterId}/freeze`])
    expect(await readError(await browser.post(path, {}))).toMatchObject({ status: 403 })
  for (const statement of [
    `SELECT * FROM prepare_payouts(NULL, gen_random_uuid(), 'csv', true, 1, now(), ROW(0, 1, 5, 5, false)::payout_rules, NULL)`,
    `SELECT * FROM prepare_payouts_by_operator('\\x00', gen_random_uuid(), 'csv', true, 1, now(), ROW(0, 1, 5, 5, false)::payout_rules, NULL)`,
    `UPDATE hoster_account SET destination = 'X'`,
    `UPDATE payout SET state = 'approved'`,
    `INSERT INTO hoster_movement VALUES (gen_random_uuid(), 1, 1)`,
  ])
    await expect(world.node.pool.query(statement)).rejects.toThrow(/permission denied|no operator/)
})

test('a batch with promotional earnings of related customers waits for the decision of an operator, with a reason', async () => {
  const { hosterId } = await hosterWith(5)
  const related = await world.addCustomer(USD)
  const { personId } = await signedInHoster(app, hosterId)
  await world.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'viewer')", [
    related,
    personId,
  ])
  await world.charge(related, hosterId, Date.now(), USD)
  const { batchId } = await world.prepare(Date.now() + 40 * DAY_MS)
  const path = `operator/payouts/${batchId}`
  const batch = await read<PayoutBatchShown>(await operator.get(path))
  expect(batch.data).toMatchObject([{ amount_usd: 4.8, promotion_usd: 0.8 }])
  expect(batch.reviews).toMatchObject([{ hoster_id: hosterId, share_usd: 0.8, evidence: [{ evidence: 'member' }] }])
  expect(await readError(await operator.post(`${path}/approve`))).toMatchObject({ status: 400, param: 'batch_id' })
  const review = `operator/promotion-reviews/${batch.reviews[0]!.id}`
  expect(await readError(await operator.post(review, { is_released: false }))).toMatchObject({ param: 'reason' })
  const decided = await read<PromotionReviewsShown>(
    await operator.post(review, { is_released: false, reason: 'own account' }),
  )
  expect(decided.data).toContainEqual(expect.objectContaining({ state: 'withheld', reason: 'own account' }))
  expect((await second.post(review, { is_released: true, reason: 'x' })).status).toBe(404)
  expect(await audited(hosterId)).toContain('payout.promotion_withheld')
  const { key } = await hosterKey(app, hosterId)
  const shown = await read<Earnings>(await hosterRequest(app, key, 'hoster/earnings'))
  expect(shown).toMatchObject({ balance_usd: 4, promotion: { share_usd: 0, day_budget_usd: 1 } })
  expect(shown.promotion_days).toMatchObject([{ share_usd: 0.8, paid_usd: 0 }])
})
