import { expect, test } from 'vitest'
import { migrate } from '../../src/base/db/migrate.ts'
import { transaction } from '../../src/base/db/pool.ts'
import { changeKey, findKeys, issueKey } from '../../src/identity/auth/keys.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { useFormerSchema } from '../upgrade/former-migrations.ts'

const db = useTestDatabase()

test('keys of a database from before the defaults have none, and can get some', async () => {
  await useFormerSchema(db.pool, '0009')
  const { customerId } = (await addCustomer(db.pool, { email: 'a@example.com', accountTier: 'free' }))!
  const keyId = '00000000-0000-4000-8000-000000000001'
  await db.pool.query(
    "INSERT INTO api_key (key_id, customer_id, name, key_hash, hint) VALUES ($1, $2, 'old', sha256('old'), 'old')",
    [keyId, customerId],
  )
  const applied = await migrate(db.connection)
  expect(applied[0]).toBe('0010_key_defaults.sql')
  expect(await findKeys(db.pool, keyId)).toMatchObject([{ name: 'old', defaults: null }])
  const defaults = { privacy_mode: true }
  expect(await transaction(db.pool, sql => changeKey(sql, keyId, { defaults }))).toMatchObject({ defaults })
  const issued = await transaction(db.pool, sql => issueKey(sql, { customerId, name: 'new', defaults }))
  expect(await findKeys(db.pool, issued.keyId)).toMatchObject([{ name: 'new', defaults }])
})
