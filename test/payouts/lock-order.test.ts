import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { decidePromotionReview } from '../../src/money/payouts/payout-batches.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase()

test('two reviews that cancel payouts of the same two batches do not deadlock', async () => {
  const { pool } = database
  const [first, second] = [batch(1), batch(2)]
  const [a, b] = [randomUUID(), randomUUID()]
  for (const id of [first, second])
    await pool.query("INSERT INTO payout_batch (batch_id, driver, is_live) VALUES ($1, 'csv', true)", [id])
  for (const hosterId of [a, b]) {
    await pool.query(
      "INSERT INTO hoster (hoster_id, name, state, share_bps) VALUES ($1::uuid, $1::uuid::text, 'active', 8000)",
      [hosterId],
    )
    await pool.query(
      "INSERT INTO promotion_review (review_id, hoster_id, share_nanos, evidence) VALUES ($1::uuid, $1::uuid, 0, '[]')",
      [hosterId],
    )
  }
  // By the ids of the payouts, the second hoster has the batches in the other order.
  for (const [payoutId, batchId, hosterId] of [
    [payout(1), first, a],
    [payout(2), second, a],
    [payout(3), second, b],
    [payout(4), first, b],
  ])
    await pool.query(
      `INSERT INTO payout (payout_id, batch_id, hoster_id, driver, is_live, destination, amount_nanos, reference)
       VALUES ($1::uuid, $2, $3, 'csv', true, 'bank', 10000000, $1::uuid::text)`,
      [payoutId, batchId, hosterId],
    )
  // Each review waits at one of its payouts. Without the order of the batches, it has locked the batch of the other payout by then.
  await pool.query(`
    CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(${GATE});
      RETURN NEW;
    END $$;
    CREATE TRIGGER wait_at_gate BEFORE UPDATE OF state ON payout FOR EACH ROW
      WHEN (NEW.payout_id IN ('${payout(2)}', '${payout(4)}')) EXECUTE FUNCTION wait_at_gate()`)
  const decided = await transaction(pool, async gate => {
    await gate.query('SELECT pg_advisory_xact_lock($1)', [GATE])
    const outcomes = Promise.allSettled(
      [a, b].map(reviewId => decidePromotionReview(pool, null, { reviewId, isReleased: false, reason: 'a test' })),
    )
    const waiting = "SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"
    await expect.poll(async () => (await pool.query(waiting, [GATE])).rows).toEqual([{ n: 2 }])
    return { outcomes }
  })
  expect(await decided.outcomes).toEqual([
    { status: 'fulfilled', value: true },
    { status: 'fulfilled', value: true },
  ])
  const { rows } = await pool.query('SELECT DISTINCT state FROM payout UNION SELECT state FROM payout_batch')
  expect(rows).toEqual([{ state: 'cancelled' }])
})

/** Any number that no other lock of this database uses. */
const GATE = 37
const batch = (n: number) => `00000000-0000-7000-8000-00000000000${n}`
const payout = (n: number) => `00000000-0000-4000-8000-00000000000${n}`
