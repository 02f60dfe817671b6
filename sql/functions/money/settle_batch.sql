-- Ends a batch of requests: writes their usage rows, charges them, releases what their leases held, and adds them to the sums of
-- their hours, days and keys. Each request is a settlement_asked as text, with a record separator (U+001E) before the next one.
-- PostgreSQL reads that in a third of the time that JSON takes.
--
-- A request that has a usage row was settled before and changes nothing, so a batch may be sent again after an unclear commit.
-- The exceptions are rows that only presume the end: the settlement replaces `node_died` of the reaper, and also `superseded`,
-- but then it charges nothing. A request that names another lease than its own id was admitted from that bulk lease. The lease is
-- charged, and the balance row is not touched.
--
-- Returns the requests that were not settled as asked:
-- 'duplicate'    settled before
-- 'clamped'      the cost exceeds the strict lease; the rest is written off
-- 'late'         the lease was gone; charged to the free balance
-- 'written_off'  the lease was gone, and the free balance, the cap of its day or a spend limit of the key or the member has
--                no room; or the request was superseded
-- 'no_account'   the customer has no account; nothing was done
-- 'archived'     the lease was gone, and the usage rows of the month are archived; nothing was done, because the request
--                may have been settled before
-- 'fenced'       the bulk lease is gone or too small, or the request was superseded; nothing is charged. Sent again
--                with its own id as lease, it is settled late or written off
-- 'locked'       only with `p_skip_locked`: another session has locked the balance or the bulk lease; nothing was done
--
-- Locks the balances of strict leases in the order of customer_id, then the bulk leases in the order of lease_id. With
-- `p_skip_locked` it locks only those that are free; otherwise the call waits.
CREATE OR REPLACE FUNCTION settle_batch(p_node_shard smallint, p_settlements text, p_skip_locked boolean)
RETURNS TABLE (odd_request uuid, effect text)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  v_asked settlement_asked[] := ARRAY(SELECT record::settlement_asked FROM string_to_table(p_settlements, E'\x1e') AS record);
  v_locked uuid[] := '{}';
  v_ended lease[];
  v_bulk lease[];
  v_fenced uuid[];
  v_unleased unleased_settlement[] := '{}';
  v_skipped uuid[];
  v_settled settled_request[];
  v_sums settled_sum[];
  v_tx bigint;
BEGIN
  IF p_skip_locked THEN
    v_locked := try_lock_requests(v_asked);
    v_asked := ARRAY(SELECT i FROM unnest(v_asked) i WHERE i.request <> ALL (v_locked));
  END IF;
  v_ended := end_strict_leases(v_asked);
  v_bulk := lock_bulk_leases(v_asked);
  v_fenced := fenced_requests(v_asked, v_bulk);
  IF cardinality(v_ended) < (SELECT count(DISTINCT i.request) FROM unnest(v_asked) i WHERE i.lease = i.request) THEN
    v_unleased := ARRAY(SELECT u FROM settle_unleased(v_asked, v_ended, p_node_shard) u);
  END IF;
  v_skipped := v_fenced || ARRAY(SELECT u.request FROM unnest(v_unleased) u WHERE u.effect IN ('duplicate', 'no_account', 'archived'));

  v_tx := nextval('ledger_tx_tx_id_seq');
  v_settled := insert_usage_rows(v_tx, v_asked, v_ended, v_bulk, v_unleased, v_skipped);
  v_fenced := v_fenced || superseded_requests(v_asked, v_settled, v_skipped);
  v_sums := sum_settled(v_settled);
  PERFORM charge_bulk_leases(v_sums);
  PERFORM move_balances(ARRAY(
    SELECT (s.customer, s.cap_day, s.cost, 0)::balance_move FROM unnest(v_sums) s WHERE s.bulk_lease IS NULL
    UNION ALL
    SELECT (l.customer_id, l.cap_day, 0, l.granted_nanos)::balance_move FROM unnest(v_ended) l));
  PERFORM charge_spend_limits(v_ended, v_settled);
  PERFORM post_charges(v_tx, v_sums);
  PERFORM add_to_usage_sums(p_node_shard, v_sums);

  RETURN QUERY
    SELECT f.request, 'fenced' FROM unnest(v_fenced) f(request)
    UNION ALL
    SELECT l.request, 'locked' FROM unnest(v_locked) l(request)
    UNION ALL
    SELECT u.request, u.effect FROM unnest(v_unleased) u WHERE u.effect IS NOT NULL
    UNION ALL
    SELECT i.request, 'clamped' FROM unnest(v_asked) i JOIN unnest(v_ended) l ON l.lease_id = i.request
    WHERE i.cost > l.granted_nanos AND i.request <> ALL (v_fenced);
END $$;

-- Locks the balances of the requests with strict leases, in the order of customer_id, and ends those leases. Returns the leases
-- that existed.
CREATE OR REPLACE FUNCTION end_strict_leases(p_asked settlement_asked[]) RETURNS lease[]
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[];
  v_requests uuid[];
  v_ended lease[];
BEGIN
  SELECT array_agg(DISTINCT customer), array_agg(request) INTO v_customers, v_requests FROM unnest(p_asked) WHERE lease = request;
  IF v_requests IS NULL THEN
    RETURN '{}';
  END IF;
  PERFORM lock_balances(v_customers);
  WITH ended AS (
    DELETE FROM lease l WHERE l.lease_id = ANY (v_requests) AND l.customer_id = ANY (v_customers) AND l.slots IS NULL RETURNING l
  )
  SELECT coalesce(array_agg(l), '{}') INTO v_ended FROM ended;
  RETURN v_ended;
END $$;

-- The requests with a bulk lease that is gone or has no room for them.
CREATE OR REPLACE FUNCTION fenced_requests(p_asked settlement_asked[], p_bulk lease[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
BEGIN
  -- Usually every lease has room for all of its requests, and only this check runs.
  IF NOT EXISTS (
    SELECT FROM (
      SELECT lease, customer, sum(charge_within_hold(cost, hold)) AS charge FROM unnest(p_asked) WHERE lease <> request GROUP BY lease, customer
    ) i
    LEFT JOIN unnest(p_bulk) l ON l.lease_id = i.lease AND l.customer_id = i.customer
    WHERE l.lease_id IS NULL OR i.charge > l.granted_nanos - l.settled_nanos
  ) THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(
    WITH asked AS (
      SELECT i.request, i.customer, i.lease, charge_within_hold(i.cost, i.hold) AS charge, i.ordinality, l.granted_nanos - l.settled_nanos AS room,
        sum(charge_within_hold(i.cost, i.hold)) OVER (PARTITION BY i.lease) AS charge_of_all
      FROM unnest(p_asked) WITH ORDINALITY AS i
      LEFT JOIN unnest(p_bulk) l ON l.lease_id = i.lease AND l.customer_id = i.customer
      WHERE i.lease <> i.request
    ), checked AS (
      SELECT *, charge_of_all > room
        AND EXISTS (SELECT FROM usage_event u WHERE u.customer_id = asked.customer AND u.request_id = asked.request) AS is_settled
      FROM asked
    ), queued AS (
      -- A request that was settled before takes no room again.
      SELECT *, sum(charge) FILTER (WHERE is_settled IS NOT TRUE) OVER (PARTITION BY lease ORDER BY ordinality) AS charge_so_far FROM checked
    )
    SELECT request FROM queued WHERE room IS NULL OR (NOT is_settled AND charge_so_far > room));
END $$;

-- Decides how to settle the requests that name no bulk lease and have no strict lease in `p_ended`: settled before, free, charged
-- to the free balance, written off, or of an archived month. Withdraws the row that presumes their end where there is one.
-- Returns one row per request.
CREATE OR REPLACE FUNCTION settle_unleased(p_asked settlement_asked[], p_ended lease[], p_node_shard smallint) RETURNS SETOF unleased_settlement
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v unleased_settlement;
  v_ended uuid[] := ARRAY(SELECT lease_id FROM unnest(p_ended));
  v_customers uuid[] := ARRAY(SELECT DISTINCT customer FROM unnest(p_asked) WHERE lease = request);
  v_seen uuid[] := '{}';
  -- The customer and the day of the current request, and what they have left after the requests before it.
  v_customer uuid;
  v_free bigint;
  v_cap_day date;
  v_cap_left bigint;
BEGIN
  FOR r IN
    SELECT i.request, i.customer, i.cost, charge_within_hold(i.cost, i.hold) AS charge, b.customer_id AS account, b.posted_nanos - b.leased_nanos AS free, b.day,
      u.outcome, u.outcome = 'superseded' AND i.outcome <> 'superseded' AS is_superseded, u.key_id AS key, u.key_window,
      u.member_id AS member, u.member_window,
      -- The reaper knew the day of a strict lease. A request of a bulk lease was admitted when it began.
      coalesce(u.cap_day, (to_timestamp(i.started_ms / 1000::float8) AT TIME ZONE 'UTC')::date) AS cap_day
    FROM unnest(p_asked) WITH ORDINALITY AS i
    LEFT JOIN (SELECT * FROM balance WHERE customer_id = ANY (v_customers)) b ON b.customer_id = i.customer
    LEFT JOIN LATERAL (
      SELECT e.outcome, e.key_id, e.key_window, e.member_id, e.member_window, e.cap_day FROM usage_event e WHERE e.customer_id = i.customer AND e.request_id = i.request
    ) u ON true
    WHERE i.lease = i.request AND i.request <> ALL (v_ended)
    ORDER BY i.customer, cap_day, i.ordinality
  LOOP
    -- The first one counts when a batch holds the same request twice.
    CONTINUE WHEN r.request = ANY (v_seen);
    v_seen := v_seen || r.request;
    v := (r.request, NULL, NULL, NULL, NULL, NULL);
    IF v_customer IS DISTINCT FROM r.customer THEN
      v_customer := r.customer;
      v_free := r.free;
      v_cap_day := NULL;
    END IF;
    IF r.outcome = 'node_died' OR r.is_superseded THEN
      PERFORM withdraw_presumed_end(r.customer, r.request, p_node_shard);
    END IF;
    IF r.account IS NULL THEN
      v.effect := 'no_account';
    ELSIF r.outcome <> 'node_died' AND NOT r.is_superseded THEN
      v.effect := 'duplicate';
    ELSIF r.outcome IS NULL AND is_archived(r.request) THEN
      v.effect := 'archived';
    ELSIF r.is_superseded AND r.cost > 0 THEN
      -- The request that was sent again is the one that is charged.
      v.effect := 'written_off';
    ELSIF r.cost > 0 THEN
      IF v_cap_day IS DISTINCT FROM r.cap_day THEN
        v_cap_day := r.cap_day;
        v_cap_left := late_cap_left(r.customer, r.cap_day);
        IF r.cap_day <> r.day THEN
          -- The leases that end in this batch are deleted but not charged yet: what they hold is not free.
          v_cap_left := v_cap_left
            - (SELECT coalesce(sum(l.granted_nanos), 0) FROM unnest(p_ended) l WHERE l.customer_id = r.customer AND l.cap_day = r.cap_day);
        END IF;
      END IF;
      IF r.charge > 0 AND r.charge <= least(v_free, v_cap_left)
        AND charge_limits_late(r.customer, r.key, r.key_window, r.member, r.member_window, r.charge) THEN
        v_free := v_free - r.charge;
        v_cap_left := v_cap_left - r.charge;
        v := (r.request, 'late', r.cap_day, r.key_window, r.member, r.member_window);
      ELSE
        v.effect := 'written_off';
      END IF;
    END IF;
    RETURN NEXT v;
  END LOOP;
END $$;

-- The rule of every charge: at most the hold.
CREATE OR REPLACE FUNCTION charge_within_hold(p_cost bigint, p_hold bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT least(p_cost, p_hold) $$;

-- Charges a request that has no lease any more to the limits of its key and of its member: to both or to none. Returns whether
-- both have room.
CREATE OR REPLACE FUNCTION charge_limits_late(p_customer uuid, p_key uuid, p_key_window date, p_member uuid, p_member_window date, p_cost bigint)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF p_member_window IS NOT NULL AND NOT charge_member_late(p_customer, p_member, p_member_window, p_cost) THEN
    RETURN false;
  END IF;
  IF p_key_window IS NULL OR charge_key_late(p_customer, p_key, p_key_window, p_cost) THEN
    RETURN true;
  END IF;
  UPDATE member_spend m SET spent_nanos = m.spent_nanos - p_cost
    WHERE m.customer_id = p_customer AND m.person_id = p_member AND m.window_start = p_member_window;
  RETURN false;
END $$;

-- Like charge_key_late, for the limit of a member.
CREATE OR REPLACE FUNCTION charge_member_late(p_customer uuid, p_member uuid, p_window date, p_cost bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE member_spend m SET spent_nanos = m.spent_nanos + p_cost
  WHERE m.customer_id = p_customer AND m.person_id = p_member AND m.window_start = p_window
    AND m.spent_nanos + m.leased_nanos + p_cost <= coalesce((
      SELECT l.spend_limit_nanos FROM member_limit l WHERE l.customer_id = p_customer AND l.person_id = p_member), unlimited_nanos());
  RETURN FOUND;
END $$;

-- Charges a request that has no lease any more to the spend limit of its key, in the window of that lease. Returns whether the
-- limit has room.
CREATE OR REPLACE FUNCTION charge_key_late(p_customer uuid, p_key uuid, p_window date, p_cost bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE key_spend k SET spent_nanos = k.spent_nanos + p_cost
  WHERE k.customer_id = p_customer AND k.key_id = p_key AND k.window_start = p_window
    AND k.spent_nanos + k.leased_nanos + p_cost <= coalesce((SELECT a.spend_limit_nanos FROM api_key a WHERE a.key_id = p_key), unlimited_nanos());
  RETURN FOUND;
END $$;

-- The requests that have no new row because their row `superseded` exists: while they ran, they were sent again with their
-- Idempotency-Key.
CREATE OR REPLACE FUNCTION superseded_requests(p_asked settlement_asked[], p_settled settled_request[], p_skipped uuid[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
BEGIN
  -- Usually every request has a new row, and only this check runs.
  IF cardinality(p_settled) + cardinality(p_skipped) >= cardinality(p_asked) THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(
    SELECT DISTINCT i.request FROM unnest(p_asked) i
    JOIN LATERAL (SELECT e.outcome FROM usage_event e WHERE e.customer_id = i.customer AND e.request_id = i.request) u ON true
    WHERE u.outcome = 'superseded' AND i.outcome <> 'superseded' AND i.request <> ALL (p_skipped));
END $$;

-- Groups the settled requests once, so that each table with sums is written from a few rows instead of all requests.
CREATE OR REPLACE FUNCTION sum_settled(p_settled settled_request[]) RETURNS settled_sum[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT (customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'),
      count(*), count(*) FILTER (WHERE success), sum(input_tokens), sum(output_tokens),
      sum(cost)::bigint, sum(hoster_share)::bigint, sum(fee)::bigint, coalesce(sum(latency_ms) FILTER (WHERE success), 0),
      coalesce(sum(cached_tokens), 0), label, endpoint, coalesce(sum(upstream_cost), 0)::bigint,
      coalesce(sum(cost) FILTER (WHERE upstream_cost IS NOT NULL), 0)::bigint)::settled_sum
    FROM unnest(p_settled)
    GROUP BY customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'), label, endpoint);
END $$;

-- Adds the charges to bulk leases, which lock_bulk_leases has locked.
CREATE OR REPLACE FUNCTION charge_bulk_leases(p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_leases uuid[] := ARRAY(SELECT DISTINCT bulk_lease FROM unnest(p_sums) WHERE bulk_lease IS NOT NULL);
BEGIN
  IF cardinality(v_leases) = 0 THEN
    RETURN;
  END IF;
  UPDATE lease l SET settled_nanos = l.settled_nanos + s.cost
    FROM (SELECT bulk_lease, sum(cost)::bigint AS cost FROM unnest(p_sums) GROUP BY bulk_lease) s
    WHERE l.lease_id = s.bulk_lease AND l.lease_id = ANY (v_leases) AND s.cost > 0;
END $$;

-- Takes the costs from locked balances and releases holds. Costs of a day that is not in the balance row go to day_spend.
CREATE OR REPLACE FUNCTION move_balances(p_moves balance_move[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[] := ARRAY(SELECT DISTINCT customer FROM unnest(p_moves));
BEGIN
  IF cardinality(v_customers) = 0 THEN
    RETURN;
  END IF;
  WITH moves AS (
    SELECT m.*, b.day, b.day_cap_nanos
    FROM unnest(p_moves) m JOIN (SELECT * FROM balance WHERE customer_id = ANY (v_customers)) b ON b.customer_id = m.customer
  ), other_days AS (
    INSERT INTO day_spend AS d (customer_id, day, spent_nanos, cap_nanos)
    SELECT customer, cap_day, sum(cost), day_cap_nanos FROM moves WHERE cap_day <> day AND cost > 0 GROUP BY customer, cap_day, day_cap_nanos
    ON CONFLICT (customer_id, day) DO UPDATE
      SET spent_nanos = d.spent_nanos + excluded.spent_nanos, cap_nanos = coalesce(d.cap_nanos, excluded.cap_nanos)
  )
  UPDATE balance b SET posted_nanos = b.posted_nanos - s.cost, leased_nanos = b.leased_nanos - s.released,
      day_spent_nanos = b.day_spent_nanos + s.day_cost, day_leased_nanos = b.day_leased_nanos - s.day_released
    FROM (
      SELECT customer, sum(cost)::bigint AS cost, sum(released)::bigint AS released,
        coalesce(sum(cost) FILTER (WHERE cap_day = day), 0)::bigint AS day_cost,
        coalesce(sum(released) FILTER (WHERE cap_day = day), 0)::bigint AS day_released
      FROM moves GROUP BY customer
    ) s
    WHERE b.customer_id = s.customer AND b.customer_id = ANY (v_customers);
END $$;

-- Releases what ended strict leases held of the spend limits of their keys and members, and counts what their requests cost.
CREATE OR REPLACE FUNCTION charge_spend_limits(p_ended lease[], p_settled settled_request[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[] := ARRAY(SELECT DISTINCT customer_id FROM unnest(p_ended) WHERE key_window IS NOT NULL OR member_window IS NOT NULL);
BEGIN
  IF cardinality(v_customers) = 0 THEN
    RETURN;
  END IF;
  UPDATE key_spend k SET spent_nanos = k.spent_nanos + s.cost, leased_nanos = k.leased_nanos - s.granted
  FROM (
    SELECT l.customer_id, l.key_id, l.key_window, sum(l.granted_nanos)::bigint AS granted, coalesce(sum(r.cost), 0)::bigint AS cost
    FROM unnest(p_ended) l LEFT JOIN unnest(p_settled) r ON r.request = l.lease_id AND r.customer = l.customer_id
    WHERE l.key_window IS NOT NULL GROUP BY l.customer_id, l.key_id, l.key_window
  ) s
  WHERE k.customer_id = s.customer_id AND k.key_id = s.key_id AND k.window_start = s.key_window AND k.customer_id = ANY (v_customers);
  UPDATE member_spend m SET spent_nanos = m.spent_nanos + s.cost, leased_nanos = m.leased_nanos - s.granted
  FROM (
    SELECT l.customer_id, l.member_id, l.member_window, sum(l.granted_nanos)::bigint AS granted, coalesce(sum(r.cost), 0)::bigint AS cost
    FROM unnest(p_ended) l LEFT JOIN unnest(p_settled) r ON r.request = l.lease_id AND r.customer = l.customer_id
    WHERE l.member_window IS NOT NULL GROUP BY l.customer_id, l.member_id, l.member_window
  ) s
  WHERE m.customer_id = s.customer_id AND m.person_id = s.member_id AND m.window_start = s.member_window AND m.customer_id = ANY (v_customers);
END $$;
