import { expect, test } from 'vitest'
import { type AuditEntry, forgetAddresses, noteAction } from '../../src/base/db/audit-log.ts'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase('test')
const entry = (subject: string): AuditEntry => ({
  action: 'member.invited',
  personId: null,
  subject,
  detail: { role: 'owner', list: [1, 'ä'] },
  address: '203.0.113.9',
})
const note = (subject: string) => transaction(database.pool, sql => noteAction(sql, entry(subject)))
const breaks = async () =>
  (await database.pool.query<{ id: string }>('SELECT entry_id::text AS id FROM audit_log_break ORDER BY 1')).rows.map(
    ({ id }) => id,
  )

test('entries of concurrent transactions form one chain', async () => {
  await Promise.all(Array.from({ length: 20 }, (_, n) => note(`person ${n}`)))
  expect(await breaks()).toEqual([])
  const { rows } = await database.pool.query(
    'SELECT count(*)::int AS count, max(entry_id)::int AS last FROM audit_entry',
  )
  expect(rows).toEqual([{ count: 20, last: 20 }])
})

test.each([
  ['an entry changed', "UPDATE audit_entry SET detail = '{}' WHERE entry_id = 2", ['2']],
  ['an actor changed', 'UPDATE audit_entry SET person_id = gen_random_uuid() WHERE entry_id = 1', ['1']],
  ['an entry removed', 'DELETE FROM audit_entry WHERE entry_id = 2', ['3']],
  ['the first entry removed', 'DELETE FROM audit_entry WHERE entry_id = 1', ['2']],
  ['an address changed', "UPDATE audit_entry SET address = '203.0.113.10' WHERE entry_id = 2", ['2']],
  ['the salt of an address removed', 'UPDATE audit_entry SET address_salt = NULL WHERE entry_id = 2', ['2']],
  ['the proof of an address removed', 'UPDATE audit_entry SET address_proof = NULL WHERE entry_id = 2', ['2']],
  ['a time moved', "UPDATE audit_entry SET at = at - interval '1 second' WHERE entry_id = 3", ['3']],
])('%s breaks the chain', async (_, statement, expected) => {
  for (const subject of ['a', 'b', 'c']) await note(subject)
  expect(await breaks()).toEqual([])
  await database.pool.query(statement)
  expect(await breaks()).toEqual(expected)
})

test('old addresses leave without a break, and no role takes out those of the last 30 days', async () => {
  const { pool } = database
  await note('old')
  // As if it had been written then.
  await pool.query("UPDATE audit_entry SET at = at - interval '40 days'")
  await pool.query("UPDATE audit_entry e SET hash = audit_entry_hash(''::bytea, e)")
  await note('new')
  const gateway = createPool(database.gatewayConnection, { max: 1, applicationName: 'test' })
  try {
    expect(await forgetAddresses(gateway, new Date(Date.now() - 50 * 86_400_000))).toBe(0)
    expect(await forgetAddresses(gateway, new Date())).toBe(1)
    await expect(gateway.query('UPDATE audit_entry SET address = NULL')).rejects.toThrow('permission denied')
  } finally {
    await gateway.end()
  }
  const { rows } = await pool.query('SELECT subject, address FROM audit_entry ORDER BY entry_id')
  expect(rows).toEqual([
    { subject: 'old', address: null },
    { subject: 'new', address: '203.0.113.9' },
  ])
  expect(await breaks()).toEqual([])
  // Nobody puts another one in its place.
  await pool.query("UPDATE audit_entry SET address = '203.0.113.10' WHERE entry_id = 1")
  expect(await breaks()).toContain('1')
})
