import { runMigrations } from 'graphile-worker'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addCustomer } from '../../src/accounts/customers.ts'
import { grantGatewayRights, mayRewriteLedger } from '../../src/db/gateway-role.ts'
import { migrate } from '../../src/db/migrate.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'
import { openAccount } from '../../src/ledger/accounts/open-account.ts'
import { audit } from '../../src/ledger/audit/audit.ts'
import { createTestDatabase } from '../harness/database.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// The role that a gateway serves requests with reads the money but changes it only through the functions. All other tests
// of whole gateways run with this role too, so they show that it may do everything else.

const PERMISSION_DENIED = '42501'
const LEASE = '00000000-0000-7000-8000-000000000001'

const database = useTestDatabase()
let gateway: Pool

beforeAll(async () => {
  gateway = createPool(database.gatewayConnection, { max: 2, applicationName: 'gateway role' })
})
afterAll(() => gateway.end())

describe('the gateway role', () => {
  test('cannot change a row of any money table', async () => {
    const { rows } = await gateway.query<{ name: string }>('SELECT unnest(money_tables()) AS name')
    expect(rows).toHaveLength(33)
    for (const { name } of rows) {
      await expect(gateway.query(`SELECT FROM ${name} LIMIT 1`)).resolves.toBeDefined()
      for (const statement of [
        `INSERT INTO ${name} DEFAULT VALUES`,
        `DELETE FROM ${name}`,
        `TRUNCATE ${name}`,
        `UPDATE ${name} SET ${await firstColumnOf(name)} = DEFAULT`,
        `SELECT FROM ${name} FOR UPDATE`,
        `ALTER TABLE ${name} DISABLE TRIGGER ALL`,
        `DROP TABLE ${name}`,
      ])
        await expect(gateway.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
    }
  })

  test('cannot replace a function, give itself rights or become the owner', async () => {
    const { user } = database.connection
    for (const statement of [
      'CREATE OR REPLACE FUNCTION charge_within_hold(p_cost bigint, p_hold bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT 0 $$',
      'ALTER FUNCTION settle_batch SECURITY INVOKER',
      `SELECT grant_gateway_rights('switchyard_gateway')`,
      `SET ROLE ${user}`,
      `SET SESSION AUTHORIZATION ${user}`,
      'CREATE TABLE public.mine (id int)',
      // It would come before public in the search path of the owner.
      `CREATE SCHEMA ${user}`,
      'CREATE SCHEMA IF NOT EXISTS graphile_worker',
    ])
      await expect(gateway.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test('cannot give credit', async () => {
    const { customerId } = (await addCustomer(gateway, { email: 'a@example.com', accountTier: 'free' }))!
    await openAccount(database.pool, customerId, 5n)
    for (const statement of [
      `SELECT open_account('${customerId}', 5)`,
      `SELECT grant_credit('${customerId}', 5, 'ref', 'reason')`,
      `SELECT refund_request('${customerId}', '${LEASE}', 5, 'reason')`,
      `DELETE FROM gateway_role`,
    ])
      await expect(gateway.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test('cannot put a temporary table in the place of a money table', async () => {
    const sql = await gateway.pg.connect()
    try {
      await sql.query('CREATE TEMP TABLE lease AS SELECT * FROM public.lease')
      await sql.query('INSERT INTO pg_temp.lease (lease_id) VALUES ($1)', [LEASE])
      expect((await sql.query('SELECT release_leases(ARRAY[$1::uuid])', [LEASE])).rowCount).toBe(0)
      expect((await sql.query('SELECT FROM pg_temp.lease')).rowCount).toBe(1)
    } finally {
      sql.release(true)
    }
  })

  test('is seen as such by the check of the roles', async () => {
    expect(await mayRewriteLedger(gateway)).toBe(false)
    expect(await mayRewriteLedger(database.pool)).toBe(true)
  })
})

test('granting the rights again takes back what was granted since, and several starts may do it at once', async () => {
  await database.pool.query('GRANT UPDATE ON balance TO switchyard_gateway')
  expect(await mayRewriteLedger(gateway)).toBe(true)
  const starts = Array.from({ length: 4 }, () => grantGatewayRights(database.connection, database.gatewayConnection))
  await Promise.all(starts)
  expect(await mayRewriteLedger(gateway)).toBe(false)
})

test('the audit reports rights of the gateway role and a disabled trigger', async () => {
  const own = await createTestDatabase()
  try {
    await own.pool.query('GRANT DELETE ON usage_event, refund TO switchyard_gateway')
    await own.pool.query('ALTER TABLE ledger_tx DISABLE TRIGGER append_only')
    await own.pool.query(`GRANT CREATE ON DATABASE ${own.connection.database} TO switchyard_gateway`)
    const finding = (await audit(own.pool)).find(({ name }) => name === 'ledger_cannot_be_rewritten')
    expect(finding).toEqual({
      name: 'ledger_cannot_be_rewritten',
      violations: 4,
      examples: [
        'role switchyard_gateway may change refund',
        'role switchyard_gateway may change usage_event',
        'role switchyard_gateway may create schemas',
        'trigger append_only of ledger_tx',
      ],
    })
  } finally {
    await own.drop()
  }
})

test('the job queue is installed by a role that may not create schemas', async () => {
  const own = await createTestDatabase()
  const role = createPool(own.gatewayConnection, { max: 2, applicationName: 'job queue' })
  try {
    await own.pool.query('DROP SCHEMA graphile_worker CASCADE')
    await own.pool.query(`GRANT CREATE ON DATABASE ${own.connection.database} TO switchyard_gateway`)
    await grantGatewayRights(own.connection, own.gatewayConnection)
    await expect(role.query('CREATE SCHEMA mine')).rejects.toMatchObject({ code: PERMISSION_DENIED })
    await runMigrations({ pgPool: role.pg })
    expect((await role.query("SELECT FROM graphile_worker.add_job('test')")).rowCount).toBe(1)
    // A later start changes nothing.
    await grantGatewayRights(own.connection, own.gatewayConnection)
    await runMigrations({ pgPool: role.pg })
    expect((await audit(own.pool)).filter(({ violations }) => violations > 0)).toEqual([])
  } finally {
    await role.end()
    await own.drop()
  }
})

test('one role may do both jobs', async () => {
  const own = await createTestDatabase()
  try {
    await migrate(own.connection)
    await grantGatewayRights(own.connection, own.connection)
    await grantGatewayRights(own.connection, { ...own.connection })
    const { customerId } = (await addCustomer(own.pool, { email: 'a@example.com', accountTier: 'free' }))!
    await openAccount(own.pool, customerId, 5n)
    expect((await audit(own.pool)).filter(({ violations }) => violations > 0)).toEqual([])
  } finally {
    await own.drop()
  }
})

async function firstColumnOf(table: string): Promise<string> {
  const { rows } = await database.pool.query<{ column: string }>(
    'SELECT attname AS column FROM pg_attribute WHERE attrelid = $1::regclass AND attnum = 1',
    [table],
  )
  return rows[0]!.column
}
