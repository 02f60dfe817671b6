import { expect, test } from 'vitest'
import { type AuditEntry, noteAction } from '../../src/base/db/audit-log.ts'
import { transaction } from '../../src/base/db/pool.ts'
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
  ['a time moved', "UPDATE audit_entry SET at = at - interval '1 second' WHERE entry_id = 3", ['3']],
])('%s breaks the chain', async (_, statement, expected) => {
  for (const subject of ['a', 'b', 'c']) await note(subject)
  expect(await breaks()).toEqual([])
  await database.pool.query(statement)
  expect(await breaks()).toEqual(expected)
})
