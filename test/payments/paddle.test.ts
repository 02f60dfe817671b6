import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OperatorPayment } from '../../src/wire/api/operator/payments.ts'
import type { PaymentOptions, TopUp } from '../../src/wire/api/payments.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { PADDLE_SECRET, type ScriptedPaddle, sendPaddleEvent, startScriptedPaddle } from '../harness/scripted-paddle.ts'

// A second provider behind the same port: without idempotency keys, saved methods, or refunds by its API.

const USD = 1_000_000_000n
let paddle: ScriptedPaddle
let app: TestApp
let operator: BrowserClient

beforeAll(async () => {
  paddle = await startScriptedPaddle()
  app = await startTestApp({
    yaml: `payments:\n  paddle: { api_key: pdl_sdbx_apikey_x, webhook_secret: ${PADDLE_SECRET}, api_url: "${paddle.url}" }\n`,
  })
  operator = (await signedInOperator(app)).browser
})
afterAll(async () => {
  // What the test of wrong reports leaves.
  await app.database.pool.query(
    "SELECT accept_payment_difference(driver, ref, 'a test') FROM payment_difference WHERE ended_at IS NULL",
  )
  // Closing audits the ledger.
  await app.close()
  await paddle.close()
})

const read = async <T>(response: Response): Promise<T> => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}
const send = (event: string) => sendPaddleEvent(app.url, event)
const reconcile = async () => read<Record<string, number>>(await operator.post('operator/payments/reconcile'))

async function payer() {
  const customer = await app.customer({ creditNanos: 0n, tier: 'free' })
  const { browser } = await signedInMember(app, customer.customerId, 'billing')
  const path = `customers/${customer.customerId}/top-ups`
  const key = { 'idempotency-key': randomUUID() }
  const start = () => browser.send('POST', path, { amount_usd: 25 }, key)
  const facts = async () => {
    const { rows } = await app.database.pool.query<{ id: string; ref: string; debt: bigint }>(
      `SELECT payment_id AS id, provider_ref AS ref, debt_nanos AS debt FROM payment JOIN balance USING (customer_id) WHERE customer_id = $1`,
      [customer.customerId],
    )
    return rows[0]!
  }
  return {
    ...customer,
    browser,
    start,
    facts,
    balance: () => app.balanceNanos(customer),
    show: async () => read<TopUp>(await browser.get(`${path}/${(await facts()).id}`)),
    review: async () => read<OperatorPayment>(await operator.get(`operator/payments/${(await facts()).id}`)),
  }
}

async function started() {
  const someone = await payer()
  const topUp = await read<TopUp>(await someone.start())
  return { ...someone, topUp, ref: (await someone.facts()).ref }
}

test('a top-up gives nothing until its event, and exactly its amount once, without taxes and fees', async () => {
  const someone = await started()
  expect(someone.topUp).toMatchObject({ driver: 'paddle', state: 'open' })
  expect(someone.topUp.redirect_url).toContain(someone.ref)
  const event = paddle.pay(someone.ref, { tax: 475 })
  expect(await someone.balance()).toBe(0n)
  expect((await Promise.all([send(event), send(event)])).map(({ status }) => status)).toEqual([200, 200])
  expect((await send(event)).status).toBe(200)
  expect(await someone.balance()).toBe(25n * USD)
  expect(await someone.review()).toMatchObject({ state: 'paid', fee_usd: 1.75, mismatch: null })
})

test('payment methods are not kept, since it cannot charge them', async () => {
  const { browser, customerId } = await payer()
  const options = await read<PaymentOptions>(await browser.get(`customers/${customerId}/payment-options`))
  expect(options).toMatchObject({ drivers: ['paddle', 'voucher'], can_save_method: false })
})

test('a refused top-up gives nothing, and is paid if the payer tries again', async () => {
  const someone = await started()
  await send(paddle.refuse(someone.ref))
  expect(await someone.show()).toMatchObject({ state: 'failed', failure: 'The payment was refused.' })
  expect(await someone.balance()).toBe(0n)
  await send(paddle.pay(someone.ref))
  expect(await someone.balance()).toBe(25n * USD)
})

test('forged events of Paddle are refused: of another secret, unsigned, altered, or of another time', async () => {
  const someone = await started()
  const event = paddle.pay(someone.ref)
  for (const forged of [
    { secret: 'pdl_ntfset_other' },
    { secret: '' },
    { signed: event.replace(someone.ref, 'txn_other') },
    { ageSeconds: 302 },
    { ageSeconds: -302 },
  ]) {
    const error = await readError(await sendPaddleEvent(app.url, event, forged))
    expect(error).toMatchObject({ status: 400, code: 'invalid_header', param: 'Paddle-Signature' })
  }
  for (const signature of ['', 'ts=1', 'h1=', 'ts=;h1=', `ts=${'9'.repeat(400)};h1=${'0'.repeat(64)}`]) {
    const headers = { 'content-type': 'application/json', 'paddle-signature': signature }
    expect((await fetch(`${app.url}/webhooks/paddle`, { method: 'POST', headers, body: event })).status).toBe(400)
  }
  const { rows } = await app.database.pool.query(
    "SELECT FROM payment_event WHERE provider_ref = $1 AND driver = 'paddle'",
    [someone.ref],
  )
  expect(rows).toEqual([])
  expect(await someone.balance()).toBe(0n)
  for (const body of ['', '[]', '{}', '{"event_id":"\\u0000","event_type":"transaction.paid","data":{}}']) {
    expect(await readError(await send(body))).toMatchObject({ status: 400, code: 'invalid_json' })
  }
  expect((await send(event)).status).toBe(200)
  expect(await someone.balance()).toBe(25n * USD)
})

test('a refund that is made at Paddle takes its part when it is approved; the gateway asks for none', async () => {
  const someone = await started()
  await send(paddle.pay(someone.ref, { tax: 475 }))
  const order = { reason: 'a test', amount_usd: 5 }
  const { id } = await someone.facts()
  expect(await readError(await operator.post(`operator/payments/${id}/refunds`, order))).toMatchObject({ status: 400 })
  expect(await someone.balance()).toBe(25n * USD)
  const waiting = paddle.adjust(someone.ref, 'refund', 595, 'pending_approval')
  await send(waiting.event)
  expect(await someone.balance()).toBe(25n * USD)
  await send(paddle.decide(waiting.id, 'approved'))
  expect(await someone.balance()).toBe(20n * USD)
  const refused = paddle.adjust(someone.ref, 'refund', 595, 'pending_approval')
  await send(paddle.decide(refused.id, 'rejected'))
  expect(await someone.balance()).toBe(20n * USD)
  // The event is lost.
  paddle.adjust(someone.ref, 'refund', 2_380)
  await reconcile()
  expect([await someone.balance(), (await someone.facts()).debt]).toEqual([0n, 0n])
  expect(await reconcile()).toMatchObject({ booked: 0, failed: 0 })
})

test('a dispute at Paddle takes the credit, and one that is reversed gives the same back', async () => {
  const someone = await started()
  await send(paddle.pay(someone.ref))
  const dispute = paddle.adjust(someone.ref, 'chargeback', 2_500)
  for (const event of [dispute.event, dispute.event]) await send(event)
  expect(await someone.balance()).toBe(0n)
  const reversed = paddle.decide(dispute.id, 'reversed')
  await send(paddle.adjust(someone.ref, 'chargeback_reverse', 2_500).event)
  for (const event of [reversed, dispute.event]) await send(event)
  expect(await someone.balance()).toBe(25n * USD)
  expect(await someone.show()).toMatchObject({ reversals: [{ kind: 'dispute', taken_usd: 25, returned_usd: 25 }] })
})

test.each([
  ['a discount', { discount: 2_400 }, /amount 100, not 2500/],
  ['another currency', { currency: 'JPY' }, /currency jpy, not usd/],
  ['another payment', { ourId: 'x' }, /payment x/],
])('%s is booked nowhere', async (_, how, mismatch) => {
  const someone = await started()
  await send(paddle.pay(someone.ref, how))
  await reconcile()
  expect(await someone.balance()).toBe(0n)
  expect((await someone.review()).mismatch ?? '').toMatch(mismatch)
})

test('a start without an answer is found, and lost events too', async () => {
  const someone = await payer()
  paddle.losesAnswers = true
  expect(await readError(await someone.start())).toMatchObject({ code: 'payment_provider_unavailable' })
  paddle.losesAnswers = false
  const topUp = await read<TopUp>(await someone.start())
  const made = [...paddle.transactions.values()].filter(
    ({ custom_data }) => (custom_data as { payment_id: string }).payment_id === topUp.id,
  )
  expect(made).toHaveLength(1)
  paddle.pay(made[0]!.id)
  paddle.isDown = true
  expect((await reconcile()).failed).toBeGreaterThan(0)
  paddle.isDown = false
  await reconcile()
  expect(await someone.balance()).toBe(25n * USD)
})
