// Redeeming a voucher counted its try in the order of the names, and took it back in the order of the plan: 4 of 12 redemptions at once from one
// network deadlocked and got 503. Sign-ins had the same fault. See lockRows in sign-in-throttle.ts.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { type Sql, transaction } from '../../src/base/db/pool.ts'
import {
  deleteOldThrottles,
  noteRedeemed,
  noteSuccess,
  takeAttempt,
  takeRedemption,
} from '../../src/identity/people/sign-in-throttle.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useLedgerWorld } from '../ledger/ledger-world.ts'

const world = useLedgerWorld('test')
const NETWORK = '192.0.2.0/24'
const OLD = "now() - interval '2 days'"

/** Adds counts. The table has them in the order of the list, which is not the order of their names. */
async function addCounts(subjects: readonly string[], lastFailureAt = 'now()') {
  for (const subject of subjects) {
    await world.pool.query(
      `INSERT INTO sign_in_throttle (subject, failures, next_attempt_at, last_failure_at) VALUES ($1, 3, now(), ${lastFailureAt})`,
      [subject],
    )
  }
}

/** Starts the work while another session has locked the first count. Returns which of the others are free while it waits. */
async function freeWhileWaiting([first, ...others]: readonly string[], work: (sql: Sql) => Promise<unknown>) {
  const other = await world.pool.pg.connect()
  await other.query('BEGIN')
  await other.query('SELECT FROM sign_in_throttle WHERE subject = $1 FOR UPDATE', [first])
  const working = transaction(world.pool, work)
  await expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(1)
  const { rows } = await world.pool.query<{ subject: string }>(
    'SELECT subject FROM sign_in_throttle WHERE subject = ANY ($1) ORDER BY subject FOR UPDATE SKIP LOCKED',
    [others],
  )
  await other.query('COMMIT')
  other.release()
  await working
  return rows.map(({ subject }) => subject)
}

test('what counts a redemption and what takes the count back lock in the order of the names', async () => {
  const attempt = { personId: randomUUID(), network: NETWORK }
  const [first, last] = [`voucher from ${NETWORK}`, `voucher of ${attempt.personId}`]
  await addCounts([last, first])
  expect(await freeWhileWaiting([first, last], sql => noteRedeemed(sql, attempt))).toEqual([last])
  expect(await freeWhileWaiting([first, last], sql => takeRedemption(sql, attempt, Date.now()))).toEqual([last])
})

test('a sign-in that succeeds locks its counts in the order of their names', async () => {
  const attempt = { email: 'a@example.com', network: NETWORK, isKnownNetwork: false }
  await transaction(world.pool, sql => takeAttempt(sql, attempt, Date.now()))
  const { rows } = await world.pool.query<{ subject: string }>('DELETE FROM sign_in_throttle RETURNING subject')
  const subjects = rows.map(({ subject }) => subject).sort()
  await addCounts(subjects.toReversed())
  expect(await freeWhileWaiting(subjects, sql => noteSuccess(sql, attempt, true))).toEqual(subjects.slice(1))
})

test('deleting old counts waits for none', async () => {
  await addCounts(['b', 'a'], OLD)
  const other = await world.pool.pg.connect()
  await other.query('BEGIN')
  await other.query("SELECT FROM sign_in_throttle WHERE subject = 'a' FOR UPDATE")
  await deleteOldThrottles(world.pool, Date.now())
  await other.query('COMMIT')
  other.release()
  const { rows } = await world.pool.query('SELECT subject FROM sign_in_throttle')
  expect(rows).toEqual([{ subject: 'a' }])
})
