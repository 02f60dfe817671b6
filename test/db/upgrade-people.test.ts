import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { migrate } from '../../src/base/db/migrate.ts'
import { listMemberships } from '../../src/identity/people/persons.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { useFormerSchema } from '../upgrade/former-migrations.ts'

const database = useTestDatabase()
const query = (text: string, values: unknown[] = []) => database.pool.query(text, values)
/** The newest migration before people. */
const NEWEST_BEFORE = '0010'

test('the logins of a database of the version before become people and memberships', async () => {
  await useFormerSchema(database.pool, NEWEST_BEFORE)
  const [customerId, operator, owner] = [randomUUID(), randomUUID(), randomUUID()]
  await query('INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, $3)', [
    customerId,
    'billing@example.com',
    'free',
  ])
  await query(
    `INSERT INTO app_user (user_id, email, role, customer_id, created_at)
       VALUES ($1, 'Op@example.com', 'operator', NULL, '2026-01-01'), ($2, 'ada@example.com', 'customer', $3, '2026-01-02')`,
    [operator, owner, customerId],
  )

  await migrate(database.connection)

  const { rows } = await query(
    `SELECT person_id, email, installation_role, password_hash, created_at, email_verified_at FROM person ORDER BY created_at`,
  )
  const common = { password_hash: null, email_verified_at: null }
  expect(rows).toEqual([
    {
      ...common,
      person_id: operator,
      email: 'Op@example.com',
      installation_role: 'operator',
      created_at: new Date('2026-01-01T00:00:00Z'),
    },
    {
      ...common,
      person_id: owner,
      email: 'ada@example.com',
      installation_role: null,
      created_at: new Date('2026-01-02T00:00:00Z'),
    },
  ])
  expect(await listMemberships(database.pool, owner)).toEqual([
    { customerId, customerEmail: 'billing@example.com', role: 'owner' },
  ])
  expect(await listMemberships(database.pool, operator)).toEqual([])
  expect((await query("SELECT to_regclass('app_user') AS found")).rows).toEqual([{ found: null }])
})
