import type { Sql } from '../../../base/db/pool.ts'
import type { StoredWindows } from '../ledger-store.ts'

/**
 * Reads the windows of customers without a lock, as `nodeId` knows them, by customer id. Without those that have no
 * account.
 */
export async function readWindows(
  db: Sql,
  nodeId: string,
  customerIds: readonly string[],
): Promise<ReadonlyMap<string, StoredWindows>> {
  const { rows } = await db.query<StoredWindows & { readonly customerId: string }>(READ_WINDOWS, [nodeId, customerIds])
  return new Map(rows.map(({ customerId, ...windows }) => [customerId, windows]))
}

// Counters of a past window read as zero here; the next admission resets the stored ones. `reserved` is
// what admit_batch calls unused. One statement reads everything, so that it is from the same snapshot.
const READ_WINDOWS = {
  name: 'read_windows',
  text: `
SELECT b.customer_id AS "customerId", c.minute AS "minuteCounted", c.day AS "dayCounted",
  c.minute - r.minute AS "minuteUsed", c.day - r.day AS "dayUsed", r.own AS "ownLeases",
  epoch_ms(greatest(b.minute, t.minute) + interval '1 minute') AS "minuteEndsAtEpochMs",
  epoch_ms((greatest(b.day, t.today) + 1)::timestamp AT TIME ZONE 'UTC') AS "dayEndsAtEpochMs"
FROM (SELECT * FROM balance WHERE customer_id = ANY ($2)) b
CROSS JOIN (SELECT date_trunc('minute', now(), 'UTC') AS minute, (now() AT TIME ZONE 'UTC')::date AS today) t
CROSS JOIN LATERAL (
  SELECT CASE WHEN b.minute >= t.minute THEN b.minute_requests ELSE 0 END AS minute, CASE WHEN b.day >= t.today THEN b.day_requests ELSE 0 END AS day
) c
CROSS JOIN LATERAL (
  SELECT coalesce(sum(l.reserved) FILTER (WHERE l.slot_minute = b.minute AND b.minute >= t.minute), 0)::integer AS minute,
    coalesce(sum(l.reserved) FILTER (WHERE l.cap_day = b.day AND b.day >= t.today), 0)::integer AS day,
    coalesce(array_agg(l.lease_id) FILTER (WHERE l.node_id = $1), '{}') AS own
  FROM (
    SELECT o.*, CASE WHEN o.node_id = $1 THEN o.slots ELSE o.slots - o.slots_used END AS reserved
    FROM lease o WHERE o.customer_id = b.customer_id AND o.slots IS NOT NULL
  ) l
) r`,
}
