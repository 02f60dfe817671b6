import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { grantGatewayRights } from '../../src/base/db/gateway-role.ts'
import { FUNCTIONS_VERSION, migrate, pendingMigrations, readSqlFiles, sqlDir } from '../../src/base/db/migrate.ts'
import { describeSchema } from '../harness/describe-schema.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { formerMigrations, useFormerSchema } from './former-migrations.ts'
import { landedFunctions, withLandedSql } from './landed-functions.ts'

const database = useTestDatabase('test')
const fresh = useTestDatabase('test')

const upgrade = async () => {
  const applied = await migrate(database.connection)
  await grantGatewayRights({
    owner: database.connection,
    connection: database.gatewayConnection,
    desk: database.deskConnection,
  })
  return applied
}

/** The text of 0006 of the evening of 2026-11-23: the gateway role could create schemas. */
const FORMER_0006 = readFileSync(new URL('0006-of-2026-11-23.sql', import.meta.url), 'utf8')

/** 0042 as it was for some hours of 2026-11-28: of two changes at the same time, either counted. */
const FORMER_0042 = formerMigrations['0042_payout_changes.sql']!.replace(
  '  -- The owners that the mail was sent to.\n',
  '  -- The owners who have the mail.\n',
)
  .replace('      -- Of two at the same time, the stopped one counts: nothing is sent in doubt.\n', '')
  .replace("ORDER BY requested_at DESC, outcome = 'stopped' DESC LIMIT 1", 'ORDER BY requested_at DESC LIMIT 1')

// The newest migrations of mains that landed.
test.each([
  ['the evening of 2026-11-23', '0008', { '0006_gateway_role.sql': FORMER_0006 }],
  ['2026-11-24', '0010', {}],
  ['2026-11-26', '0030', {}],
  ['2026-11-27', '0037', {}],
  ['an earlier hour of 2026-11-28', '0046', { '0042_payout_changes.sql': FORMER_0042 }],
  ['2026-11-28', '0046', {}],
])(
  'a database of %s, until %s, upgrades to what a new one has, functions and rights too',
  async (_, newest, replaced) => {
    await useFormerSchema(database.pool, newest, replaced)
    if (newest < '0031') await database.pool.query("SELECT grant_gateway_rights('switchyard_gateway')")
    expect((await pendingMigrations(database.pool))[0]!.slice(0, 4) > newest).toBe(true)
    await upgrade()
    expect(await pendingMigrations(database.pool)).toEqual([])
    expect(await describeSchema(database.pool)).toBe(await describeSchema(fresh.pool))
    const checksums = 'SELECT version, name, checksum FROM migration ORDER BY version'
    expect((await database.pool.query(checksums)).rows).toEqual((await fresh.pool.query(checksums)).rows)
  },
)

// PostgreSQL refuses to replace a function or a view whose parameters, result or columns have other names or types.
test.each(landedFunctions)('the functions of version $version are replaced by those of this one', async landed => {
  await database.pool.query('DROP SCHEMA IF EXISTS public, graphile_worker CASCADE')
  await database.pool.query('CREATE SCHEMA public')
  await withLandedSql(landed, async directory => {
    expect(await migrate(database.connection, directory)).toContain(landed.newestMigration)
  })
  await upgrade()
  expect(await describeSchema(database.pool)).toBe(await describeSchema(fresh.pool))
})

test('the former texts are those that landed', () => {
  const former = readFileSync(join(sqlDir, 'former-migrations.sha256'), 'utf8')
  for (const [name, text] of Object.entries({ ...formerMigrations }))
    expect(former).toContain(`${createHash('sha256').update(text).digest('hex')}  ${name}\n`)
  for (const text of [FORMER_0006, FORMER_0042])
    expect(former).toContain(createHash('sha256').update(text).digest('hex'))
})

const landed = readFileSync(new URL('landed-sql.sha256', import.meta.url), 'utf8')
  .trim()
  .split('\n')

test('a migration that landed still has its text, also in comments', async () => {
  const { migrations } = await readSqlFiles(sqlDir)
  const now = new Set(migrations.map(({ name, checksum }) => `${checksum}  ${name}`))
  expect(landed.filter(line => line.endsWith('.sql') && !now.has(line))).toEqual([])
})

test('functions that differ from those that landed have a newer version', async () => {
  const [checksum, version] = (landed.findLast(line => line.endsWith(' functions')) ?? 'none 0').split(' ')
  if ((await readSqlFiles(sqlDir)).checksum !== checksum)
    expect(FUNCTIONS_VERSION, 'raise FUNCTIONS_VERSION of src/base/db/migrate.ts').toBeGreaterThan(Number(version))
})
