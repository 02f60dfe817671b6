import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { armFailpoints } from '../../src/base/runtime/failpoint.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { createAutoTopUps } from '../../src/money/payments/auto-top-up.ts'
import { createDrivers } from '../../src/money/payments/create-drivers.ts'
import { createPaymentSync } from '../../src/money/payments/payment-sync.ts'
import type { AutoTopUpShown, PaymentMethods } from '../../src/wire/api/auto-top-up.ts'
import type { TopUp, TopUpList } from '../../src/wire/api/payments.ts'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { type ScriptedStripe, sendEvent, startScriptedStripe, WEBHOOK_SECRET } from './scripted-stripe.ts'

const upstream = useUpstream()
let stripe: ScriptedStripe
let app: TestApp
let clockMs = Date.now()
let mails: { to: string; subject: string; text: string }[] = []

beforeAll(async () => {
  stripe = await startScriptedStripe()
  app = await startTestApp({
    offers: [testOffer(upstream.baseUrl)],
    yaml: `payments:\n  stripe:\n    secret_key: sk_test_x\n    api_url: ${stripe.url}\n    webhook_secret: ${WEBHOOK_SECRET}\n`,
  })
})
afterAll(async () => {
  armFailpoints([])
  await app.close()
  await stripe.close()
})

const USD = 1_000_000_000n
const read = async <T>(response: Response): Promise<T> => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}

/** The job, on the database of the gateway. */
function job() {
  const pool = app.database.pool
  const clock = { ...systemClock, epochMs: () => clockMs }
  const drivers = createDrivers(
    {
      instructions: null,
      stripe: { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripe.url },
    },
    () => 'http://gateway',
  )
  const log = { warn() {} }
  const sync = createPaymentSync({
    pool,
    clock,
    drivers,
    evidence: createCreditEvidence(fixedKey(randomBytes(32))),
    log,
  })
  return createAutoTopUps({
    pool,
    clock,
    drivers,
    sync,
    limits: { minNanos: 5n * USD, maxNanos: 1_000n * USD },
    mail: async mail => mails.push(mail),
    creditsUrl: id => `http://gateway/c/${id}/credits`,
    log,
  })
}

/** A customer with 10 USD, paid with a card that Stripe keeps. */
async function saver() {
  const customer = await app.customer({ creditNanos: 0n })
  const { browser } = await signedInMember(app, customer.customerId, 'owner')
  const path = `customers/${customer.customerId}`
  const order = { amount_usd: 10, save_method: true }
  await read<TopUp>(await browser.send('POST', `${path}/top-ups`, order, { 'idempotency-key': randomUUID() }))
  const sessionId = [...stripe.sessions.keys()].at(-1)!
  expect((await sendEvent(app.url, stripe.pay(sessionId))).status).toBe(200)
  const methods = await read<PaymentMethods>(await browser.get(`${path}/payment-methods`))
  const settings = {
    method_id: methods.data[0]!.id,
    threshold_usd: 20,
    amount_usd: 25,
    monthly_max_usd: 60,
    consent: true,
  }
  return {
    ...customer,
    browser,
    path,
    sessionId,
    methods,
    settings,
    turnOn: (more: object = {}) => browser.post(`${path}/auto-top-up`, { ...settings, ...more }),
    show: async () => read<AutoTopUpShown>(await browser.get(`${path}/auto-top-up`)),
    balance: () => app.balanceNanos(customer),
    automatic: async () =>
      (await read<TopUpList>(await browser.get(`${path}/top-ups`))).data.filter(
        ({ purpose }) => purpose === 'auto_top_up',
      ),
  }
}

test('a purchase saves a method and turns nothing on', async () => {
  const someone = await saver()
  expect(someone.methods.data).toMatchObject([{ brand: 'visa', last4: '4242', expires: '04/2029' }])
  expect(await someone.show()).toMatchObject({ state: 'off', method_id: null })
  await job().run()
  expect(await someone.balance()).toBe(10n * USD)
})

test('it needs consent, sound amounts, a method of the same customer, and a recent confirmation', async () => {
  const [someone, other] = [await saver(), await saver()]
  for (const [more, param] of [
    [{ consent: false }, 'consent'],
    [{ amount_usd: 1 }, 'amount_usd'],
    [{ threshold_usd: 5_000 }, 'threshold_usd'],
    [{ monthly_max_usd: 24 }, 'monthly_max_usd'],
    [{ method_id: other.settings.method_id }, 'method_id'],
    [{ paused_at: null }, 'paused_at'],
  ] as const) {
    expect(await readError(await someone.turnOn(more))).toMatchObject({ status: 400, param })
  }
  await app.database.pool.query("UPDATE person_session SET confirmed_at = now() - interval '11 minutes'")
  expect(await readError(await someone.turnOn())).toMatchObject({ code: 'confirmation_required' })
  expect(await someone.show()).toMatchObject({ state: 'off' })
})

test('it charges below the threshold, once at a time, and never above the ceiling of the month', async () => {
  const someone = await saver()
  expect(await read<AutoTopUpShown>(await someone.turnOn())).toMatchObject({ state: 'on' })
  // Several nodes at once.
  await Promise.all([job().run(), job().run(), job().run()])
  expect(await someone.automatic()).toMatchObject([{ state: 'paid', amount_usd: 25, method: { last4: '4242' } }])
  await someone.turnOn({ threshold_usd: 500 })
  await job().run()
  expect(await someone.balance()).toBe(60n * USD)
  await Promise.all([job().run(), job().run()])
  expect(await someone.automatic()).toHaveLength(2)
  expect(await someone.show()).toMatchObject({ state: 'on', charged_this_month_usd: 50 })
  clockMs += 32 * 86_400_000
  await job().run()
  clockMs = Date.now()
  expect(await someone.balance()).toBe(85n * USD)
  await someone.browser.send('DELETE', `${someone.path}/auto-top-up`)
})

test('the ceiling of the month is exact when many nodes charge at once', async () => {
  const someone = await saver()
  expect((await someone.turnOn({ threshold_usd: 900, amount_usd: 10, monthly_max_usd: 45 })).status).toBe(200)
  for (let round = 0; round < 6; round++) {
    await Promise.all(Array.from({ length: 6 }, () => job().run()))
    const charged = (await someone.automatic()).filter(({ state }) => state === 'paid')
    expect(charged.length).toBeLessThanOrEqual(4)
  }
  const charged = await someone.automatic()
  expect(charged.map(({ state, amount_usd }) => [state, amount_usd])).toEqual(Array(4).fill(['paid', 10]))
  expect(await someone.balance()).toBe(50n * USD)
  expect(await someone.show()).toMatchObject({ state: 'on', charged_this_month_usd: 40 })
  // The next month has its own ceiling.
  const before = clockMs
  clockMs = Date.UTC(new Date(clockMs).getUTCFullYear(), new Date(clockMs).getUTCMonth() + 1, 2)
  await job().run()
  expect(await someone.automatic()).toHaveLength(5)
  clockMs = before
  await someone.browser.send('DELETE', `${someone.path}/auto-top-up`)
})

test('above the threshold nothing is charged', async () => {
  const someone = await saver()
  await someone.turnOn({ threshold_usd: 10 })
  await job().run()
  expect(await someone.balance()).toBe(10n * USD)
})

test('a crash after the charge charges once', async () => {
  const someone = await saver()
  await someone.turnOn()
  const charges = () => stripe.writes.filter(path => path.startsWith('/v1/payment_intents')).length
  const before = charges()
  armFailpoints([{ name: 'payment-charged', hit: 1, action: 'throw' }])
  await job().run()
  armFailpoints([])
  expect(await someone.balance()).toBe(10n * USD)
  await job().run()
  expect(await someone.automatic()).toMatchObject([{ state: 'open' }])
  const { rows } = await app.database.pool.query<{ id: string }>(
    "SELECT payment_id AS id FROM payment WHERE state = 'open' AND customer_id = $1",
    [someone.customerId],
  )
  await bookAgain(rows[0]!.id)
  expect(await someone.balance()).toBe(35n * USD)
  expect(charges() - before).toBe(1)
})

async function bookAgain(paymentId: string): Promise<void> {
  const drivers = createDrivers(
    {
      instructions: null,
      stripe: { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripe.url },
    },
    () => 'http://gateway',
  )
  await createPaymentSync({
    ...{ pool: app.database.pool, clock: systemClock, drivers, log: { warn() {} } },
    evidence: createCreditEvidence(fixedKey(randomBytes(32))),
  }).book(paymentId)
}

test('a refused charge pauses it and mails a link, and it goes on only when a person turns it on again', async () => {
  const someone = await saver()
  await someone.turnOn()
  mails = []
  stripe.declineCharges(true)
  await job().run()
  await job().run()
  expect(await someone.automatic()).toMatchObject([{ state: 'failed', failure: 'Your card was declined.' }])
  expect(await someone.show()).toMatchObject({ state: 'paused', pause_reason: 'Your card was declined.' })
  expect(mails).toHaveLength(1)
  expect(mails[0]!.text).toContain(`http://gateway/c/${someone.customerId}/credits`)
  stripe.declineCharges(false)
  await job().run()
  expect(await someone.balance()).toBe(10n * USD)
  await someone.turnOn()
  await job().run()
  expect(await someone.balance()).toBe(35n * USD)
})

test('a dispute pauses it, and a removed method turns it off', async () => {
  const someone = await saver()
  await someone.turnOn()
  await sendEvent(app.url, stripe.dispute(someone.sessionId))
  expect(await someone.show()).toMatchObject({ state: 'paused' })
  await job().run()
  expect(await someone.automatic()).toEqual([])
  const method = `${someone.path}/payment-methods/${someone.settings.method_id}`
  expect((await someone.browser.send('DELETE', method)).status).toBe(200)
  expect(await someone.show()).toMatchObject({ state: 'off' })
  expect((await someone.browser.send('DELETE', method)).status).toBe(404)
})

test('the audit log has what was done here', async () => {
  const { rows } = await app.database.pool.query<{ action: string }>('SELECT DISTINCT action FROM audit_entry')
  expect(rows.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['auto_top_up.on', 'payment_method.removed', 'payment.started']),
  )
})
