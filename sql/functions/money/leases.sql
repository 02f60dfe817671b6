-- Folds bulk leases and takes back what their node does not need. Folding moves the charges of a lease to the balance. `keep` is
-- the money that running requests still need; NULL closes the lease. Slots beyond `slots_used` are free again. A second call with
-- the same arguments changes nothing. Returns the leases that another session has locked, for which nothing was done. With
-- `p_skip_locked` these are also the leases of customers with a locked balance. Otherwise the call waits for the balances. It
-- never waits for leases, since a settlement may hold them for long, and admissions wait for the balances. Locks the balances in
-- the order of customer_id, then the leases that are free.
CREATE OR REPLACE FUNCTION hand_back_leases(p_leases uuid[], p_keeps bigint[], p_slots_used integer[], p_skip_locked boolean) RETURNS SETOF uuid
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  v_customers uuid[];
  v_leases uuid[];
BEGIN
  SELECT array_agg(DISTINCT customer_id) INTO v_customers FROM lease WHERE lease_id = ANY (p_leases) AND slots IS NOT NULL;
  IF p_skip_locked THEN
    v_customers := try_lock_balances(v_customers);
  ELSE
    PERFORM lock_balances(v_customers);
  END IF;
  -- Settlements lock the lease only.
  WITH locked AS (
    SELECT lease_id FROM lease WHERE lease_id = ANY (p_leases) AND customer_id = ANY (v_customers) AND slots IS NOT NULL FOR UPDATE SKIP LOCKED
  )
  SELECT coalesce(array_agg(lease_id), '{}') INTO v_leases FROM locked;
  WITH folding AS (
    SELECT l.lease_id, l.customer_id, l.cap_day, l.slot_minute, i.keep, l.settled_nanos AS settled,
      greatest(l.granted_nanos - l.settled_nanos - coalesce(i.keep, 0), 0) AS given, greatest(l.slots - i.slots_used, 0) AS unused
    FROM (SELECT * FROM lease WHERE lease_id = ANY (v_leases)) l
    -- A lease that is in the batch twice, first to shrink and then to close, is folded once.
    JOIN (
      SELECT lease, CASE WHEN bool_and(keep IS NOT NULL) THEN min(keep) END AS keep, max(slots_used) AS slots_used
      FROM unnest(p_leases, p_keeps, p_slots_used) AS i(lease, keep, slots_used) GROUP BY lease
    ) i ON i.lease = l.lease_id
  ), closed AS (
    DELETE FROM lease l USING folding f WHERE l.lease_id = f.lease_id AND l.lease_id = ANY (v_leases) AND f.keep IS NULL
  ), kept AS (
    UPDATE lease l SET granted_nanos = l.granted_nanos - f.settled - f.given, settled_nanos = 0,
      slots = l.slots - f.unused, slots_used = l.slots - f.unused, recalled = false
    FROM folding f WHERE l.lease_id = f.lease_id AND l.lease_id = ANY (v_leases) AND f.keep IS NOT NULL
  ), other_days AS (
    INSERT INTO day_spend AS d (customer_id, day, spent_nanos, cap_nanos)
    SELECT f.customer_id, f.cap_day, sum(f.settled), o.day_cap_nanos
    FROM folding f JOIN balance o USING (customer_id)
    WHERE o.customer_id = ANY (v_customers) AND f.cap_day <> o.day AND f.settled > 0 GROUP BY f.customer_id, f.cap_day, o.day_cap_nanos
    ON CONFLICT (customer_id, day) DO UPDATE SET spent_nanos = d.spent_nanos + excluded.spent_nanos
  )
  UPDATE balance b SET posted_nanos = b.posted_nanos - s.settled, leased_nanos = b.leased_nanos - s.ended,
    day_spent_nanos = b.day_spent_nanos + s.day_settled, day_leased_nanos = b.day_leased_nanos - s.day_ended,
    minute_requests = b.minute_requests - s.minute_unused, day_requests = b.day_requests - s.day_unused
  FROM (
    SELECT f.customer_id, sum(f.settled)::bigint AS settled, sum(f.settled + f.given)::bigint AS ended,
      coalesce(sum(f.settled) FILTER (WHERE f.cap_day = o.day), 0)::bigint AS day_settled,
      coalesce(sum(f.settled + f.given) FILTER (WHERE f.cap_day = o.day), 0)::bigint AS day_ended,
      coalesce(sum(f.unused) FILTER (WHERE f.slot_minute = o.minute), 0)::integer AS minute_unused,
      coalesce(sum(f.unused) FILTER (WHERE f.cap_day = o.day), 0)::integer AS day_unused
    FROM folding f JOIN balance o USING (customer_id) WHERE o.customer_id = ANY (v_customers) GROUP BY f.customer_id
  ) s WHERE b.customer_id = s.customer_id AND b.customer_id = ANY (v_customers);
  RETURN QUERY SELECT l.lease_id FROM lease l WHERE l.lease_id = ANY (p_leases) AND l.slots IS NOT NULL AND l.lease_id <> ALL (v_leases);
END $$;

-- Notes how much of bulk leases is used, for the reports of other nodes. `p_owed`: the money of each lease that running requests
-- hold, or that is charged and not settled yet. Returns the leases that another session has locked, for which nothing was done.
-- Locks the leases that are free.
CREATE OR REPLACE FUNCTION note_lease_use(p_leases uuid[], p_slots_used integer[], p_owed bigint[]) RETURNS SETOF uuid
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_free uuid[];
BEGIN
  WITH free AS (
    SELECT lease_id FROM lease WHERE lease_id = ANY (p_leases) AND slots IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED
  )
  SELECT coalesce(array_agg(lease_id), '{}') INTO v_free FROM free;
  UPDATE lease l SET slots_used = greatest(l.slots_used, least(i.slots_used, l.slots)), owed_nanos = i.owed
    FROM unnest(p_leases, p_slots_used, p_owed) AS i(lease, slots_used, owed) WHERE l.lease_id = i.lease AND l.lease_id = ANY (v_free);
  RETURN QUERY SELECT o.lease_id FROM lease o WHERE o.lease_id = ANY (p_leases) AND o.slots IS NOT NULL AND o.lease_id <> ALL (v_free);
END $$;

-- Ends leases of requests that never ran: releases their money and writes no usage row. Returns the leases that existed. Locks
-- the balances that are free and does not wait for others: `is_locked` marks the leases of customers with a balance that another
-- session has locked, for which nothing was done.
CREATE OR REPLACE FUNCTION release_leases(p_leases uuid[]) RETURNS TABLE (lease uuid, is_locked boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  v_customers uuid[];
  v_ended lease[];
BEGIN
  SELECT array_agg(DISTINCT l.customer_id) INTO v_customers FROM lease l WHERE l.lease_id = ANY (p_leases);
  v_customers := try_lock_balances(v_customers);
  WITH ended AS (
    DELETE FROM lease l WHERE l.lease_id = ANY (p_leases) AND l.customer_id = ANY (v_customers) RETURNING l
  )
  SELECT coalesce(array_agg(l), '{}') INTO v_ended FROM ended;
  PERFORM move_balances(ARRAY(SELECT (customer_id, cap_day, 0, granted_nanos)::balance_move FROM unnest(v_ended)));
  PERFORM charge_spend_limits(v_ended, '{}');
  RETURN QUERY
    SELECT e.lease_id, false FROM unnest(v_ended) e
    UNION ALL
    SELECT l.lease_id, true FROM lease l WHERE l.lease_id = ANY (p_leases);
END $$;
