-- The money functions. They are the only writers of balance, day_spend, key_spend, lease, ledger_*,
-- usage_event, usage_hour, usage_day and usage_key_day.
--
-- Two rules make them correct.
-- 1. A function that moves money of customers first locks their balance rows, in the order of customer_id, so
--    two calls never deadlock, and calls for one customer run one after the other. Settlements of bulk leases
--    are the only exception: they lock leases, in the order of lease_id. Every function that changes several
--    bulk leases locks them in that order, after the balance rows.
-- 2. A statement that reads comes after the statement that locks. Under READ COMMITTED it then sees
--    everything that the previous holder of the lock committed. A statement that locks and also reads by
--    joins or subqueries would check only the locked row again after the wait, and see the other rows as they
--    were before it. Functions called here are therefore VOLATILE, so that each of their statements sees what
--    was committed before it, except where they read only rows that are locked by then.
--
-- A batch comes as one array per column, or as an array of rows. Query plans are made when the tables are
-- small and kept when they have grown, so these functions rule out bad plans: sequential scans are off, and a
-- table is joined only after "= ANY" has reduced it to the keys of the batch. PostgreSQL may plan a plain
-- join as a walk over a whole index, which took 50 ms per batch with 100,000 dead rows in `lease`. Settings
-- apply to the functions that a function calls.

-- ---------------------------------------------------------------- accounts

-- Opens the account of a customer with its one signup credit, paid by the platform's promotion account.
-- Returns whether the credit was granted now.
CREATE FUNCTION open_account(p_customer uuid, p_credit bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO balance (customer_id) VALUES (p_customer) ON CONFLICT DO NOTHING;
  IF p_credit = 0 THEN
    RETURN false;
  END IF;
  PERFORM 1 FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('signup_credit', p_customer::text, 'signup credit')
    ON CONFLICT (kind, ref) DO NOTHING RETURNING tx_id INTO v_tx;
  IF v_tx IS NULL THEN
    RETURN false;
  END IF;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', p_customer, p_credit),
    (v_tx, 'platform_promo', '00000000-0000-0000-0000-000000000000', -p_credit);
  UPDATE balance SET posted_nanos = posted_nanos + p_credit WHERE customer_id = p_customer;
  RETURN true;
END $$;

-- Adds paid credit once per `p_ref`. `applied` is false when that ref was granted before. `mismatch` is true
-- when it was granted to another customer or with another amount. Returns no row when the customer has no
-- account.
CREATE FUNCTION grant_credit(p_customer uuid, p_amount bigint, p_ref text, p_reason text)
RETURNS TABLE (applied boolean, mismatch boolean, posted bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  PERFORM 1 FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('credit', p_ref, p_reason)
    ON CONFLICT (kind, ref) DO NOTHING RETURNING tx_id INTO v_tx;
  applied := v_tx IS NOT NULL;
  mismatch := false;
  IF applied THEN
    INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
      (v_tx, 'customer', p_customer, p_amount),
      (v_tx, 'cash', '00000000-0000-0000-0000-000000000000', -p_amount);
    UPDATE balance SET posted_nanos = posted_nanos + p_amount WHERE customer_id = p_customer;
  ELSE
    mismatch := NOT EXISTS (
      SELECT FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      WHERE t.kind = 'credit' AND t.ref = p_ref
        AND e.account_kind = 'customer' AND e.account_id = p_customer AND e.amount_nanos = p_amount);
  END IF;
  SELECT b.posted_nanos INTO posted FROM balance b WHERE b.customer_id = p_customer;
  RETURN NEXT;
END $$;

-- ---------------------------------------------------------------- locks

-- Locks the balances of these customers. Every function that locks several balances does so here: in the
-- order of customer_id.
CREATE FUNCTION lock_balances(p_customers uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM balance WHERE customer_id = ANY (p_customers) ORDER BY customer_id FOR NO KEY UPDATE;
END $$;

-- Locks those of these balances that no other session has locked. Returns their customers. Does not wait, so the
-- order does not matter.
CREATE FUNCTION lock_free_balances(p_customers uuid[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[];
BEGIN
  WITH locked AS (
    SELECT customer_id FROM balance WHERE customer_id = ANY (p_customers) FOR NO KEY UPDATE SKIP LOCKED
  )
  SELECT coalesce(array_agg(customer_id), '{}') INTO v_customers FROM locked;
  RETURN v_customers;
END $$;

-- Makes sure that the node cannot be declared dead before this transaction ends, so that no lease of a node
-- is granted after its death. Returns how many nodes are not declared dead. Raises SY001 when this one is.
CREATE FUNCTION lock_live_node(p_node uuid) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM node WHERE node_id = p_node AND state = 'alive' FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'node % is not alive', p_node USING ERRCODE = 'SY001';
  END IF;
  RETURN (SELECT count(*) FROM node WHERE state = 'alive');
END $$;

-- ---------------------------------------------------------------- admission: windows

-- The UTC day on which the window of a key's spend limit began that contains `p_day`. Weeks are ISO weeks:
-- they begin on Monday.
CREATE FUNCTION key_window_start(p_reset text, p_day date) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reset
    WHEN 'daily' THEN p_day
    WHEN 'weekly' THEN date_trunc('week', p_day::timestamp)::date
    WHEN 'monthly' THEN date_trunc('month', p_day::timestamp)::date
    ELSE '-infinity'::date
  END
$$;

-- When the window that began on `p_start` ends. NULL for a limit that never resets.
CREATE FUNCTION key_window_end(p_reset text, p_start date) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reset
    WHEN 'daily' THEN (p_start + 1)::timestamp
    WHEN 'weekly' THEN (p_start + 7)::timestamp
    WHEN 'monthly' THEN p_start::timestamp + interval '1 month'
  END AT TIME ZONE 'UTC'
$$;

CREATE FUNCTION epoch_ms(p_at timestamptz) RETURNS double precision
LANGUAGE sql STABLE AS $$ SELECT (extract(epoch FROM p_at) * 1000)::double precision $$;

-- A customer's balance while a batch decides its items: the windows are the current ones, and the earlier
-- items of the batch are counted.
CREATE TYPE account_windows AS (
  customer uuid, posted bigint, leased bigint,
  minute timestamptz, minute_used integer, minute_ends_ms double precision,
  day date, day_used integer, day_ends_ms double precision, day_spent bigint, day_leased bigint, day_cap bigint);

-- Moves the windows of a locked balance to the present. Windows only move forward: when the clock was set
-- back a little, the later window goes on counting instead of the earlier one opening again. A window far
-- ahead of the clock is not kept.
CREATE FUNCTION open_windows(p_balance balance, p_now timestamptz) RETURNS account_windows
LANGUAGE plpgsql AS $$
DECLARE
  v_minute timestamptz := date_trunc('minute', p_now, 'UTC');
  v_today date := (p_now AT TIME ZONE 'UTC')::date;
  v account_windows;
BEGIN
  v.customer := p_balance.customer_id;
  v.posted := p_balance.posted_nanos;
  v.leased := p_balance.leased_nanos;
  IF p_balance.minute >= v_minute AND p_balance.minute <= v_minute + interval '2 minutes' THEN
    v.minute := p_balance.minute;
    v.minute_used := p_balance.minute_requests;
  ELSE
    v.minute := v_minute;
    -- Zero, except when a clock that was set back reaches a minute again: its bulk leases may still use, or
    -- give back, their slots.
    SELECT coalesce(sum(o.slots), 0) INTO v.minute_used
      FROM lease o WHERE o.customer_id = v.customer AND o.slot_minute = v_minute AND o.slots IS NOT NULL;
  END IF;
  IF p_balance.day >= v_today AND p_balance.day <= v_today + 1 THEN
    v.day := p_balance.day;
    v.day_used := p_balance.day_requests;
    v.day_spent := p_balance.day_spent_nanos;
    v.day_leased := p_balance.day_leased_nanos;
    v.day_cap := p_balance.day_cap_nanos;
  ELSE
    v := open_day(v, p_balance, v_today);
  END IF;
  v.minute_ends_ms := epoch_ms(v.minute + interval '1 minute');
  v.day_ends_ms := epoch_ms((v.day + 1)::timestamp AT TIME ZONE 'UTC');
  RETURN v;
END $$;

-- Replaces the day of a balance by another one. The spend of the old day goes to day_spend, and that of the
-- new day comes from there.
CREATE FUNCTION open_day(p_windows account_windows, p_balance balance, p_day date) RETURNS account_windows
LANGUAGE plpgsql AS $$
DECLARE
  v account_windows := p_windows;
BEGIN
  IF isfinite(p_balance.day) THEN
    INSERT INTO day_spend (customer_id, day, spent_nanos, cap_nanos)
      VALUES (v.customer, p_balance.day, p_balance.day_spent_nanos, p_balance.day_cap_nanos);
  END IF;
  v.day := p_day;
  v.day_used := 0;
  v.day_spent := 0;
  v.day_leased := 0;
  v.day_cap := NULL;
  DELETE FROM day_spend d WHERE d.customer_id = v.customer AND d.day = p_day RETURNING d.spent_nanos, d.cap_nanos INTO v.day_spent, v.day_cap;
  IF FOUND THEN
    -- The day has been charged before, for requests that ended late or by a clock that was days off. It may
    -- have open leases too.
    SELECT coalesce(sum(o.granted_nanos), 0), coalesce(sum(o.slots), 0) INTO v.day_leased, v.day_used
      FROM lease o WHERE o.customer_id = v.customer AND o.cap_day = p_day;
  ELSE
    v.day_spent := 0;
  END IF;
  RETURN v;
END $$;

CREATE FUNCTION save_windows(p_windows account_windows[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE balance b SET leased_nanos = w.leased, minute = w.minute, minute_requests = w.minute_used,
      day = w.day, day_requests = w.day_used, day_spent_nanos = w.day_spent, day_leased_nanos = w.day_leased, day_cap_nanos = w.day_cap
    FROM unnest(p_windows) w
    WHERE b.customer_id = w.customer AND b.customer_id = ANY (ARRAY(SELECT customer FROM unnest(p_windows)));
END $$;

-- ---------------------------------------------------------------- admission: spend limits of keys

-- What a key with a spend limit has spent and holds in one window. `granted` is what the batch adds to `leased`.
CREATE TYPE key_budget AS (customer uuid, key uuid, window_start date, spent bigint, leased bigint, granted bigint);

CREATE FUNCTION read_key_budget(p_customer uuid, p_key uuid, p_window date) RETURNS key_budget
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT (p_customer, p_key, p_window, coalesce(max(k.spent_nanos), 0), coalesce(max(k.leased_nanos), 0), 0)::key_budget
    FROM key_spend k WHERE k.customer_id = p_customer AND k.key_id = p_key AND k.window_start = p_window);
END $$;

CREATE FUNCTION save_key_budgets(p_budgets key_budget[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO key_spend AS k (customer_id, key_id, window_start, leased_nanos)
    SELECT customer, key, window_start, granted FROM unnest(p_budgets) WHERE granted > 0
    ON CONFLICT (customer_id, key_id, window_start) DO UPDATE SET leased_nanos = k.leased_nanos + excluded.leased_nanos;
END $$;

-- ---------------------------------------------------------------- admission: decisions

-- The decision about one item: `counted_minute` and `counted_day` are the requests it adds to the windows,
-- `posted` is the balance to report.
CREATE TYPE admission_decision AS (verdict text, held bigint, slots integer, counted_minute integer, counted_day integer, posted bigint);

-- Decides a request for a bulk lease. It gets at most this node's share of half of what is free, so that the
-- last dollars and the last requests of a window are never stranded on one node. It gets nothing when less
-- than `p_floor` is free, or for a single request: strict leases serve then. A bulk lease costs as much as one
-- strict lease.
CREATE FUNCTION decide_bulk(
  w account_windows, p_want bigint, p_floor bigint, p_slots integer, p_minute_limit integer, p_day_limit integer,
  p_free bigint, p_cap_left bigint, p_nodes integer)
RETURNS admission_decision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_held bigint := least(p_want, p_free / (2 * p_nodes), p_cap_left / (2 * p_nodes));
  v_slots integer := least(p_slots, (p_minute_limit - w.minute_used) / (2 * p_nodes), (p_day_limit - w.day_used) / (2 * p_nodes));
BEGIN
  IF least(p_free, p_cap_left) < p_floor OR (v_held <= 0 AND p_want > 0) OR v_slots < 2 THEN
    RETURN ('no_bulk', NULL, NULL, 0, 0, w.posted)::admission_decision;
  END IF;
  RETURN ('granted', v_held, v_slots, v_slots, v_slots, w.posted)::admission_decision;
END $$;

-- Decides a request for a strict lease, or one that is only counted (`p_want` is NULL). `p_counted_until_ms`
-- is set for a retry: a retry in the same minute is not counted again, and one in a later minute of the same
-- day is counted in the minute only. `p_key_spent` and `p_key_left` are NULL for keys without a spend limit,
-- and least() ignores NULL.
CREATE FUNCTION decide_strict(
  w account_windows, p_want bigint, p_floor bigint, p_minute_limit integer, p_day_limit integer, p_cap bigint, p_key_limit bigint,
  p_counted_until_ms double precision, p_free bigint, p_cap_left bigint, p_key_spent bigint, p_key_left bigint)
RETURNS admission_decision
LANGUAGE plpgsql AS $$
DECLARE
  d admission_decision := (NULL, NULL, NULL, 1, 1, w.posted);
BEGIN
  IF p_counted_until_ms = w.minute_ends_ms THEN
    d.counted_minute := 0;
  END IF;
  IF p_counted_until_ms > w.day_ends_ms - 86400000 THEN
    d.counted_day := 0;
  END IF;
  IF w.minute_used >= p_minute_limit AND d.counted_minute = 1 THEN
    RETURN ('rate_limit_exceeded', NULL, NULL, 0, 0, w.posted)::admission_decision;
  ELSIF w.day_used >= p_day_limit AND d.counted_day = 1 THEN
    RETURN ('daily_limit_exceeded', NULL, NULL, 0, 0, w.posted)::admission_decision;
  ELSIF p_want IS NULL THEN
    d.verdict := 'counted';
  ELSIF least(p_free, p_cap_left, p_key_left) >= p_floor THEN
    d.verdict := 'granted';
    d.held := least(p_want, p_free, p_cap_left, p_key_left);
  ELSE
    SELECT m.verdict, m.posted INTO d.verdict, d.posted FROM money_refusal(w, p_floor, p_cap, p_key_limit - p_key_spent) AS m;
  END IF;
  RETURN d;
END $$;

-- Why a request that needs at least `p_floor` is refused for money. `p_key_left` is what the key's spend
-- limit leaves beyond its spend; NULL without a limit. `posted` is the balance less the charges of bulk
-- leases that are not folded yet.
CREATE FUNCTION money_refusal(w account_windows, p_floor bigint, p_cap bigint, p_key_left bigint, OUT verdict text, OUT posted bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_unfolded bigint;
  v_unfolded_today bigint;
BEGIN
  SELECT coalesce(sum(o.settled_nanos), 0), coalesce(sum(o.settled_nanos) FILTER (WHERE o.cap_day = w.day), 0) INTO v_unfolded, v_unfolded_today
    FROM lease o WHERE o.customer_id = w.customer AND o.slots IS NOT NULL;
  posted := w.posted - v_unfolded;
  verdict := CASE
    WHEN posted < p_floor THEN 'insufficient_credits'
    WHEN p_cap - w.day_spent - v_unfolded_today < p_floor THEN 'daily_spend_cap_reached'
    WHEN p_key_left < p_floor THEN 'key_spend_limit_reached'
    -- Only until the customer's running requests have ended.
    ELSE 'in_flight_budget'
  END;
END $$;

-- Whether another node has a bulk lease of this customer.
CREATE FUNCTION is_held_elsewhere(p_customer uuid, p_node uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM lease o WHERE o.customer_id = p_customer AND o.slots IS NOT NULL AND o.node_id <> p_node);
END $$;

-- Asks the other nodes to hand back what they do not need of their bulk leases of these customers. Waits for leases
-- that are locked, or with `p_skip_locked` leaves them out.
CREATE FUNCTION recall_bulk_leases(p_customers uuid[], p_node uuid, p_skip_locked boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_leases uuid[];
BEGIN
  v_leases := ARRAY(
    SELECT o.lease_id FROM lease o
    WHERE o.customer_id = ANY (p_customers) AND o.slots IS NOT NULL AND o.node_id <> p_node AND NOT o.recalled);
  IF p_skip_locked THEN
    v_leases := ARRAY(SELECT o.lease_id FROM lease o WHERE o.lease_id = ANY (v_leases) FOR NO KEY UPDATE SKIP LOCKED);
  ELSE
    PERFORM 1 FROM lease o WHERE o.lease_id = ANY (v_leases) ORDER BY o.lease_id FOR NO KEY UPDATE;
  END IF;
  UPDATE lease o SET recalled = true WHERE o.lease_id = ANY (v_leases);
END $$;

-- A lease that a batch grants: `item` is its position in the arrays of the batch.
CREATE TYPE granted_lease AS (item integer, granted bigint, slots integer, slot_minute timestamptz, cap_day date, key_window date);

-- Decides a batch of admissions: counts each item in its customer's windows and places its lease. Returns one
-- row per item; `item` counts from 1. The parameters have one array per column, with one element per item.
--
-- A lease that exists already is returned again without counting: its admission was sent twice. An item with
-- `slots` asks for a bulk lease of up to `want` and that many requests: see decide_bulk. Its refusal is
-- 'no_bulk'. A refusal that bulk leases of other nodes could prevent is marked `held_elsewhere`, and recalls
-- them. An item of a key with a spend limit holds at most what the limit leaves in its window. Such a key is
-- admitted by strict leases only, so its spend and its holds are known here to the nano-USD. Items without
-- `key_limit` do no work for it. Raises SY001 when the node is not alive: it was declared dead, and its
-- leases are reclaimed. `p_now` replaces the clock of the windows. NULL uses the time after the locks were
-- obtained. With `p_skip_locked`, the items of customers with a balance that another session has locked get the
-- verdict 'locked', and nothing is done for them. Otherwise the call waits for the locks.
CREATE FUNCTION admit_batch(
  p_node uuid, p_now timestamptz,
  p_leases uuid[], p_customers uuid[], p_keys uuid[], p_models text[],
  p_minute_limits integer[], p_day_limits integer[], p_caps bigint[],
  -- NULL for keys without a spend limit.
  p_key_limits bigint[], p_key_resets text[],
  -- Both NULL: only count. Otherwise grant as much of `want` as possible, if that is at least `floor`.
  p_wants bigint[], p_floors bigint[],
  -- NULL asks for a strict lease.
  p_slots integer[],
  -- For a retry after a refusal for money: the end of the minute in which the request was counted.
  p_counted_until_ms double precision[],
  p_skip_locked boolean)
RETURNS TABLE (
  item integer, verdict text, held bigint, slots integer, posted bigint, free bigint, cap_left bigint,
  key_spent bigint, key_left bigint, key_ends_ms double precision, held_elsewhere boolean, nodes integer,
  minute_used integer, day_used integer, minute_made integer, day_made integer, own_leases uuid[],
  minute_ends_ms double precision, day_ends_ms double precision, now_ms double precision)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  r record;
  v_now timestamptz;
  -- The customers with a balance that this call has locked. Only used with `p_skip_locked`.
  v_locked uuid[];
  -- The windows of the customer of the current item, and those of the customers before it.
  w account_windows;
  v_done account_windows[] := '{}';
  -- The slots in these windows that no request has used, as far as this node knows: all slots of its own open bulk leases,
  -- since it counts their requests itself, and those that other nodes have not reported as used.
  v_lease lease;
  v_unused integer;
  v_minute_unused integer;
  v_day_unused integer;
  -- The windows of key spend limits met so far, and the position of the current item's one.
  v_budgets key_budget[] := '{}';
  v_k integer;
  v_key_window date;
  d admission_decision;
  v_granted granted_lease[] := '{}';
  v_recalled uuid[] := '{}';
BEGIN
  nodes := lock_live_node(p_node);
  IF p_skip_locked THEN
    v_locked := lock_free_balances(p_customers);
  ELSE
    PERFORM lock_balances(p_customers);
  END IF;
  v_now := coalesce(p_now, clock_timestamp());
  -- Rounded up, so that a node that counts the rest of the minute from it stops early rather than late.
  now_ms := ceil(epoch_ms(v_now));

  FOR r IN
    SELECT i.*, l.granted_nanos AS already, l.slots AS slots_already, l.slot_minute AS minute_already, b.balance, s.bulk
    FROM unnest(p_customers, p_leases, p_keys, p_minute_limits, p_day_limits, p_caps, p_key_limits, p_key_resets, p_wants, p_floors, p_slots, p_counted_until_ms)
      WITH ORDINALITY AS i(customer, lease, key, minute_limit, day_limit, cap, key_limit, key_reset, want, floor, slots, counted_until_ms, n)
    LEFT JOIN (SELECT o.customer_id, o AS balance FROM balance o WHERE o.customer_id = ANY (p_customers)) b ON b.customer_id = i.customer
    LEFT JOIN (SELECT o.lease_id, o.granted_nanos, o.slots, o.slot_minute FROM lease o WHERE o.lease_id = ANY (p_leases)) l ON l.lease_id = i.lease
    LEFT JOIN (
      SELECT o.customer_id, array_agg(o) AS bulk FROM lease o WHERE o.customer_id = ANY (p_customers) AND o.slots IS NOT NULL GROUP BY o.customer_id
    ) s ON s.customer_id = i.customer
    ORDER BY i.customer, i.n
  LOOP
    item := r.n;
    held_elsewhere := false;
    key_spent := NULL;
    key_left := NULL;
    key_ends_ms := NULL;
    v_key_window := NULL;
    IF r.balance IS NULL OR r.customer <> ALL (v_locked) THEN
      verdict := CASE WHEN r.balance IS NULL THEN 'no_account' ELSE 'locked' END;
      RETURN NEXT;
      CONTINUE;
    END IF;

    IF w.customer IS DISTINCT FROM r.customer THEN
      IF w.customer IS NOT NULL THEN
        v_done := v_done || w;
      END IF;
      w := open_windows(r.balance, v_now);
      v_minute_unused := 0;
      v_day_unused := 0;
      own_leases := NULL;
      IF r.bulk IS NOT NULL THEN
        FOREACH v_lease IN ARRAY r.bulk LOOP
          IF v_lease.node_id = p_node THEN
            v_unused := v_lease.slots;
            own_leases := own_leases || v_lease.lease_id;
          ELSE
            v_unused := v_lease.slots - v_lease.slots_used;
          END IF;
          IF v_lease.slot_minute = w.minute THEN
            v_minute_unused := v_minute_unused + v_unused;
          END IF;
          IF v_lease.cap_day = w.day THEN
            v_day_unused := v_day_unused + v_unused;
          END IF;
        END LOOP;
      END IF;
    END IF;
    minute_ends_ms := w.minute_ends_ms;
    day_ends_ms := w.day_ends_ms;
    w.day_cap := greatest(w.day_cap, r.cap);
    posted := w.posted;
    free := posted - w.leased;
    cap_left := greatest(r.cap - w.day_spent - w.day_leased, 0);
    IF r.key_limit IS NOT NULL THEN
      v_key_window := key_window_start(r.key_reset, w.day);
      SELECT k.n INTO v_k FROM unnest(v_budgets) WITH ORDINALITY AS k(customer, key, window_start, spent, leased, granted, n)
        WHERE k.customer = r.customer AND k.key = r.key AND k.window_start = v_key_window;
      IF v_k IS NULL THEN
        v_k := cardinality(v_budgets) + 1;
        v_budgets := v_budgets || read_key_budget(r.customer, r.key, v_key_window);
      END IF;
      key_spent := v_budgets[v_k].spent;
      key_left := greatest(r.key_limit - key_spent - v_budgets[v_k].leased - v_budgets[v_k].granted, 0);
      key_ends_ms := epoch_ms(key_window_end(r.key_reset, v_key_window));
    END IF;

    IF r.already IS NOT NULL THEN
      verdict := 'granted';
      held := r.already;
      slots := r.slots_already;
      IF r.minute_already <> w.minute THEN
        -- Its slots were counted in another minute, earlier, or later by a clock that was set back. It admits
        -- no more requests.
        minute_ends_ms := least(epoch_ms(r.minute_already + interval '1 minute'), now_ms);
      END IF;
    ELSE
      IF r.slots IS NOT NULL THEN
        d := decide_bulk(w, r.want, r.floor, r.slots, r.minute_limit, r.day_limit, free, cap_left, nodes);
      ELSE
        d := decide_strict(w, r.want, r.floor, r.minute_limit, r.day_limit, r.cap, r.key_limit, r.counted_until_ms, free, cap_left, key_spent, key_left);
      END IF;
      verdict := d.verdict;
      held := d.held;
      slots := d.slots;
      posted := d.posted;
      w.minute_used := w.minute_used + d.counted_minute;
      w.day_used := w.day_used + d.counted_day;
      IF verdict = 'granted' THEN
        w.leased := w.leased + held;
        w.day_leased := w.day_leased + held;
        IF slots IS NOT NULL THEN
          v_minute_unused := v_minute_unused + slots;
          v_day_unused := v_day_unused + slots;
          own_leases := own_leases || r.lease;
        END IF;
        v_granted := v_granted || (item, held, slots, CASE WHEN slots IS NOT NULL THEN w.minute END, w.day, v_key_window)::granted_lease;
        IF v_key_window IS NOT NULL THEN
          v_budgets[v_k].granted := v_budgets[v_k].granted + held;
        END IF;
      ELSIF verdict IN ('rate_limit_exceeded', 'daily_limit_exceeded') OR (verdict = 'in_flight_budget' AND least(free, cap_left) < r.floor) THEN
        held_elsewhere := is_held_elsewhere(r.customer, p_node);
        IF held_elsewhere THEN
          v_recalled := v_recalled || r.customer;
        END IF;
      END IF;
    END IF;
    minute_used := w.minute_used;
    day_used := w.day_used;
    minute_made := minute_used - v_minute_unused;
    day_made := day_used - v_day_unused;
    RETURN NEXT;
  END LOOP;

  PERFORM save_windows(v_done || w);
  INSERT INTO lease (lease_id, customer_id, node_id, key_id, model_id, key_window, granted_nanos, slots, slot_minute, cap_day)
    SELECT p_leases[g.item], p_customers[g.item], p_node, p_keys[g.item], p_models[g.item], g.key_window, g.granted, g.slots, g.slot_minute, g.cap_day
    FROM unnest(v_granted) AS g;
  IF cardinality(v_budgets) > 0 THEN
    PERFORM save_key_budgets(v_budgets);
  END IF;
  IF cardinality(v_recalled) > 0 THEN
    PERFORM recall_bulk_leases(v_recalled, p_node, p_skip_locked);
  END IF;
END $$;

-- ---------------------------------------------------------------- bulk leases that are handed back

-- Folds bulk leases and takes back what their node does not need. Folding moves the charges of a lease to the
-- balance. `keep` is the money that running requests still need; NULL closes the lease. Slots beyond
-- `slots_used` are free again. A second call with the same arguments changes nothing. Returns the leases that
-- another session has locked, for which nothing was done. With `p_skip_locked` these are also the leases of
-- customers with a locked balance. Otherwise the call waits for the balances. It never waits for leases, since a
-- settlement may hold them for long, and admissions wait for the balances.
CREATE FUNCTION hand_back_leases(p_leases uuid[], p_keeps bigint[], p_slots_used integer[], p_skip_locked boolean) RETURNS SETOF uuid
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  v_customers uuid[];
  v_leases uuid[];
BEGIN
  SELECT array_agg(DISTINCT customer_id) INTO v_customers FROM lease WHERE lease_id = ANY (p_leases) AND slots IS NOT NULL;
  IF p_skip_locked THEN
    v_customers := lock_free_balances(v_customers);
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

-- Notes how much of bulk leases is used, for the reports of other nodes. Returns the leases that another session has
-- locked, for which nothing was done.
CREATE FUNCTION note_lease_use(p_leases uuid[], p_slots_used integer[], p_owed bigint[]) RETURNS SETOF uuid
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

-- ---------------------------------------------------------------- settlement: input and results

-- A request to settle, as given to `settle_batch`. The records of the journal are rows of this type as text,
-- and are sent unchanged. A change of the fields or their order needs the same change in
-- src/ledger/settlement/settlement-record.ts, with a new version.
CREATE TYPE settlement_asked AS (
  version integer, request uuid, customer uuid, lease uuid, key uuid, started_ms bigint, model text, provider text, endpoint text, hoster uuid,
  input_tokens integer, output_tokens integer, reported_input_tokens integer, reported_output_tokens integer,
  counted_input_tokens integer, counted_output_tokens integer, usage_source text,
  input_price bigint, output_price bigint, price_version integer,
  hold bigint, cost bigint, hoster_share bigint, fee bigint, writeoff bigint, latency_ms integer, first_token_ms integer,
  success boolean, outcome text, finish_reason text, attempts json, routing jsonb);

-- How a request without a lease is settled. `cap_day` and `key_window` are what it is charged against;
-- NULL when it is not charged. A free request has no effect.
CREATE TYPE unleased_settlement AS (request uuid, effect text, cap_day date, key_window date);

-- A request with a usage row that was written now. `bulk_lease` is NULL when it had a strict lease or none.
CREATE TYPE settled_request AS (
  request uuid, customer uuid, bulk_lease uuid, cap_day date, hoster uuid, key uuid, model text, provider text, started_at timestamptz,
  success boolean, input_tokens integer, output_tokens integer, cost bigint, hoster_share bigint, fee bigint, latency_ms integer);

-- Sums of settled requests, fine enough for every table that is summed from them.
CREATE TYPE settled_sum AS (
  customer uuid, bulk_lease uuid, cap_day date, hoster uuid, key uuid, model text, provider text, hour timestamptz,
  requests bigint, successes bigint, input_tokens bigint, output_tokens bigint, cost bigint, hoster_share bigint, fee bigint, latency_ms_sum bigint);

-- A change of a customer's balance: `cost` is charged to the cap of `cap_day`, and `released` is not held any more.
CREATE TYPE balance_move AS (customer uuid, cap_day date, cost bigint, released bigint);

-- The rule of every charge: at most the hold.
CREATE FUNCTION charge_within_hold(p_cost bigint, p_hold bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT least(p_cost, p_hold) $$;

-- ---------------------------------------------------------------- settlement: leases

-- Locks what these requests need and no other session has locked: the balances of strict leases, and bulk leases.
-- Returns the requests for which another session has the lock.
CREATE FUNCTION lock_free_requests(p_asked settlement_asked[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[] := ARRAY(SELECT DISTINCT customer FROM unnest(p_asked) WHERE lease = request);
  v_leases uuid[] := ARRAY(SELECT DISTINCT lease FROM unnest(p_asked) WHERE lease <> request);
  v_locked uuid[];
  v_locked_leases uuid[];
BEGIN
  v_locked := lock_free_balances(v_customers);
  v_locked_leases := ARRAY(SELECT l.lease_id FROM lease l WHERE l.lease_id = ANY (v_leases) FOR NO KEY UPDATE SKIP LOCKED);
  -- What does not exist is not locked.
  v_customers := ARRAY(SELECT b.customer_id FROM balance b WHERE b.customer_id = ANY (v_customers) AND b.customer_id <> ALL (v_locked));
  v_leases := ARRAY(SELECT l.lease_id FROM lease l WHERE l.lease_id = ANY (v_leases) AND l.lease_id <> ALL (v_locked_leases));
  RETURN ARRAY(
    SELECT request FROM unnest(p_asked)
    WHERE CASE WHEN lease = request THEN customer = ANY (v_customers) ELSE lease = ANY (v_leases) END);
END $$;

-- Locks the balances of the requests with strict leases and ends those leases. Returns the leases that existed.
CREATE FUNCTION end_strict_leases(p_asked settlement_asked[]) RETURNS lease[]
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

-- Locks the bulk leases that these requests are charged to. Returns the leases that exist.
CREATE FUNCTION lock_bulk_leases(p_asked settlement_asked[]) RETURNS lease[]
LANGUAGE plpgsql AS $$
DECLARE
  v_leases uuid[] := ARRAY(SELECT DISTINCT lease FROM unnest(p_asked) WHERE lease <> request);
BEGIN
  IF cardinality(v_leases) = 0 THEN
    RETURN '{}';
  END IF;
  PERFORM 1 FROM lease WHERE lease_id = ANY (v_leases) ORDER BY lease_id FOR NO KEY UPDATE;
  RETURN ARRAY(SELECT l FROM lease l WHERE l.lease_id = ANY (v_leases) AND l.slots IS NOT NULL);
END $$;

-- The requests with a bulk lease that is gone or has no room for them.
CREATE FUNCTION fenced_requests(p_asked settlement_asked[], p_bulk lease[]) RETURNS uuid[]
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

-- ---------------------------------------------------------------- settlement: requests without a lease

-- What the daily spend cap leaves for a request of that day that has no lease any more.
CREATE FUNCTION late_cap_left(p_customer uuid, p_day date) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN b.day = p_day THEN coalesce(b.day_cap_nanos, 9223372036854775807) - b.day_spent_nanos - b.day_leased_nanos
    ELSE coalesce(d.cap_nanos, b.day_cap_nanos, 9223372036854775807) - coalesce(d.spent_nanos, 0)
      - (SELECT coalesce(sum(o.granted_nanos), 0)::bigint FROM lease o WHERE o.customer_id = p_customer AND o.cap_day = p_day) END
  FROM balance b LEFT JOIN day_spend d ON d.customer_id = b.customer_id AND d.day = p_day
  WHERE b.customer_id = p_customer
$$;

-- Charges a request that has no lease any more to the spend limit of its key, in the window of that lease. Returns
-- whether the limit has room.
CREATE FUNCTION charge_key_late(p_customer uuid, p_key uuid, p_window date, p_cost bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE key_spend k SET spent_nanos = k.spent_nanos + p_cost
  WHERE k.customer_id = p_customer AND k.key_id = p_key AND k.window_start = p_window
    AND k.spent_nanos + k.leased_nanos + p_cost <= coalesce((SELECT a.spend_limit_nanos FROM api_key a WHERE a.key_id = p_key), 9223372036854775807);
  RETURN FOUND;
END $$;

-- Decides how to settle the requests that name no bulk lease and have no strict lease in `p_ended`:
-- settled before, free, charged to the free balance, written off, or of an archived month. Withdraws the row that
-- presumes their end where there is one. Returns one row per request.
CREATE FUNCTION settle_unleased(p_asked settlement_asked[], p_ended lease[], p_node_shard smallint) RETURNS SETOF unleased_settlement
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
      -- The reaper knew the day of a strict lease. A request of a bulk lease was admitted when it began.
      coalesce(u.cap_day, (to_timestamp(i.started_ms / 1000::float8) AT TIME ZONE 'UTC')::date) AS cap_day
    FROM unnest(p_asked) WITH ORDINALITY AS i
    LEFT JOIN (SELECT * FROM balance WHERE customer_id = ANY (v_customers)) b ON b.customer_id = i.customer
    LEFT JOIN LATERAL (
      SELECT e.outcome, e.key_id, e.key_window, e.cap_day FROM usage_event e WHERE e.customer_id = i.customer AND e.request_id = i.request
    ) u ON true
    WHERE i.lease = i.request AND i.request <> ALL (v_ended)
    ORDER BY i.customer, cap_day, i.ordinality
  LOOP
    -- The first one counts when a batch holds the same request twice.
    CONTINUE WHEN r.request = ANY (v_seen);
    v_seen := v_seen || r.request;
    v := (r.request, NULL, NULL, NULL);
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
        AND (r.key_window IS NULL OR charge_key_late(r.customer, r.key, r.key_window, r.charge)) THEN
        v_free := v_free - r.charge;
        v_cap_left := v_cap_left - r.charge;
        v := (r.request, 'late', r.cap_day, r.key_window);
      ELSE
        v.effect := 'written_off';
      END IF;
    END IF;
    RETURN NEXT v;
  END LOOP;
END $$;

-- ---------------------------------------------------------------- settlement: usage rows

-- Writes the usage rows of the requests that are not in `p_skipped`, each with its charge, and returns those
-- that are new. A request with a strict lease is charged at most what the lease holds. One with a bulk lease,
-- or with the effect 'late', is charged at most its hold. Any other is free.
CREATE FUNCTION insert_usage_rows(
  p_tx bigint, p_asked settlement_asked[], p_ended lease[], p_bulk lease[], p_unleased unleased_settlement[], p_skipped uuid[])
RETURNS settled_request[]
LANGUAGE plpgsql AS $$
DECLARE
  v_settled settled_request[];
BEGIN
  WITH asked AS (
    SELECT i.*, coalesce(l.cap_day, b.cap_day, t.cap_day) AS cap_day, coalesce(l.key_window, t.key_window) AS key_window,
      coalesce(l.granted_nanos, i.hold) AS held,
      CASE WHEN l.lease_id IS NOT NULL OR b.lease_id IS NOT NULL OR t.request IS NOT NULL
        THEN charge_within_hold(i.cost, coalesce(l.granted_nanos, i.hold)) ELSE 0 END AS charge
    FROM unnest(p_asked) WITH ORDINALITY AS i
    LEFT JOIN unnest(p_ended) l ON l.lease_id = i.request AND l.customer_id = i.customer
    LEFT JOIN unnest(p_bulk) b ON b.lease_id = i.lease
    LEFT JOIN (SELECT * FROM unnest(p_unleased) WHERE effect = 'late') t ON t.request = i.request
  ), shared AS (
    -- A lower charge is shared in the proportion of the full one. The hoster's share is rounded down, as in
    -- splitCost.
    SELECT *, CASE WHEN charge = cost THEN hoster_share ELSE div(hoster_share::numeric * charge, cost)::bigint END AS hoster_part
    FROM asked
  ), inserted AS (
    INSERT INTO usage_event (request_id, customer_id, key_id, started_at, model_id, provider, endpoint_id, hoster_id,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_pico_per_token, output_pico_per_token, price_version,
      hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, writeoff_nanos,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing, tx_id, cap_day, key_window)
    SELECT request, customer, key, to_timestamp(started_ms / 1000::float8), model, provider, endpoint, hoster,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_price, output_price, price_version,
      held, charge, hoster_part, CASE WHEN charge = cost THEN fee ELSE charge - hoster_part END, writeoff + cost - charge,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing,
      CASE WHEN charge > 0 THEN p_tx END, cap_day, key_window
    FROM shared
    WHERE request <> ALL (p_skipped)
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING request_id, customer_id, key_id, started_at, model_id, provider, hoster_id, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, cap_day
  ), lease_of AS (
    -- The first one counts when a batch holds the same request twice.
    SELECT DISTINCT ON (request) request, nullif(lease, request) AS bulk_lease FROM asked ORDER BY request, ordinality
  )
  SELECT array_agg((n.request_id, n.customer_id, l.bulk_lease, n.cap_day, n.hoster_id, n.key_id, n.model_id, n.provider, n.started_at,
      n.success, n.input_tokens, n.output_tokens, n.cost_nanos, n.hoster_share_nanos, n.fee_nanos, n.latency_ms)::settled_request)
    INTO v_settled
    FROM inserted n JOIN lease_of l ON l.request = n.request_id;
  RETURN coalesce(v_settled, '{}');
END $$;

-- The requests that have no new row because their row `superseded` exists: while they ran, they were sent again with
-- their Idempotency-Key.
CREATE FUNCTION superseded_requests(p_asked settlement_asked[], p_settled settled_request[], p_skipped uuid[]) RETURNS uuid[]
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

-- Groups the settled requests once, so that each table below reads a few sums instead of all requests.
CREATE FUNCTION sum_settled(p_settled settled_request[]) RETURNS settled_sum[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT (customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'),
      count(*), count(*) FILTER (WHERE success), sum(input_tokens), sum(output_tokens),
      sum(cost)::bigint, sum(hoster_share)::bigint, sum(fee)::bigint, coalesce(sum(latency_ms) FILTER (WHERE success), 0))::settled_sum
    FROM unnest(p_settled)
    GROUP BY customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'));
END $$;

-- ---------------------------------------------------------------- settlement: what a charge changes

CREATE FUNCTION charge_bulk_leases(p_sums settled_sum[]) RETURNS void
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

-- Takes the costs from locked balances and releases holds. Costs of a day that is not in the balance row go
-- to day_spend.
CREATE FUNCTION move_balances(p_moves balance_move[]) RETURNS void
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

-- Releases what ended strict leases held of the spend limits of their keys, and counts what their requests cost.
CREATE FUNCTION charge_key_limits(p_ended lease[], p_settled settled_request[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[] := ARRAY(SELECT DISTINCT customer_id FROM unnest(p_ended) WHERE key_window IS NOT NULL);
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
END $$;

-- Posts the charges as one transaction: customers pay hosters and the platform. Free requests post nothing.
CREATE FUNCTION post_charges(p_tx bigint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT p_tx, e.kind, e.account, e.amount FROM (
      SELECT 'customer' AS kind, customer AS account, -sum(cost)::bigint AS amount FROM unnest(p_sums) GROUP BY customer
      UNION ALL
      SELECT 'hoster_payable', hoster, sum(hoster_share)::bigint FROM unnest(p_sums) WHERE hoster_share > 0 GROUP BY hoster
      UNION ALL
      SELECT 'platform_revenue', '00000000-0000-0000-0000-000000000000'::uuid, sum(fee)::bigint FROM unnest(p_sums)
    ) e WHERE e.amount <> 0;
  IF FOUND THEN
    INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (p_tx, 'settle', gen_random_uuid()::text);
  END IF;
END $$;

-- Adds to the sums that reports read. Concurrent calls lock their rows in the order of the keys.
CREATE FUNCTION add_to_usage_sums(p_node_shard smallint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_hour AS u (customer_id, hour, node_shard, requests, successes, local_requests, hoster_requests, cloud_requests,
      input_tokens, output_tokens, cost_nanos, latency_ms_sum)
    SELECT customer, hour, p_node_shard, sum(requests), sum(successes),
      coalesce(sum(requests) FILTER (WHERE provider = 'local'), 0), coalesce(sum(requests) FILTER (WHERE provider = 'hoster'), 0),
      coalesce(sum(requests) FILTER (WHERE provider = 'cloud'), 0),
      sum(input_tokens), sum(output_tokens), sum(cost), sum(latency_ms_sum)
    FROM unnest(p_sums) GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (customer_id, hour, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      local_requests = u.local_requests + excluded.local_requests, hoster_requests = u.hoster_requests + excluded.hoster_requests,
      cloud_requests = u.cloud_requests + excluded.cloud_requests,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum;
  INSERT INTO usage_day AS u (customer_id, day, model_id, provider, node_shard, requests, successes,
      input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
    SELECT customer, (hour AT TIME ZONE 'UTC')::date, model, provider, p_node_shard, sum(requests), sum(successes),
      sum(input_tokens), sum(output_tokens), sum(cost), sum(hoster_share), sum(fee), sum(latency_ms_sum)
    FROM unnest(p_sums) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, hoster_share_nanos = u.hoster_share_nanos + excluded.hoster_share_nanos,
      fee_nanos = u.fee_nanos + excluded.fee_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum;
  INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT customer, key, (hour AT TIME ZONE 'UTC')::date, p_node_shard, sum(requests), sum(cost)
    FROM unnest(p_sums) WHERE key IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos;
END $$;

-- Sums of `p_requests` rows that only presume how a request ended: with -1 the sum of a row that is withdrawn.
CREATE FUNCTION sum_presumed(p_customer uuid, p_key uuid, p_model text, p_started_at timestamptz, p_requests bigint) RETURNS settled_sum
LANGUAGE sql STABLE AS $$
  SELECT (p_customer, NULL, NULL, NULL, p_key, p_model, 'none', date_trunc('hour', p_started_at, 'UTC'), p_requests, 0, 0, 0, 0, 0, 0, 0)::settled_sum
$$;

-- Removes the row of a request that presumes its end: `node_died` of the reaper, or `superseded` of a node that runs
-- the request again. It may be subtracted from another shard of the sums than it was added to: only the sum over all
-- shards has a meaning.
CREATE FUNCTION withdraw_presumed_end(p_customer uuid, p_request uuid, p_node_shard smallint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_sums settled_sum[];
BEGIN
  WITH withdrawn AS (
    DELETE FROM usage_event WHERE customer_id = p_customer AND request_id = p_request AND outcome IN ('node_died', 'superseded')
    RETURNING key_id, started_at, model_id
  )
  SELECT array_agg(sum_presumed(p_customer, key_id, model_id, started_at, -1)) INTO v_sums FROM withdrawn;
  PERFORM add_to_usage_sums(p_node_shard, v_sums);
END $$;

-- ---------------------------------------------------------------- settlement

-- Ends a batch of requests: writes their usage rows, charges them, releases what their leases held, and adds
-- them to the sums of their hours, days and keys. Each request is a settlement_asked as text, with a record
-- separator (U+001E) before the next one. PostgreSQL reads that in a third of the time that JSON takes.
--
-- A request that has a usage row was settled before and changes nothing, so a batch may be sent again after
-- an unclear commit. The exceptions are rows that only presume the end: the settlement replaces `node_died` of the
-- reaper, and also `superseded`, but then it charges nothing. A request that names another lease than its own id
-- was admitted from that bulk lease. The lease is charged, and the balance row is not touched.
--
-- Returns the requests that were not settled as asked:
-- 'duplicate'    settled before
-- 'clamped'      the cost exceeds the strict lease; the rest is written off
-- 'late'         the lease was gone; charged to the free balance
-- 'written_off'  the lease was gone, and the free balance, the cap of its day or the key's spend limit has no room;
--                or the request was superseded
-- 'no_account'   the customer has no account; nothing was done
-- 'archived'     the lease was gone, and the usage rows of the month are archived; nothing was done, because the request
--                may have been settled before
-- 'fenced'       the bulk lease is gone or too small, or the request was superseded; nothing is charged. Sent again
--                with its own id as lease, it is settled late or written off
-- 'locked'       only with `p_skip_locked`: another session has locked the balance or the bulk lease; nothing was done
-- Without `p_skip_locked`, the call waits for locks.
CREATE FUNCTION settle_batch(p_node_shard smallint, p_settlements text, p_skip_locked boolean)
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
    v_locked := lock_free_requests(v_asked);
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
  PERFORM charge_key_limits(v_ended, v_settled);
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

-- ---------------------------------------------------------------- leases that end without a settlement

-- Ends leases of requests that never ran: releases their money and writes no usage row. Returns the leases that
-- existed. Does not wait: `is_locked` marks the leases of customers with a balance that another session has locked,
-- for which nothing was done.
CREATE FUNCTION release_leases(p_leases uuid[]) RETURNS TABLE (lease uuid, is_locked boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  v_customers uuid[];
  v_ended lease[];
BEGIN
  SELECT array_agg(DISTINCT l.customer_id) INTO v_customers FROM lease l WHERE l.lease_id = ANY (p_leases);
  v_customers := lock_free_balances(v_customers);
  WITH ended AS (
    DELETE FROM lease l WHERE l.lease_id = ANY (p_leases) AND l.customer_id = ANY (v_customers) RETURNING l
  )
  SELECT coalesce(array_agg(l), '{}') INTO v_ended FROM ended;
  PERFORM move_balances(ARRAY(SELECT (customer_id, cap_day, 0, granted_nanos)::balance_move FROM unnest(v_ended)));
  PERFORM charge_key_limits(v_ended, '{}');
  RETURN QUERY
    SELECT e.lease_id, false FROM unnest(v_ended) e
    UNION ALL
    SELECT l.lease_id, true FROM lease l WHERE l.lease_id = ANY (p_leases);
END $$;

-- Ends the leases that one customer has with dead nodes: folds them, releases their money, and writes a free
-- usage row `node_died` for each strict lease. Only the dead node knew the requests of its bulk leases, so
-- their slots stay counted. A node without a row counts as dead. Returns the number of leases.
CREATE FUNCTION reclaim_leases(p_customer uuid, p_node_shard smallint) RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_leases uuid[];
  v_ended lease[];
  v_died settled_sum[];
BEGIN
  PERFORM lock_balances(ARRAY[p_customer]);
  v_leases := ARRAY(
    SELECT l.lease_id FROM lease l
    WHERE l.customer_id = p_customer AND NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')
    ORDER BY l.lease_id FOR UPDATE);
  WITH ended AS (
    DELETE FROM lease l WHERE l.lease_id = ANY (v_leases) RETURNING l
  )
  SELECT coalesce(array_agg(l), '{}') INTO v_ended FROM ended;
  WITH inserted AS (
    INSERT INTO usage_event (customer_id, request_id, key_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
      input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome, cap_day, key_window)
    SELECT customer_id, lease_id, key_id, granted_at, coalesce(model_id, ''), 'none', 0, 0, 'none',
      0, 0, granted_nanos, 0, 0, 0, 0, false, 'node_died', cap_day, key_window
    FROM unnest(v_ended) WHERE slots IS NULL
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING key_id, started_at, model_id
  )
  SELECT array_agg(sum_presumed(p_customer, key_id, model_id, started_at, 1)) INTO v_died FROM inserted;
  PERFORM move_balances(ARRAY(SELECT (customer_id, cap_day, settled_nanos, granted_nanos)::balance_move FROM unnest(v_ended)));
  PERFORM charge_key_limits(v_ended, '{}');
  PERFORM add_to_usage_sums(p_node_shard, v_died);
  RETURN cardinality(v_ended);
END $$;

-- ---------------------------------------------------------------- partitions of usage_event

-- Adds the partition `p_name` for request ids in [p_from, p_to), which is a span of time. Moves rows that
-- arrived before their partition out of the default partition. Returns false when the partition exists.
CREATE FUNCTION add_usage_partition(p_name text, p_from uuid, p_to uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF to_regclass(p_name) IS NOT NULL THEN
    RETURN false;
  END IF;
  LOCK TABLE usage_event_default IN ACCESS EXCLUSIVE MODE;
  IF to_regclass(p_name) IS NOT NULL THEN
    RETURN false;
  END IF;
  -- With this constraint, freeze_usage_month can attach the table elsewhere without reading it.
  EXECUTE format(
    'CREATE TABLE %I (LIKE usage_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS, CONSTRAINT ids_of_month CHECK (request_id >= %L AND request_id < %L))',
    p_name, p_from, p_to);
  EXECUTE format(
    'WITH moved AS (DELETE FROM usage_event_default WHERE request_id >= %L AND request_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    p_from, p_to, p_name);
  -- The table is created first and then attached. That locks nothing a settlement needs except the default partition.
  EXECUTE format('ALTER TABLE usage_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', p_name, p_from, p_to);
  RETURN true;
END $$;

-- ---------------------------------------------------------------- the ledger is append only

CREATE FUNCTION refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append only: add a new transaction that corrects the old one', TG_TABLE_NAME;
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_tx FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
