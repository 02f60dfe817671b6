import { randomBytes, randomUUID } from 'node:crypto'
import { runMigrations } from 'graphile-worker'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { grantGatewayRights, mayReplaceFunctions, mayRewriteLedger } from '../../src/base/db/gateway-role.ts'
import { migrate } from '../../src/base/db/migrate.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// The role that a gateway serves requests with reads the money but changes it only through the functions. All other tests
// of whole gateways run with this role too, so they show that it may do everything else.

const PERMISSION_DENIED = '42501'
const LEASE = '00000000-0000-7000-8000-000000000001'

const database = useTestDatabase()
let gateway: Pool
let desk: Pool

beforeAll(async () => {
  gateway = createPool(database.gatewayConnection, { max: 2, applicationName: 'gateway role' })
  desk = createPool(database.deskConnection, { max: 2, applicationName: 'desk role' })
})
afterAll(() => Promise.all([gateway.end(), desk.end()]))

const ID = '00000000-0000-4000-8000-000000000001'
const HASH = "sha256('x')"

/** What an attacker with the gateway role wants: credit, earnings, a payout, or the money of others. */
const attacks: [what: string, statement: string][] = [
  [
    'start a payment',
    `SELECT start_payment('${ID}', '${ID}', 'stripe', 5, 5, 'usd', true, 'r', 'k', NULL, NULL, NULL)`,
  ],
  ['name the payment of a provider', `SELECT note_payment_started('${ID}', 'cs_1', NULL)`],
  ['book a payment', `SELECT book_payment_report('${ID}', 'stripe', 0, '{"state":"paid"}', NULL)`],
  ['confirm a bank transfer', `SELECT confirm_payment_by_operator(${HASH}, '${ID}', NULL)`],
  ['forge an event of a provider', `SELECT note_payment_event('stripe', 'evt', 't', 'cs_1')`],
  ['give back what a reversal took', `SELECT refuse_refund('${ID}')`],
  ['read the hashes of vouchers', 'SELECT code_hash FROM voucher'],
  ['read the hashes of vouchers with whole rows', 'SELECT v FROM voucher v'],
  ['guess the hash of a voucher', `SELECT FROM voucher WHERE code_hash = ${HASH}`],
  ['redeem a voucher', `SELECT redeem_voucher('${ID}', '${ID}', ${HASH}, 'r', NULL)`],
  [
    'get a signup credit of any size',
    `SELECT open_account_by_sign_up('${ID}', ${HASH}, 'n', 'r', NULL, now(), 1000000000000, 9, 9, 9)`,
  ],
  ['become a house customer', `INSERT INTO house_customer (customer_id, key_id) VALUES ('${ID}', '${ID}')`],
  ['fill a house account', `SELECT fill_house_account('${ID}', 1000000000)`],
  ['become an operator', `UPDATE person SET installation_role = 'operator'`],
  [
    'add an operator',
    `INSERT INTO person (person_id, email, installation_role) VALUES ('${ID}', 'x@example.com', 'operator')`,
  ],
  ['remove the second operator', `DELETE FROM person`],
  ['set the password of an operator', `UPDATE person SET password_hash = 'x'`],
  ['read a password hash', 'SELECT password_hash FROM person'],
  ['open a session', `INSERT INTO person_session (person_id) VALUES ('${ID}')`],
  ['read the token hashes of sessions', 'SELECT token_hash FROM person_session'],
  ['confirm a session', 'UPDATE person_session SET confirmed_at = now()'],
  ['make a link that sets a password', `INSERT INTO person_token (token_hash, purpose) VALUES (${HASH}, 'reset')`],
  ['read the hashes of links', 'SELECT token_hash FROM person_token'],
  ['add a passkey', `INSERT INTO person_passkey (person_id) VALUES ('${ID}')`],
  ['forget wrong passwords', 'DELETE FROM sign_in_throttle'],
  [
    'join the customer of another',
    `INSERT INTO membership (customer_id, person_id, role) VALUES ('${ID}', '${ID}', 'owner')`,
  ],
  ['claim the customer of another by its address', `UPDATE customer SET email = 'x@example.com'`],
  ['make a key that spends the credit of another', `INSERT INTO api_key (key_id) VALUES ('${ID}')`],
  ['lift the spend limit of a key', 'UPDATE api_key SET spend_limit_nanos = NULL'],
  ['lift the spend limit of a member', 'UPDATE member_limit SET spend_limit_nanos = NULL'],
  ['use the card of another', `UPDATE payment_method SET customer_id = '${ID}'`],
  ['be the account of another at a provider', `UPDATE payment_account SET provider_ref = 'cus_1'`],
  ['turn automatic top-ups on', `INSERT INTO auto_top_up (customer_id) VALUES ('${ID}')`],
  ['charge a saved card', `SELECT start_auto_top_up('${ID}', '${ID}', true, 'r', NULL, now())`],
  ['join a hoster', `INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ('${ID}', '${ID}', 'owner')`],
  ['make a key of a hoster', `INSERT INTO hoster_key (key_id) VALUES ('${ID}')`],
  [
    'redirect payouts',
    `SELECT set_payout_account('${ID}', '${ID}', 'csv', 'X', 'x', '{}', true, NULL, NULL, NULL, now(), 0)`,
  ],
  [
    'name the customer that gets earnings',
    `SELECT set_hoster_customer('${ID}', '${ID}', '${ID}', NULL, NULL, now(), 0)`,
  ],
  ['let a change of payouts wait no longer', `SELECT apply_payout_changes('2100-01-01')`],
  ['move earnings to a balance', `SELECT move_earnings('${ID}', '${ID}', NULL, NULL, NULL, now())`],
  ['close days with any budget', `SELECT close_promotion_days(now(), ROW(0, 1, 5, 5, false)::payout_rules)`],
  ['release promotional earnings', `SELECT decide_promotion_review_by_operator(${HASH}, '${ID}', true, 'r', NULL)`],
  ['send a payout', `SELECT begin_payout('${ID}', NULL)`],
  [
    'book a payout as failed, so that it is paid again',
    `SELECT book_payout_report('${ID}', 'csv', 0, '{"state":"failed"}', NULL)`,
  ],
  ['approve a payout', `SELECT approve_payouts_by_operator(${HASH}, '${ID}', NULL)`],
  ['make a voucher', `SELECT make_voucher_by_operator(${HASH}, '${ID}', ${HASH}, 'h', 5, 'n', false, now(), NULL)`],
  ['grant credit', `SELECT request_grant_by_operator(${HASH}, '${ID}', '${ID}', 5, 'r', 'r', false, NULL)`],
  ['approve a grant', `SELECT decide_grant_by_operator(${HASH}, '${ID}', true, NULL)`],
  ['make a key of an operator', `INSERT INTO operator_key (key_id) VALUES ('${ID}')`],
  ['read the hashes of operator keys', 'SELECT key_hash FROM operator_key'],
  [
    'make an operator key by a function',
    `SELECT issue_operator_key_as(NULL, '${ID}', '${ID}', 'n', ${HASH}, 'h', '{money}', NULL, NULL)`,
  ],
  ['give a role by groups', `SELECT take_group_role('${ID}', 'https://idp.example', 'operator', NULL)`],
  [
    'let groups give roles',
    `INSERT INTO group_role_rule (issuer, role, provider, hours) VALUES ('x', 'operator', 'x', 1)`,
  ],
  ['let a role by groups never end', `UPDATE group_role SET ends_at = 'infinity'`],
  ['use an operator key', `SELECT use_operator_key(${HASH})`],
  ['refund a request', `SELECT refund_by_operator(${HASH}, '${ID}', '${ID}', 5, 'r', NULL)`],
]

/** The functions of the owner that the gateway role may call, and why none gives credit. */
const harmless: Readonly<Record<string, string>> = {
  add_audit_entry: 'appends to the log',
  add_content_days: 'creates partitions without rows',
  add_usage_partition: 'creates a partition without rows',
  admit_batch: 'holds credit that the customer has',
  drop_content_days: 'drops prompts and answers of days that end before one, which the role may delete anyway',
  fold_hoster_days: 'sums rows of settlements',
  forget_audit_addresses: 'takes addresses of more than 30 days ago out of the log',
  hand_back_leases: 'gives holds back',
  note_lease_use: 'notes how many requests a lease admitted',
  reclaim_leases: 'gives the holds of dead nodes back',
  release_leases: 'gives holds back',
  settle_batch: 'charges customers for requests, and gives hosters their share: see docs/operating.md',
}

describe('the gateway role', () => {
  test('cannot change a row of any money table', async () => {
    const { rows } = await gateway.query<{ name: string }>('SELECT unnest(money_tables()) AS name')
    expect(rows).toHaveLength(50)
    for (const { name } of rows) {
      await expect(gateway.query(`SELECT count(*) FROM ${name}`)).resolves.toBeDefined()
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
      `SELECT grant_gateway_rights('switchyard_gateway', 'switchyard_gateway')`,
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
    const { customerId } = (await addCustomer(desk, { email: 'a@example.com', accountTier: 'free' }))!
    await openAccount(database.pool, customerId, 5n)
    for (const statement of [
      `SELECT open_account('${customerId}', 5)`,
      `SELECT grant_credit('${customerId}', 5, 'ref', 'reason')`,
      `SELECT refund_request('${customerId}', '${LEASE}', 5, 'reason')`,
      `DELETE FROM gateway_role`,
    ])
      await expect(gateway.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test.each(attacks)('cannot %s', async (_, statement) => {
    await expect(gateway.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test('cannot write any table of the desk, nor read a secret of it', async () => {
    const { rows } = await gateway.query<{ name: string }>('SELECT unnest(desk_tables()) AS name')
    expect(rows).toHaveLength(27)
    for (const { name } of rows) {
      const column = await firstColumnOf(name)
      for (const statement of [
        `INSERT INTO ${name} DEFAULT VALUES`,
        `DELETE FROM ${name}`,
        `TRUNCATE ${name}`,
        `UPDATE ${name} SET ${column} = ${column}`,
      ])
        await expect(gateway.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
    }
    const secrets = await gateway.query<{ table: string; column: string }>(
      'SELECT table_name AS "table", column_name AS "column" FROM secret_columns()',
    )
    expect(secrets.rows).toHaveLength(12)
    for (const { table, column } of secrets.rows)
      await expect(gateway.query(`SELECT ${column} FROM ${table}`)).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test('can call only functions that are listed here, with the reason why each gives nothing', async () => {
    const { rows } = await gateway.query<{ name: string }>(
      `SELECT proname AS name FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef
        AND has_function_privilege(oid, 'EXECUTE') ORDER BY proname`,
    )
    expect(rows.map(({ name }) => name)).toEqual(Object.keys(harmless))
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

describe('the desk role', () => {
  const NO_SESSION = 'SY004'
  const NOT_CONFIRMED = '23503'
  const MINUTE_MS = 60_000

  /** Adds a person with a session, as the owner. Returns the session as SQL. */
  async function session({
    role = 'operator' as string | null,
    confirmedMsAgo = 0,
    seenMsAgo = 0,
    expiresInMs = MINUTE_MS,
    isDisabled = false,
    formerMsAgo = null as number | null,
  } = {}): Promise<{ hash: Buffer; personId: string }> {
    const [personId, hash] = [randomUUID(), randomBytes(32)]
    const at = (msFromNow: number) => new Date(Date.now() + msFromNow)
    await database.pool.query(
      `INSERT INTO person (person_id, email, installation_role, disabled_at, password_hash) VALUES ($1, $2, $3, $4, 'x')`,
      [personId, `${personId}@example.com`, role, isDisabled ? at(0) : null],
    )
    await database.pool.query(
      `INSERT INTO person_session (session_id, token_hash, previous_token_hash, token_changed_at, person_id, confirmed_at, last_seen_at, expires_at, user_agent, address, created_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '', '', now())`,
      [
        randomUUID(),
        ...(formerMsAgo === null ? [hash, null, null] : [randomBytes(32), hash, at(-formerMsAgo)]),
        personId,
        at(-confirmedMsAgo),
        at(-seenMsAgo),
        at(expiresInMs),
      ],
    )
    return { hash, personId }
  }

  async function account(): Promise<string> {
    const email = `${randomUUID()}@example.com`
    const { customerId } = (await addCustomer(database.pool, { email, accountTier: 'free' }))!
    await openAccount(database.pool, customerId, 0n)
    return customerId
  }

  const USD = 1_000_000_000n
  const grant = async (hash: Buffer, customerId: string, usd: bigint, grantId: string = randomUUID()) => {
    const { rows } = await desk.query<{ verdict: string }>(
      `SELECT request_grant_by_operator($1, $2, $3, $4, $2::uuid::text, 'test', false, '127.0.0.1') AS verdict`,
      [hash, grantId, customerId, usd * USD],
    )
    return rows[0]!.verdict
  }
  const balanceOf = async (customerId: string) => (await readBalance(database.pool, customerId))!.postedNanos

  beforeEach(() => database.pool.query('DELETE FROM person'))

  test('moves no money for an operator without the session of one, by any function', async () => {
    const { rows } = await database.pool.query<{ name: string; count: number }>(
      `SELECT proname AS name, pronargs::integer AS count FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proname = ANY (desk_functions()) AND proname LIKE '%\\_by\\_operator'`,
    )
    expect(rows).toHaveLength(21)
    for (const { name, count } of rows) {
      const call = `SELECT ${name}(${HASH}${', NULL'.repeat(count - 1)})`
      await expect(desk.query(call), call).rejects.toMatchObject({ code: NO_SESSION })
    }
  })

  test.each([
    ['of an auditor', { role: 'auditor' }],
    ['of a person without a role', { role: null }],
    ['of a disabled operator', { isDisabled: true }],
    ['that has expired', { expiresInMs: -1 }],
    ['that was not used for twelve hours', { seenMsAgo: 12 * 60 * MINUTE_MS }],
    ['by a former token, after half a minute', { formerMsAgo: 30_000 }],
  ])('does not count a session %s', async (_, options) => {
    const { hash } = await session(options)
    const customerId = await account()
    await expect(grant(hash, customerId, 1n)).rejects.toMatchObject({ code: NO_SESSION })
    expect(await balanceOf(customerId)).toBe(0n)
  })

  test('grants with a confirmed session, and the log names the operator', async () => {
    const { hash, personId } = await session()
    const customerId = await account()
    expect(await grant(hash, customerId, 1n)).toBe('granted')
    expect(await balanceOf(customerId)).toBe(USD)
    const { rows } = await database.pool.query(
      'SELECT action, person_id AS "personId" FROM audit_entry WHERE customer_id = $1',
      [customerId],
    )
    expect(rows).toEqual([{ action: 'credit.granted', personId }])
  })

  test.each([
    ['was confirmed ten minutes ago', { confirmedMsAgo: 10 * MINUTE_MS }],
    ['is named by its former token', { formerMsAgo: 1_000 }],
  ])('can only try what a session orders that %s', async (_, options) => {
    const { hash } = await session(options)
    const customerId = await account()
    await expect(grant(hash, customerId, 1n)).rejects.toMatchObject({ code: NOT_CONFIRMED })
    const sql = await desk.pg.connect()
    try {
      await sql.query('BEGIN')
      const { rows } = await sql.query(
        `SELECT request_grant_by_operator($1, $2, $3, 5, 'tried', 'test', false, NULL) AS verdict`,
        [hash, randomUUID(), customerId],
      )
      expect(rows[0].verdict).toBe('granted')
      await sql.query('ROLLBACK')
    } finally {
      sql.release(true)
    }
    expect(await balanceOf(customerId)).toBe(0n)
  })

  test('cannot give more than 100 USD with the session of one of two operators', async () => {
    const [first, second] = [await session(), await session()]
    const customerId = await account()
    const grantId = randomUUID()
    expect(await grant(first.hash, customerId, 101n, grantId)).toBe('waiting')
    const decide = async ({ hash }: { hash: Buffer }) =>
      (await desk.query('SELECT decide_grant_by_operator($1, $2, true, NULL) AS verdict', [hash, grantId])).rows
    expect(await decide(first)).toEqual([{ verdict: 'own_request' }])
    expect(await balanceOf(customerId)).toBe(0n)
    expect(await decide(second)).toEqual([{ verdict: 'granted' }])
  })

  test.each([
    ['make an operator', `UPDATE person SET installation_role = 'operator' WHERE installation_role IS NULL`],
    [
      'add an operator',
      `INSERT INTO person (person_id, email, installation_role) VALUES ('${ID}', 'x@example.com', 'operator')`,
    ],
    ['disable an operator', `UPDATE person SET disabled_at = now() WHERE installation_role = 'operator'`],
    ['take the rights of an operator', 'UPDATE person SET installation_role = NULL'],
    ['remove an operator', `DELETE FROM person WHERE installation_role = 'operator'`],
  ])('cannot %s', async (_, statement) => {
    await session()
    await session({ role: null })
    await expect(desk.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test.each([
    ['read the hashes of vouchers', 'SELECT code_hash FROM voucher'],
    ['write a voucher', `UPDATE voucher SET amount_nanos = 1`],
    ['write a payment', `UPDATE payment SET state = 'paid'`],
    ['grant without an operator', `SELECT grant_credit('${ID}', 5, 'r', 'r')`],
    [
      'use the functions behind those of operators',
      `SELECT request_grant(person_id, '${ID}', '${ID}', 5, 'r', 'r', false, NULL) FROM person`,
    ],
    ['run what the gateway role can replace', `SELECT graphile_worker.add_job('x')`],
    ['make a trial one that can be committed', 'DELETE FROM trial'],
  ])('cannot %s', async (_, statement) => {
    const { hash } = await session()
    await account()
    await grant(hash, await account(), 1n)
    await expect(desk.query(statement), statement).rejects.toMatchObject({ code: PERMISSION_DENIED })
  })

  test('gives no signup credit above what one operator grants alone', async () => {
    const { hash } = await session()
    for (const call of [
      `open_account_by_operator('\\x${hash.toString('hex')}', '${ID}', 100000000001, NULL)`,
      `open_account_by_sign_up('${ID}', ${HASH}, 'n', 'r', NULL, now(), 100000000001, 9, 9, 9)`,
    ])
      await expect(desk.query(`SELECT ${call}`), call).rejects.toMatchObject({ code: '23514' })
  })

  test('takes from a card what the credit is worth', async () => {
    const customerId = await account()
    const start = (minor: number) =>
      desk.query(
        `SELECT start_payment($1, $2, 'stripe', 1000000000, $3, 'usd', true, $1::uuid::text, $1::uuid::text, NULL, NULL, NULL)`,
        [randomUUID(), customerId, minor],
      )
    await expect(start(1)).rejects.toMatchObject({ code: '23514' })
    await expect(start(100)).resolves.toBeDefined()
  })
})

test('granting the rights again takes back what was granted since, and several starts may do it at once', async () => {
  await database.pool.query('GRANT UPDATE ON balance TO switchyard_gateway')
  expect(await mayRewriteLedger(gateway)).toBe(true)
  const starts = Array.from({ length: 4 }, () => grantGatewayRights(rolesOf(database)))
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

test('only the owner creates functions next to its own, and in a schema of another owner this is reported', async () => {
  const own = await createTestDatabase()
  const role = createPool(own.gatewayConnection, { max: 1, applicationName: 'gateway role' })
  const superuser = createPool(
    { ...inject('superuser'), database: own.connection.database },
    { max: 1, applicationName: 'superuser' },
  )
  const violations = async () => (await audit(own.pool)).filter(({ violations }) => violations > 0)
  const reported = {
    name: 'ledger_cannot_be_rewritten',
    violations: 2,
    examples: [
      'role switchyard_desk may create in the schema public',
      'role switchyard_gateway may create in the schema public',
    ],
  }
  try {
    // A call with a bigint would run it, and not the function of PostgreSQL, which takes numeric values.
    const attack = 'CREATE FUNCTION public.sign(bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT 1 $$'
    // The default before PostgreSQL 15, which an upgrade keeps.
    await own.pool.query('GRANT CREATE ON SCHEMA public TO PUBLIC, switchyard_gateway')
    expect(await mayReplaceFunctions(role)).toBe(true)
    expect(await violations()).toEqual([reported])
    await grantGatewayRights(rolesOf(own))
    await expect(role.query(attack)).rejects.toMatchObject({ code: PERMISSION_DENIED })
    expect(await mayReplaceFunctions(role)).toBe(false)
    expect(await violations()).toEqual([])

    await superuser.query('ALTER SCHEMA public OWNER TO postgres')
    await superuser.query('GRANT CREATE ON SCHEMA public TO PUBLIC')
    await grantGatewayRights(rolesOf(own))
    expect(await mayReplaceFunctions(role)).toBe(true)
    expect(await violations()).toEqual([reported])
  } finally {
    await Promise.all([role.end(), superuser.end()])
    await own.drop()
  }
})

test('the job queue is installed by a role that may not create schemas', async () => {
  const own = await createTestDatabase()
  const role = createPool(own.gatewayConnection, { max: 2, applicationName: 'job queue' })
  try {
    await own.pool.query('DROP SCHEMA graphile_worker CASCADE')
    await own.pool.query(`GRANT CREATE ON DATABASE ${own.connection.database} TO switchyard_gateway`)
    await grantGatewayRights(rolesOf(own))
    await expect(role.query('CREATE SCHEMA mine')).rejects.toMatchObject({ code: PERMISSION_DENIED })
    await runMigrations({ pgPool: role.pg })
    expect((await role.query("SELECT FROM graphile_worker.add_job('test')")).rowCount).toBe(1)
    // A later start changes nothing.
    await grantGatewayRights(rolesOf(own))
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
    const { connection } = own
    await grantGatewayRights({ owner: connection, connection, desk: connection })
    await grantGatewayRights({ owner: connection, connection: { ...connection }, desk: { ...connection } })
    const { customerId } = (await addCustomer(own.pool, { email: 'a@example.com', accountTier: 'free' }))!
    await openAccount(own.pool, customerId, 5n)
    expect((await audit(own.pool)).filter(({ violations }) => violations > 0)).toEqual([])
  } finally {
    await own.drop()
  }
})

const rolesOf = ({
  connection,
  gatewayConnection,
  deskConnection,
}: TestDatabase): Parameters<typeof grantGatewayRights>[0] => ({
  owner: connection,
  connection: gatewayConnection,
  desk: deskConnection,
})

async function firstColumnOf(table: string): Promise<string> {
  const { rows } = await database.pool.query<{ column: string }>(
    'SELECT attname AS column FROM pg_attribute WHERE attrelid = $1::regclass AND attnum = 1',
    [table],
  )
  return rows[0]!.column
}
