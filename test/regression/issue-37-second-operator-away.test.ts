import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { useTestDatabase } from '../harness/use-test-app.ts'

// An operator who signs in with a passkey or a service, and had not done so for 90 days, did not count as the second one: the other
// operator gave any sum alone.

const database = useTestDatabase()
const [asking, other] = [randomUUID(), randomUUID()]

beforeEach(async () => {
  await database.pool.query('DELETE FROM person')
  await database.pool.query(
    "INSERT INTO person (person_id, email, installation_role) SELECT p, p || '@example.com', 'operator' FROM unnest($1::uuid[]) p",
    [[asking, other]],
  )
})

const needsSecond = async () =>
  (await database.pool.query<{ is: boolean }>('SELECT has_other_operator($1) AS is', [asking])).rows[0]!.is

test.each([
  ['a password', "UPDATE person SET password_hash = 'x' WHERE person_id = $1"],
  [
    'a passkey',
    "INSERT INTO person_passkey SELECT gen_random_uuid(), $1, 'credential', '', 0, '{}', 'key', now(), now() - interval '91 days'",
  ],
  [
    'the account of a service',
    `INSERT INTO person_identity (issuer, subject, person_id, provider, created_at, last_used_at)
     VALUES ('https://work.example', 'other', $1, 'work', now(), now() - interval '91 days')`,
  ],
])('an operator with %s is a second one, however long ago the last sign-in was', async (_, way) => {
  expect(await needsSecond()).toBe(false)
  await database.pool.query(way, [other])
  expect(await needsSecond()).toBe(true)
})

test('an operator who signed in once, and has no way in any more, is no second one', async () => {
  await database.pool.query("INSERT INTO person_network VALUES ($1, '192.0.2.0/24', now())", [other])
  expect(await needsSecond()).toBe(false)
})
