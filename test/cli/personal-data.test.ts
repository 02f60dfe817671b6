import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { makeInviteLink } from '../../src/identity/people/links.ts'
import { placesOfCustomer, placesOfPerson } from '../../src/operator/personal-data.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { operatorToken, signedInMember } from '../harness/browser-client.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'
import { useCli } from './use-cli.ts'

const database = useTestDatabase()
const upstream = useUpstream()
const cli = useCli(database)
let app: TestApp
let customer: TestCustomer
beforeAll(async () => {
  app = await startTestApp({ database, offers: [testOffer(upstream.baseUrl)] })
  customer = await app.customer()
})
afterAll(() => app?.close())

/** Columns that name or describe somebody, and are in no export, with the reason. */
const left: Readonly<Record<string, string>> = {
  'compared_answer.customer_id': 'would tell a hoster among the customers when it is audited',
  'customer_change.customer_id': 'versions for open pages, without data',
  'hoster_account.holder': 'of a hoster',
  'hoster_customer_evidence.customer_id': 'as compared_answer',
  'hoster_payer.customer_id': 'would tell a hoster which of its customers count as its own',
  'lease.customer_id': 'what running requests hold, for seconds',
  'lease.member_id': 'what running requests hold, for seconds',
  'payout.holder': 'of a hoster',
  'payout_change.holder': 'of a hoster',
  'person.invited_by': 'exported by the person who was invited',
  'person_network.network': 'exported by its person',
  'person_session.address': 'exported by its person',
  'audit_entry.address': 'exported by its person and, if a member, by the customer',
  'signup_credit.mailbox_hash': 'a keyed hash, which names nobody',
  'signup_credit.network': 'a network without a person',
  'usage_closing.member_id': 'exported by its customer',
  'usage_event.member_id': 'exported by its customer',
  'usage_frozen.customer_id': 'a month that is being archived: the same rows as usage_event',
  'usage_frozen.member_id': 'as usage_event',
}

test('each column with an id, an address or a network of somebody is exported, or has the reason why not', async () => {
  const { rows } = await database.pool.query<{ name: string }>(
    `SELECT c.relname || '.' || a.attname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND attnum > 0
        AND NOT attisdropped AND (attname ~ '(person|customer|member|account)_id$' OR attname ~ '_by$' OR attname ~ 'e?mail' OR attname
          IN ('mailed_to', 'address', 'network', 'holder', 'mailbox_hash')) AND attname <> 'paused_by_operator' AND attname <> 'is_mailed'
        AND format_type(atttypid, NULL) <> 'timestamp with time zone'`,
  )
  const exported = [...placesOfPerson, ...placesOfCustomer].flatMap(({ table, ids, emails = [] }) =>
    [...ids, ...emails].map(column => `${table}.${column}`),
  )
  expect([...new Set([...exported, ...Object.keys(left)])].sort()).toEqual(rows.map(({ name }) => name).sort())
})

test('every place can be read, and its secrets are columns', async () => {
  for (const { table, secrets = [] } of [...placesOfPerson, ...placesOfCustomer]) {
    const { rows } = await database.pool.query<{ name: string }>(
      'SELECT attname AS name FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0',
      [table],
    )
    expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining([...secrets]))
  }
})

test('an export has what is kept, and no secret', async () => {
  const { email } = await signedInMember(app, customer.customerId)
  const messages = [{ role: 'user', content: 'Hello' }]
  await (await app.chat(customer, { model: 'test-model', messages, max_tokens: 10 })).text()
  await app.settled(customer, 1)
  const read = async (args: string[], name: string) => {
    const file = join(cli.directory, name)
    const { code, stderr } = await cli.run([...args, file])
    expect(code, stderr).toBe(0)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const text = readFileSync(file, 'utf8')
    expect(text).not.toMatch(/"(password_hash|token_hash|key_hash|totp_secret|code_hash)"/)
    return JSON.parse(text).tables
  }
  const person = await read(['person', 'export', email], 'person.json')
  expect(person.person).toMatchObject([{ email, name: 'Ada' }])
  expect(person.person_session).toMatchObject([{ user_agent: 'Test browser' }])
  expect(person.membership).toHaveLength(1)
  const all = await read(['customer', 'export', customer.customerId], 'customer.json')
  expect(all.usage_event).toMatchObject([{ model_id: 'test-model', customer_id: customer.customerId }])
  expect(all.ledger_entry.length).toBeGreaterThan(0)
  expect(all.api_key).toHaveLength(1)
  const { rows } = await database.pool.query("SELECT action FROM audit_entry WHERE action LIKE '%.exported' ORDER BY 1")
  expect(rows).toEqual([{ action: 'customer.exported' }, { action: 'person.exported' }])
  const again = await cli.run(['person', 'export', email, join(cli.directory, 'person.json')])
  expect(again.stderr).toMatch(/exists already/)
})

test('an export has no address of operators, and nothing that audits know of hosters', async () => {
  const { email } = await signedInMember(app, customer.customerId)
  const { personId: operatorId } = await operatorToken(app, 'operator@example.com')
  const { rows } = await database.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [
    email,
  ])
  const memberId = rows[0]!.id
  await database.pool.query(
    `SELECT add_audit_entry(id, 'customer.viewed', 'x', $1, '{}', address)
       FROM (VALUES ($2::uuid, '10.1.1.1'), ($3, '10.2.2.2')) AS looks (id, address)`,
    [customer.customerId, memberId, operatorId],
  )
  const { customerId } = customer
  const invitation = { customerId, email: 'invited@example.com', role: 'viewer', madeBy: memberId } as const
  await transaction(database.pool, sql => makeInviteLink(sql, invitation, Date.now()))
  const read = async (kind: string, name: string) => {
    const file = join(cli.directory, `${kind}-others.json`)
    const { code, stderr } = await cli.run([kind, 'export', name, file])
    expect(code, stderr).toBe(0)
    return readFileSync(file, 'utf8')
  }
  const ofCustomer = await read('customer', customer.customerId)
  expect(ofCustomer).toContain('10.1.1.1')
  expect(ofCustomer).not.toMatch(/10\.2\.2\.2|compared_answer|hoster_customer_evidence|hoster_payer/)
  expect(ofCustomer).not.toContain(operatorId)
  const ofPerson = await read('person', email)
  expect(JSON.parse(ofPerson).tables.person_token).toMatchObject([{ purpose: 'invite', made_by: memberId }])
  expect(ofPerson).not.toContain('invited@example.com')
})

test('a person is erased, unless something would have no owner', async () => {
  const { email } = await signedInMember(app, customer.customerId, 'viewer')
  const { rows } = await database.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [
    email,
  ])
  const { id } = rows[0]!
  const { customerId } = await app.customer()
  const { email: owner } = await signedInMember(app, customerId, 'owner')
  expect((await cli.run(['person', 'delete', owner, '--yes'])).stderr).toMatch(/is the only owner of/)
  const invitation = { customerId, email: email.toUpperCase(), role: 'owner' } as const
  await transaction(database.pool, sql => makeInviteLink(sql, invitation, Date.now()))
  const deleted = await cli.run(['person', 'delete', email, '--yes', '--json'])
  expect(deleted.code, deleted.stderr).toBe(0)
  for (const { table, ids, where } of placesOfPerson.filter(({ table }) => table !== 'audit_entry')) {
    const found = await database.pool.query(
      `SELECT FROM ${table} WHERE ${where ?? ids.map(column => `${column} = $1`).join(' OR ')}`,
      [id],
    )
    expect({ table, rows: found.rowCount }).toEqual({ table, rows: 0 })
  }
  // It would bring the person back.
  expect((await database.pool.query('SELECT FROM person_token WHERE lower(email) = $1', [email])).rowCount).toBe(0)
  expect((await cli.run(['person', 'export', email, join(cli.directory, 'none.json')])).code).toBe(1)
})
