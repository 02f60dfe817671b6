import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { armFailpoints } from '../../src/base/runtime/failpoint.ts'
import type { OperatorPayment, OperatorPayments } from '../../src/wire/api/operator/payments.ts'
import type { TopUp } from '../../src/wire/api/payments.ts'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { type ScriptedStripe, sendEvent, startScriptedStripe, WEBHOOK_SECRET } from './scripted-stripe.ts'

// The real package of Stripe talks to a scripted one on loopback. Events are doubled, reordered, lost and forged.

const upstream = useUpstream()
let stripe: ScriptedStripe
let app: TestApp
let operator: BrowserClient

beforeAll(async () => {
  stripe = await startScriptedStripe()
  app = await startTestApp({ offers: [testOffer(upstream.baseUrl)], yaml: yamlOf(`webhook_secret: ${WEBHOOK_SECRET}`) })
  operator = (await signedInOperator(app)).browser
})
afterAll(async () => {
  armFailpoints([])
  // What the tests of wrong reports leave.
  await app.database.pool.query(
    "SELECT accept_payment_difference(driver, ref, 'a test') FROM payment_difference WHERE ended_at IS NULL",
  )
  // Closing audits the ledger.
  await app.close()
  await stripe.close()
})

const yamlOf = (more: string) =>
  `payments:\n  stripe:\n    secret_key: sk_test_x\n    api_url: ${stripe.url}\n    ${more}\n`
const read = async <T>(response: Response): Promise<T> => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}

async function payer(amount_usd = 25) {
  const customer = await app.customer({ creditNanos: 0n, tier: 'free' })
  const { browser } = await signedInMember(app, customer.customerId, 'billing')
  const path = `customers/${customer.customerId}/top-ups`
  const started = await read<TopUp>(
    await browser.send('POST', path, { amount_usd }, { 'idempotency-key': randomUUID() }),
  )
  const { rows } = await app.database.pool.query<{ ref: string }>(
    'SELECT provider_ref AS ref FROM payment WHERE payment_id = $1',
    [started.id],
  )
  return {
    ...customer,
    started,
    sessionId: rows[0]!.ref,
    show: async () => read<TopUp>(await browser.get(`${path}/${started.id}`)),
    review: async () => read<OperatorPayment>(await operator.get(`operator/payments/${started.id}`)),
    balance: () => app.balanceNanos(customer),
    debt: async () =>
      (
        await app.database.pool.query<{ debt: bigint }>(
          'SELECT debt_nanos AS debt FROM balance WHERE customer_id = $1',
          [customer.customerId],
        )
      ).rows[0]!.debt,
  }
}
const send = (event: string) => sendEvent(app.url, event)
const reconcile = async () => read<Record<string, number>>(await operator.post('operator/payments/reconcile'))
const USD = 1_000_000_000n

test('a checkout gives nothing until its event, and one credit for a doubled event', async () => {
  const someone = await payer()
  expect(someone.started).toMatchObject({
    driver: 'stripe',
    state: 'open',
    redirect_url: 'https://checkout.stripe.test/pay',
  })
  // The page of the provider returns the payer, which grants nothing.
  expect(await someone.show()).toMatchObject({ state: 'open' })
  const event = stripe.pay(someone.sessionId)
  expect(await someone.balance()).toBe(0n)
  const answers = await Promise.all([send(event), send(event), send(event)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect((await send(event)).status).toBe(200)
  expect(await someone.balance()).toBe(25n * USD)
  expect(await someone.show()).toMatchObject({
    state: 'paid',
    redirect_url: null,
    receipt_url: 'https://receipt.stripe.test/1',
    invoice_url: 'https://invoice.stripe.test/1',
  })
  expect(await someone.review()).toMatchObject({ fee_usd: 1.03, mismatch: null })
  const { rows } = await app.database.pool.query('SELECT account_tier FROM customer WHERE customer_id = $1', [
    someone.customerId,
  ])
  expect(rows).toEqual([{ account_tier: 'standard' }])
})

test('fees that Stripe takes in another currency are unknown, and do not replace those that are booked', async () => {
  const someone = await payer()
  const event = stripe.pay(someone.sessionId)
  await send(event)
  expect(await someone.review()).toMatchObject({ fee_usd: 1.03 })
  stripe.balanceCurrency = 'eur'
  try {
    // It is asked again because of a new event.
    await send(stripe.dispute(someone.sessionId))
    expect(await someone.balance()).toBe(0n)
    expect(await someone.review()).toMatchObject({ fee_usd: 1.03 })
  } finally {
    stripe.balanceCurrency = 'usd'
  }
})

test('an event that could not be booked is booked when it is sent again', async () => {
  const someone = await payer()
  const event = stripe.pay(someone.sessionId)
  for (const name of ['payment-event-noted', 'payment-looked', 'payment-booking'] as const) {
    armFailpoints([{ name, hit: 1, action: 'throw' }])
    expect((await send(event)).status).toBe(500)
    armFailpoints([])
    expect(await someone.balance()).toBe(0n)
  }
  for (const status of [500, 200]) {
    armFailpoints([{ name: 'payment-booked', hit: 1, action: 'throw' }])
    expect((await send(event)).status).toBe(status)
    expect(await someone.balance()).toBe(25n * USD)
  }
  armFailpoints([])
})

test('an event that comes while the provider is away is asked to come again, and the job books it too', async () => {
  const someone = await payer()
  const event = stripe.pay(someone.sessionId)
  stripe.brokenSessionId = someone.sessionId
  expect(await readError(await send(event))).toMatchObject({ status: 503, code: 'payment_provider_unavailable' })
  expect(await someone.balance()).toBe(0n)
  stripe.brokenSessionId = null
  expect((await reconcile()).booked).toBeGreaterThan(0)
  expect(await someone.balance()).toBe(25n * USD)
  expect((await send(event)).status).toBe(200)
  expect(await someone.balance()).toBe(25n * USD)
})

test('lost events are found by asking', async () => {
  const someone = await payer()
  stripe.pay(someone.sessionId)
  expect(await reconcile()).toMatchObject({ failed: 0 })
  expect(await someone.balance()).toBe(25n * USD)
  stripe.dispute(someone.sessionId)
  await reconcile()
  expect(await someone.balance()).toBe(0n)
  expect(await reconcile()).toMatchObject({ booked: 0 })
})

test('forged events are refused: of another secret, unsigned, altered, or signed more than five minutes ago or ahead', async () => {
  const someone = await payer()
  const event = stripe.pay(someone.sessionId)
  for (const forged of [
    { secret: 'whsec_other' },
    { secret: '' },
    { signed: event.replace(someone.sessionId, 'cs_test_other') },
    { ageSeconds: 301 },
    { ageSeconds: 86_400 },
    { ageSeconds: -302 },
    { ageSeconds: -1_000 },
  ]) {
    expect(await readError(await sendEvent(app.url, event, forged))).toMatchObject({
      status: 400,
      code: 'invalid_header',
    })
  }
  const unsigned = await fetch(`${app.url}/webhooks/stripe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: event,
  })
  expect(unsigned.status).toBe(400)
  const { rows } = await app.database.pool.query('SELECT FROM payment_event WHERE event_id = $1', [
    (JSON.parse(event) as { id: string }).id,
  ])
  expect(rows).toEqual([])
  expect(await someone.balance()).toBe(0n)
  // Only the signature was wrong.
  expect((await sendEvent(app.url, event, { ageSeconds: 240 })).status).toBe(200)
  expect((await sendEvent(app.url, event, { ageSeconds: -240 })).status).toBe(200)
  expect(await someone.balance()).toBe(25n * USD)
})

test('the order of another driver is not completed by an event of Stripe', async () => {
  const someone = await payer()
  // A manual payment of another customer, whose id the payer of a cheap checkout names.
  const other = await app.customer({ creditNanos: 0n })
  const manual = randomUUID()
  await app.database.pool.query(
    "SELECT start_payment($1, $2, 'manual', $3, 100000, 'usd', false, 'SY-OTHER', NULL, NULL, NULL, NULL)",
    [manual, other.customerId, 1_000n * USD],
  )
  const event = stripe.pay(someone.sessionId, { metadata: { payment_id: manual } })
  await send(event)
  await reconcile()
  const { rows } = await app.database.pool.query('SELECT state, tx_id FROM payment WHERE payment_id = $1', [manual])
  expect(rows).toEqual([{ state: 'open', tx_id: null }])
  expect([await someone.balance(), await app.balanceNanos(other)]).toEqual([0n, 0n])
  expect((await someone.review()).mismatch).toContain(`payment ${manual}`)
})

test('without a webhook secret the address does not exist, and an empty secret is no setting', async () => {
  const bare = await startTestApp({ offers: [testOffer(upstream.baseUrl)], yaml: yamlOf('tax: false') })
  try {
    expect((await sendEvent(bare.url, '{}')).status).toBe(404)
    expect((await sendEvent(bare.url, '{}', { secret: '' })).status).toBe(404)
  } finally {
    await bare.close()
  }
  await expect(startTestApp({ offers: [], yaml: yamlOf('webhook_secret: ""') })).rejects.toThrow(/webhook_secret/)
})

test.each([
  ['another amount', { amount_subtotal: 100, amount_total: 100 }, /amount 100, not 2500/],
  ['another currency', { currency: 'jpy' }, /currency jpy, not usd/],
  ['another mode', { livemode: true }, /live true, not f/],
  ['another payment', { metadata: { payment_id: 'x' } }, /payment x/],
])('%s is booked nowhere, and operators see it', async (_, reported, mismatch) => {
  const someone = await payer()
  stripe.pay(someone.sessionId, reported)
  await reconcile()
  expect(await someone.balance()).toBe(0n)
  expect((await someone.review()).mismatch).toMatch(mismatch)
  const { rows } = await app.database.pool.query('SELECT problem FROM payment_difference WHERE payment_id = $1', [
    someone.started.id,
  ])
  // A charge with an id of another form is of another program.
  expect(rows).toEqual('metadata' in reported ? [] : [{ problem: 'not_booked' }])
  const review = await read<OperatorPayments>(await operator.get('operator/payments?review=true'))
  expect(review.data.map(({ id }) => id)).toContain(someone.started.id)
})

test('taxes are paid on top and are never credit; a refund of all takes the credit, not the taxes', async () => {
  const someone = await payer()
  await send(stripe.pay(someone.sessionId, { amount_total: 2_975 }))
  expect(await someone.balance()).toBe(25n * USD)
  await send(stripe.refund(someone.sessionId, 595))
  expect(await someone.balance()).toBe(20n * USD)
  await send(stripe.refund(someone.sessionId, 2_380))
  expect(await someone.balance()).toBe(0n)
  expect(await someone.debt()).toBe(0n)
})

test('a dispute takes the credit and a won one returns the same, in any order of events', async () => {
  const someone = await payer()
  const paid = stripe.pay(someone.sessionId)
  const withdrawn = stripe.dispute(someone.sessionId)
  // The dispute is known before the payment is.
  await send(withdrawn)
  expect(await someone.balance()).toBe(0n)
  await send(paid)
  expect(await someone.balance()).toBe(0n)
  const reinstated = stripe.winDispute(someone.sessionId)
  await send(reinstated)
  expect(await someone.balance()).toBe(25n * USD)
  for (const event of [withdrawn, paid, reinstated, withdrawn]) await send(event)
  expect(await someone.balance()).toBe(25n * USD)
  expect(await someone.show()).toMatchObject({
    reversed_usd: 0,
    reversals: [{ kind: 'dispute', taken_usd: 25, returned_usd: 25 }],
  })
})

test('a report that was read before a newer one was booked is not booked', async () => {
  const someone = await payer()
  await send(stripe.pay(someone.sessionId))
  const withdrawn = stripe.dispute(someone.sessionId)
  let looks = 0
  // The first look has read the dispute. Before its answer arrives, the dispute is won, and that is booked.
  stripe.onLook = async () => {
    if (++looks > 1) return
    const reinstated = stripe.winDispute(someone.sessionId)
    await send(reinstated)
  }
  await send(withdrawn)
  stripe.onLook = null
  expect(looks).toBeGreaterThan(2)
  expect(await someone.balance()).toBe(25n * USD)
})

test('an operator refunds unspent credit once, also when the answer of the provider was lost', async () => {
  const someone = await payer()
  await send(stripe.pay(someone.sessionId))
  armFailpoints([{ name: 'payment-refunded', hit: 1, action: 'throw' }])
  const refund = { amount_usd: 10, reason: 'asked for it' }
  expect((await operator.post(`operator/payments/${someone.started.id}/refunds`, refund)).status).toBe(500)
  armFailpoints([])
  expect(await someone.balance()).toBe(15n * USD)
  expect(await someone.review()).toMatchObject({ reversals: [{ state: 'asked', taken_usd: 10 }] })
  await reconcile()
  expect(await someone.balance()).toBe(15n * USD)
  expect(await someone.review()).toMatchObject({ reversals: [{ state: 'done', taken_usd: 10 }] })
  expect(stripe.writes.filter(path => path.startsWith('/v1/refunds'))).toHaveLength(1)
  const tooMuch = await operator.post(`operator/payments/${someone.started.id}/refunds`, {
    amount_usd: 16,
    reason: 'x',
  })
  expect(await readError(tooMuch)).toMatchObject({ param: 'amount_usd' })
})

test('an expired checkout gives nothing, and one that was paid at the last moment does', async () => {
  const someone = await payer()
  await send(stripe.expire(someone.sessionId))
  expect(await someone.show()).toMatchObject({ state: 'expired', redirect_url: null })
  await send(stripe.pay(someone.sessionId))
  expect(await someone.show()).toMatchObject({ state: 'paid' })
  expect(await someone.balance()).toBe(25n * USD)
})

test('a start without an answer does not open a second checkout', async () => {
  const customer = await app.customer({ creditNanos: 0n })
  const { browser } = await signedInMember(app, customer.customerId, 'billing')
  const key = randomUUID()
  const start = () =>
    browser.send('POST', `customers/${customer.customerId}/top-ups`, { amount_usd: 10 }, { 'idempotency-key': key })
  const before = stripe.sessions.size
  armFailpoints([{ name: 'payment-started', hit: 1, action: 'throw' }])
  expect((await start()).status).toBe(500)
  armFailpoints([])
  expect(await read<TopUp>(await start())).toMatchObject({ redirect_url: 'https://checkout.stripe.test/pay' })
  expect(stripe.sessions.size).toBe(before + 1)
})

test('a refund of the other mode is not asked for, and waits for a start with its mode', async () => {
  const someone = await payer()
  await send(stripe.pay(someone.sessionId))
  const refunds = `operator/payments/${someone.started.id}/refunds`
  stripe.losesAnswer = path => path === '/v1/refunds'
  expect((await operator.post(refunds, { amount_usd: 10, reason: 'asked for it' })).status).toBe(200)
  stripe.losesAnswer = null
  const setLive = async (isLive: boolean) => {
    await app.database.pool.query('ALTER TABLE payment DISABLE TRIGGER USER')
    await app.database.pool.query('UPDATE payment SET is_live = $2 WHERE payment_id = $1', [someone.started.id, isLive])
    await app.database.pool.query('ALTER TABLE payment ENABLE TRIGGER USER')
  }
  await setLive(true)
  const asked = () => stripe.writes.filter(path => path.startsWith('/v1/refunds')).length
  const before = asked()
  expect(await reconcile()).toMatchObject({ failed: 0 })
  const refused = await operator.post(refunds, { amount_usd: 1, reason: 'more' })
  expect(await readError(refused)).toMatchObject({
    message: expect.stringContaining('in the other mode of its provider'),
  })
  expect(asked()).toBe(before)
  await setLive(false)
  await reconcile()
  expect(await someone.review()).toMatchObject({ reversals: [{ state: 'done', taken_usd: 10 }] })
  expect(await someone.balance()).toBe(15n * USD)
})

test('a provider that refuses a refund gets the credit back to the customer', async () => {
  const someone = await payer()
  await send(stripe.pay(someone.sessionId))
  stripe.refuseRefunds()
  const refused = await operator.post(`operator/payments/${someone.started.id}/refunds`, { reason: 'too old' })
  expect(await read<OperatorPayment>(refused)).toMatchObject({ reversed_usd: 0, reversals: [{ state: 'refused' }] })
  expect(await someone.balance()).toBe(25n * USD)
})
