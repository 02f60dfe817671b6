import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { createAutoTopUps } from '../../src/money/payments/auto-top-up.ts'
import { createDrivers } from '../../src/money/payments/create-drivers.ts'
import type { PaymentDriver, PaymentProvider } from '../../src/money/payments/payment-driver.ts'
import { createPaymentSync } from '../../src/money/payments/payment-sync.ts'
import { createPayments } from '../../src/money/payments/payments.ts'
import { createPaymentService } from '../../src/operator/payments.ts'
import { useLedgerWorld } from '../ledger/ledger-world.ts'
import { type ScriptedStripe, startScriptedStripe } from './scripted-stripe.ts'

// What a provider cannot do is asked of nobody: each test takes one capability from a driver.

const world = useLedgerWorld()
const USD = 1_000_000_000n
const clock = systemClock
const log = { warn() {} }
let stripe: ScriptedStripe
let pool: Pool

beforeAll(async () => {
  stripe = await startScriptedStripe()
  pool = createPool(world.deskConnection, { max: 4, applicationName: 'capabilities' })
})
afterAll(async () => {
  await pool.end()
  await stripe.close()
})

function gatewayWith(capabilities: Partial<PaymentProvider>) {
  const settings = { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripe.url }
  const orders: { savesMethod: boolean }[] = []
  const [whole] = createDrivers({ instructions: null, stripe: settings }, () => 'http://gateway')
  const driver: PaymentDriver = {
    ...whole!,
    start(order) {
      orders.push(order)
      return whole!.start(order)
    },
    provider: { ...whole!.provider!, ...capabilities },
  }
  const evidence = createCreditEvidence(fixedKey(randomBytes(32)))
  const shared = { pool, clock, drivers: [driver], limits: { minNanos: USD, maxNanos: 1_000n * USD }, evidence, log }
  const sync = createPaymentSync(shared)
  return {
    orders,
    sync,
    payments: createPayments(shared),
    auto: createAutoTopUps({ ...shared, sync, mail: async () => {}, creditsUrl: () => '' }),
    operated: createPaymentService({ ...shared, deskPool: pool, sync }),
  }
}

async function topUp(gateway: ReturnType<typeof gatewayWith>) {
  return gateway.payments.start({
    customerId: await world.addCustomer(0n),
    personId: randomUUID(),
    address: '127.0.0.1',
    amountNanos: 25n * USD,
    driver: null,
    savesMethod: true,
    idempotencyKey: randomUUID(),
  })
}

test('a payment method is kept only where the provider can charge it', async () => {
  const [with_, without] = [gatewayWith({}), gatewayWith({ savedMethods: null })]
  await topUp(with_)
  await topUp(without)
  expect(with_.orders).toMatchObject([{ savesMethod: true }])
  expect(without.orders).toMatchObject([{ savesMethod: false }])
})

test('an automatic top-up is not started where the provider charges no saved methods', async () => {
  const customerId = await world.addCustomer(0n)
  const methodId = randomUUID()
  await world.pool.query(
    `INSERT INTO payment_method (method_id, customer_id, driver, provider_ref, brand, last4, expires, account_ref)
     VALUES ($1, $2, 'stripe', $1::uuid::text, 'visa', '4242', '', 'cus_x')`,
    [methodId, customerId],
  )
  await world.pool.query(
    `INSERT INTO auto_top_up (customer_id, method_id, threshold_nanos, amount_nanos, monthly_max_nanos, consented_by, consented_at)
     VALUES ($1, $2, $3, $3, $3, $4, now())`,
    [customerId, methodId, 20n * USD, randomUUID()],
  )
  expect(await gatewayWith({ savedMethods: null }).auto.run()).toBe(0)
  const { rows } = await world.pool.query('SELECT FROM payment WHERE customer_id = $1', [customerId])
  expect(rows).toEqual([])
  await world.pool.query('DELETE FROM auto_top_up WHERE customer_id = $1', [customerId])
})

test('an operator is sent to the pages of a provider that refunds only there, and nothing is taken', async () => {
  const gateway = gatewayWith({ refunds: null })
  const { paymentId } = await topUp(gateway)
  const nobody = { session: Buffer.alloc(32), address: '' } as unknown as Parameters<typeof gateway.operated.reverse>[0]
  const order = { amountNanos: null, reason: 'a test', isChargeback: false }
  await expect(gateway.operated.reverse(nobody, paymentId, order)).rejects.toMatchObject({
    code: 'invalid_value',
    message: expect.stringContaining('on the pages of its provider'),
  })
})

test('charges are compared only where the provider lists them', async () => {
  stripe.hasNoLists = true
  const reconcile = async (capabilities: Partial<PaymentProvider>) =>
    (await gatewayWith(capabilities).sync.reconcile({ isComplete: true })).failed
  expect(await reconcile({ moves: null })).toBe(0)
  expect(await reconcile({})).toBeGreaterThan(0)
  stripe.hasNoLists = false
})

test('a driver that the database has not met needs no migration, and has the rules of a provider', async () => {
  const customerId = await world.addCustomer(0n)
  const start = (driver: string, minor: number) =>
    pool.query(
      `SELECT start_payment($1, $2, $3, 1000000000, $4, 'usd', true, $1::uuid::text, $1::uuid::text, NULL, NULL, NULL)`,
      [randomUUID(), customerId, driver, minor],
    )
  await expect(start('another', 1)).rejects.toMatchObject({ code: '23514', constraint: 'payment_amount_is_charged' })
  await expect(start("another'", 100)).rejects.toMatchObject({ code: '23514', constraint: 'payment_driver_check' })
  await start('another', 100)
  await start('manual', 100)
  const { rows } = await world.pool.query(
    'SELECT driver, has_provider FROM payment WHERE customer_id = $1 ORDER BY driver',
    [customerId],
  )
  expect(rows).toEqual([
    { driver: 'another', has_provider: true },
    { driver: 'manual', has_provider: false },
  ])
})
