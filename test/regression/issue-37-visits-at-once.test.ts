import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import type { SignedIn } from '../../src/identity/people/sessions.ts'
import { createVisits } from '../../src/operator/visits.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// Of two requests of one page, the second was served before the look of the first was written, even if that failed.

const database = useTestDatabase()

test('a look that cannot be written refuses each request that waits for it, and is tried again', async () => {
  const visits = createVisits({ sql: database.pool, clock: systemClock })
  const signedIn = { sessionId: randomUUID(), person: { personId: randomUUID() }, key: null } as unknown as SignedIn
  const hosterId = randomUUID()
  const note = () => visits.note(signedIn, { action: 'hoster.viewed', subject: hosterId }, '192.0.2.1')
  const rename = (from: string, to: string) => database.pool.query(`ALTER FUNCTION ${from} RENAME TO ${to}`)
  await rename('add_audit_entry', 'missing_audit_entry')
  const atOnce = await Promise.allSettled([note(), note()])
  expect(atOnce.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await rename('missing_audit_entry', 'add_audit_entry')
  await Promise.all([note(), note()])
  await note()
  const { rows } = await database.pool.query('SELECT count(*)::int AS count FROM audit_entry WHERE subject = $1', [
    hosterId,
  ])
  expect(rows).toEqual([{ count: 1 }])
})
