import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { commandLine } from '../../src/base/domain/acting.ts'
import { createKeyRing, type KeyRing } from '../../src/identity/auth/key-ring.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase()
/** Used by the key ring alone. */
let pool: Pool
let ring: KeyRing
/** Rows that PostgreSQL has sent to the key ring. */
let rows = 0

beforeAll(() => {
  pool = createPool(database.connection, { max: 1, applicationName: 'key ring' })
  pool.pg.on('connect', client => {
    const { connection } = client as typeof client & { readonly connection: NodeJS.EventEmitter }
    connection.on('dataRow', () => rows++)
  })
  ring = createKeyRing(pool)
})

afterAll(() => pool?.end())

/** Lists the ids of the customer's keys. */
async function idsOf(customerId: string) {
  return (await ring.list(customerId)).map(({ keyId }) => keyId)
}

test('deleted keys are no longer read, however many there are', async () => {
  const { customerId } = (await addCustomer(database.pool, { email: 'ada@example.com', accountTier: 'free' }))!
  const { keyId: kept } = await ring.issue({ customerId, name: 'kept' }, commandLine)
  // A customer that creates and deletes keys all day has this many within an hour.
  await database.pool.query(
    `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint, revoked_at)
     SELECT gen_random_uuid(), $1, 'deleted', sha256(n::text::bytea), 'hint', now() FROM generate_series(1, 3000) n`,
    [customerId],
  )
  rows = 0
  const { keyId, listing } = await ring.issue({ customerId, name: 'made' }, commandLine)
  expect(listing).toMatchObject({ keyId, customerId, name: 'made', customerEmail: 'ada@example.com', revokedAt: null })
  expect(await idsOf(customerId)).toEqual([keyId, kept])
  await ring.revoke(customerId, keyId, commandLine)
  expect(await idsOf(customerId)).toEqual([kept])
  expect(rows).toBeLessThan(10)
})

test('a deleted key, a key of another customer and an invalid id cannot be deleted', async () => {
  const [ada, bob] = await Promise.all(
    ['a@example.org', 'b@example.org'].map(email => addCustomer(database.pool, { email, accountTier: 'free' })),
  )
  const { keyId } = await ring.issue({ customerId: ada!.customerId, name: 'hers' }, commandLine)
  const refused = { code: 'not_found' }
  await expect(ring.revoke(bob!.customerId, keyId, commandLine)).rejects.toMatchObject(refused)
  for (const text of ['', 'x', `${keyId}0`, "' OR true --"]) {
    await expect(ring.revoke(ada!.customerId, text, commandLine)).rejects.toMatchObject(refused)
  }
  await ring.revoke(ada!.customerId, keyId, commandLine)
  await expect(ring.revoke(ada!.customerId, keyId, commandLine)).rejects.toMatchObject(refused)
})
