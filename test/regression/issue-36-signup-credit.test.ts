import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { noteDevice } from '../../src/identity/people/networks.ts'
import { addPerson } from '../../src/identity/people/persons.ts'
import { mintSecretToken } from '../../src/identity/people/secret-token.ts'
import { openSignupAccount } from '../../src/identity/people/signup-credit.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// One hundred sign-ups from addresses of one provider, three from each, used up the signup credit of a day for everybody.

const database = useTestDatabase()
const caps = { perNetwork: 3, perRegion: 10, perDay: 100 }

let people = 0
/** Signs a person up, a second after the one before. Returns whether the credit was given. */
async function signUp(address: string, device?: string): Promise<boolean> {
  const n = ++people
  return transaction(database.pool, async sql => {
    const email = `person-${n}@example.com`
    const { customerId } = (await addCustomer(sql, { email, accountTier: 'free' }))!
    const client = { address, userAgent: '', device }
    await openSignupAccount(sql, { customerId, email, creditNanos: 5n, client }, caps, n * 1000)
    const { rows } = await sql.query('SELECT FROM balance WHERE customer_id = $1 AND posted_nanos = 5', [customerId])
    return rows.length > 0
  })
}

test('the addresses of one region share a part of the credit of the day', async () => {
  let given = 0
  for (let n = 0; n < 100; n++) if (await signUp(`198.51.${Math.floor(n / 3)}.7`)) given++
  expect(given).toBe(10)
  for (let n = 0; n < 20; n++) if (await signUp(`2001:db8:${n.toString(16)}::1`)) given++
  expect(given).toBe(20)
  expect(await signUp('203.0.113.9')).toBe(true)
})

test('an account of a browser that another account used in the last 24 hours gets no credit', async () => {
  const { token } = mintSecretToken()
  const person = (await transaction(database.pool, sql => addPerson(sql, { email: 'first@example.com' })))!
  await noteDevice(database.pool, person.personId, token, people * 1000)
  expect(await signUp('100.64.0.1', token)).toBe(false)
  expect(await signUp('100.64.0.1', mintSecretToken().token)).toBe(true)
  expect(await signUp('100.65.0.1', 'not a token')).toBe(true)
  people += 86_400
  expect(await signUp('100.64.0.1', token)).toBe(true)
})
