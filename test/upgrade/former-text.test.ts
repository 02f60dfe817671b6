import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { grantGatewayRights } from '../../src/db/gateway-role.ts'
import { migrate, migrationsDir, pendingMigrations } from '../../src/db/migrate.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase('test')
const fresh = useTestDatabase('test')
const FORMER = fileURLToPath(new URL('0006-of-2026-11-23.sql', import.meta.url))
const FUNCTIONS = `SELECT proname, prosrc, prosecdef, proconfig FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY proname, pronargs`
const CREATE = `SELECT has_database_privilege('switchyard_gateway', current_database(), 'CREATE') AS may`

test('a database of the evening of 2026-11-23, with another text of 0006, upgrades to the functions and rights of a new one', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-former-'))
  try {
    for (const name of readdirSync(migrationsDir).filter(name => name < '0009'))
      cpSync(join(migrationsDir, name), join(directory, name))
    cpSync(FORMER, join(directory, '0006_gateway_role.sql'))
    await database.pool.query('DROP SCHEMA public, graphile_worker CASCADE')
    await database.pool.query('CREATE SCHEMA public')
    await migrate(database.connection, directory)
    await database.pool.query("SELECT grant_gateway_rights('switchyard_gateway')")
    expect((await database.pool.query(CREATE)).rows).toEqual([{ may: true }])

    expect((await pendingMigrations(database.pool))[0]).toBe('0009_token_prices.sql')
    await migrate(database.connection)
    await grantGatewayRights({
      owner: database.connection,
      connection: database.gatewayConnection,
      desk: database.deskConnection,
    })

    expect(await pendingMigrations(database.pool)).toEqual([])
    expect((await database.pool.query(CREATE)).rows).toEqual([{ may: false }])
    const { rows } = await database.pool.query(FUNCTIONS)
    expect(rows).toEqual((await fresh.pool.query(FUNCTIONS)).rows)
    const checksums = 'SELECT version, name, checksum FROM migration ORDER BY version'
    expect((await database.pool.query(checksums)).rows).toEqual((await fresh.pool.query(checksums)).rows)
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('a migration that a released main had still has its text, also in comments', () => {
  const lines = readFileSync(new URL('applied-migrations.sha256', import.meta.url), 'utf8')
    .trim()
    .split('\n')
  const sums = lines.map(line => line.split('  ') as [sum: string, name: string])
  const now = sums.map(([, name]) => [
    createHash('sha256')
      .update(readFileSync(join(migrationsDir, name)))
      .digest('hex'),
    name,
  ])
  expect(now).toEqual(sums)
})
