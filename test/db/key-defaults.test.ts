import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addCustomer } from '../../src/accounts/customers.ts'
import { changeKey, findKeys, issueKey } from '../../src/auth/keys.ts'
import { migrate, migrationsDir } from '../../src/db/migrate.ts'
import { transaction } from '../../src/db/pool.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()

test('keys of a database from before the defaults have none, and can get some', async () => {
  await db.pool.query('DROP SCHEMA public CASCADE')
  await db.pool.query('CREATE SCHEMA public')
  const older = await mkdtemp(join(tmpdir(), 'switchyard-migrations-'))
  try {
    const names = (await readdir(migrationsDir)).sort()
    const before = names.slice(
      0,
      names.findIndex(name => name.endsWith('_key_defaults.sql')),
    )
    expect(before.length).toBeGreaterThan(0)
    for (const name of before) await cp(join(migrationsDir, name), join(older, name))
    await migrate(db.connection, older)
    const { customerId } = (await addCustomer(db.pool, { email: 'a@example.com', accountTier: 'free' }))!
    const keyId = '00000000-0000-4000-8000-000000000001'
    await db.pool.query(
      "INSERT INTO api_key (key_id, customer_id, name, key_hash, hint) VALUES ($1, $2, 'old', sha256('old'), 'old')",
      [keyId, customerId],
    )
    const applied = await migrate(db.connection)
    expect(applied.map(({ name }) => name)).toEqual(names.slice(before.length))
    expect(await findKeys(db.pool, keyId)).toMatchObject([{ name: 'old', defaults: null }])
    const defaults = { privacy_mode: true }
    expect(await transaction(db.pool, sql => changeKey(sql, keyId, { defaults }))).toMatchObject({ defaults })
    const issued = await transaction(db.pool, sql => issueKey(sql, { customerId, name: 'new', defaults }))
    expect(await findKeys(db.pool, issued.keyId)).toMatchObject([{ name: 'new', defaults }])
  } finally {
    await rm(older, { recursive: true })
  }
})
