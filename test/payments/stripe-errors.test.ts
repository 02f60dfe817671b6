import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { ProviderUnavailable } from '../../src/money/payments/payment-driver.ts'
import { createStripeClient } from '../../src/money/payments/stripe/stripe-client.ts'

// What is an outage is tried again for days; what is not goes to the log as an error.
test.each([
  ['idempotency_error', 400, false],
  ['idempotency_error', 404, false],
  ['invalid_request_error', 400, false],
  ['idempotency_error', 409, true],
  ['invalid_request_error', 429, true],
  ['api_error', 500, true],
])('%s with status %d: an outage is %s', async (type, status, isOutage) => {
  const stripe = createServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
    response.end(JSON.stringify({ error: { type, message: 'refused' } }))
  })
  await new Promise<void>(resolve => stripe.listen(0, '127.0.0.1', resolve))
  const apiUrl = `http://127.0.0.1:${(stripe.address() as AddressInfo).port}`
  const settings = { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl }
  const refund = createStripeClient(settings)(client => client.refunds.create({ payment_intent: 'pi_1' }))
  const error = await refund.then(
    () => null,
    thrown => thrown,
  )
  stripe.close()
  expect(error).toBeInstanceOf(Error)
  expect(error instanceof ProviderUnavailable).toBe(isOutage)
})
