import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { openSignupAccount } from '../../src/identity/people/signup-credit.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// The functions for the roles of the gateway give 100 USD at most, and refused the whole account above it.

const app = useTestApp({ yaml: 'signup: { credit_usd: 150 }\n' })
const HUNDRED_USD = 100_000_000_000n

test('an operator adds a customer', async () => {
  const { browser } = await signedInOperator(app)
  const response = await browser.post('operator/customers', { email: 'ada@example.com' })
  expect(response.status).toBe(200)
  const { id } = (await response.json()) as { id: string }
  expect(await app.balanceNanos({ customerId: id, key: '' })).toBe(HUNDRED_USD)
})

test('a person signs up', async () => {
  const email = 'bob@example.com'
  const customerId = await transaction(app.database.pool, async sql => {
    const customer = (await addCustomer(sql, { email, accountTier: 'free' }))!
    const client = { address: '198.51.100.7', userAgent: '', device: undefined }
    const caps = { perNetwork: 3, perRegion: 10, perDay: 100 }
    const order = { customerId: customer.customerId, email, creditNanos: 150_000_000_000n, client }
    await openSignupAccount(sql, order, caps, Date.UTC(2026, 10, 30))
    return customer.customerId
  })
  expect(await app.balanceNanos({ customerId, key: '' })).toBe(HUNDRED_USD)
})
