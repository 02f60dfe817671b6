-- The money functions: the only writers of balance, day_spend, key_spend, lease, ledger_*, usage_event, usage_hour, usage_day and usage_key_day.
--
-- Two rules make them correct.
-- 1. Whoever touches the money of customers first locks their balance rows, in the order of customer_id. So two calls never deadlock, and
--    the calls for one customer run one after the other. Settlements of bulk leases alone pass it by: they lock leases, in the order of lease_id,
--    and so does whoever else changes several of those, after the balance rows.
-- 2. What is read is read in a later statement than the lock: under READ COMMITTED that statement sees everything the previous holder of
--    the lock committed. Locking and reading in one statement with joins or subqueries would re-check the locked row alone and see the
--    others as they were before the wait.
--
-- Admissions and leases come as one array per column, one element each. The plans are made when the tables are small and kept when they are
-- not, so a function leaves no choice: sequential scans are off in it, and a table is joined only after it was cut down to the keys of the
-- batch by "= ANY". A plain join may be planned as a walk over a whole index, which took 50 ms a batch once `lease` had 100,000 dead rows.

-- ---------------------------------------------------------------- accounts

-- Opens the account of a customer with its one signup credit, paid by the platform's promotion account. True if that happened now.
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

-- Adds paid credit once per `p_ref`. `applied` is false when that ref was granted before; `mismatch` when it was granted to somebody else
-- or with another amount. No row when the customer has no account.
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

-- ---------------------------------------------------------------- admission

-- The UTC day on which the window of a key's spend limit began that `p_day` is in. ISO weeks: they begin on Monday.
CREATE FUNCTION key_window_start(p_reset text, p_day date) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reset
    WHEN 'daily' THEN p_day
    WHEN 'weekly' THEN date_trunc('week', p_day::timestamp)::date
    WHEN 'monthly' THEN date_trunc('month', p_day::timestamp)::date
    ELSE '-infinity'::date
  END
$$;

-- When that window ends; NULL when it never does.
CREATE FUNCTION key_window_end(p_reset text, p_start date) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reset
    WHEN 'daily' THEN (p_start + 1)::timestamp
    WHEN 'weekly' THEN (p_start + 7)::timestamp
    WHEN 'monthly' THEN p_start::timestamp + interval '1 month'
  END AT TIME ZONE 'UTC'
$$;

-- Decides a batch of admissions: counts each against its customer's windows and places its lease. One row per item, `item` counting from 1.
-- A lease that exists already is answered again without counting: the same admission was sent twice.
-- An item with `slots` asks for a bulk lease of up to `want` and so many requests. It gets at most its node's share of half of what is free,
-- so that the last dollars and the last requests of a window are never stranded on one node, and nothing ('no_bulk') when less than
-- `floor` is free: then strict leases are to serve.
-- A refusal that money or slots in bulk leases of other nodes could cure says so (`held_elsewhere`), and asks those to hand them back.
-- An item of a key with a spend limit holds no more than the limit leaves in its window. Such a key is admitted by strict leases only, so
-- what it spent and holds is known here to the nano-USD; items without `key_limit` cost nothing for it.
-- Raises SY001 when the node is not alive: it was declared dead, and its leases are taken from it.
-- `p_now` replaces the clock of the windows; NULL is the time after the locks were obtained.
CREATE FUNCTION admit_batch(
  p_node uuid, p_now timestamptz,
  p_leases uuid[], p_customers uuid[], p_keys uuid[], p_models text[],
  p_minute_limits integer[], p_day_limits integer[], p_caps bigint[],
  -- NULL for keys without a spend limit.
  p_key_limits bigint[], p_key_resets text[],
  -- Both NULL: only count. Otherwise grant as much of `want` as there is, if that is at least `floor`.
  p_wants bigint[], p_floors bigint[],
  -- NULL asks for a strict lease.
  p_slots integer[],
  -- The end of the minute in which it was counted, for one that was refused for want of money and tries again.
  p_counted_until_ms double precision[])
RETURNS TABLE (
  item integer, verdict text, held bigint, slots integer, posted bigint, free bigint, cap_left bigint,
  key_spent bigint, key_left bigint, key_ends_ms double precision, held_elsewhere boolean, nodes integer,
  minute_used integer, day_used integer, minute_ends_ms double precision, day_ends_ms double precision, now_ms double precision)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '2s' AS $$
DECLARE
  r record;
  v_now timestamptz;
  v_today date;
  v_this_minute timestamptz;
  -- The customer at hand, as the items before left it.
  v_customer uuid;
  v_leased bigint;
  v_minute timestamptz;
  v_minute_ends_ms double precision;
  -- Whether the item at hand is in the windows already: of the day alone, when it was counted in an earlier minute of it.
  v_counted boolean;
  v_counted_today boolean;
  v_day date;
  v_day_spent bigint;
  v_day_leased bigint;
  v_day_cap bigint;
  -- What its bulk leases were charged and did not fold yet, in all and against today's cap.
  v_unfolded bigint;
  v_unfolded_today bigint;
  v_recalled uuid[] := '{}';
  -- Windows of key spend limits met so far, and the position of the one at hand.
  v_key_window date;
  v_k integer;
  v_key_spent bigint;
  v_key_leased bigint;
  k_customers uuid[] := '{}';
  k_keys uuid[] := '{}';
  k_windows date[] := '{}';
  k_spent bigint[] := '{}';
  k_leased bigint[] := '{}';
  k_granted bigint[] := '{}';
  -- What is written at the end.
  b_customers uuid[] := '{}';
  b_leased bigint[] := '{}';
  b_minute timestamptz[] := '{}';
  b_minute_requests integer[] := '{}';
  b_day date[] := '{}';
  b_day_requests integer[] := '{}';
  b_day_spent bigint[] := '{}';
  b_day_leased bigint[] := '{}';
  b_day_cap bigint[] := '{}';
  l_items integer[] := '{}';
  l_granted bigint[] := '{}';
  l_slots integer[] := '{}';
  l_minute timestamptz[] := '{}';
  l_cap_day date[] := '{}';
  l_key_window date[] := '{}';
BEGIN
  -- Locked against its burial, not against its heartbeat: no lease of a node comes after its death.
  PERFORM FROM node WHERE node_id = p_node AND state = 'alive' FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'node % is not alive', p_node USING ERRCODE = 'SY001';
  END IF;
  SELECT greatest(count(*), 1) INTO nodes FROM node WHERE state = 'alive' AND expires_at > clock_timestamp();
  PERFORM 1 FROM balance WHERE customer_id = ANY (p_customers) ORDER BY customer_id FOR NO KEY UPDATE;
  v_now := coalesce(p_now, clock_timestamp());
  v_today := (v_now AT TIME ZONE 'UTC')::date;
  v_this_minute := date_trunc('minute', v_now, 'UTC');
  -- Rounded up: who measures the rest of the minute from it stops too early rather than too late.
  now_ms := ceil(extract(epoch FROM v_now) * 1000);

  FOR r IN
    SELECT i.n, i.customer, i.key, i.minute_limit, i.day_limit, i.cap, i.key_limit, i.key_reset, i.want, i.floor, i.slots, i.counted_until_ms, l.granted_nanos AS already, l.slots AS slots_already,
      l.slot_minute AS minute_already, b.customer_id AS account, b.posted_nanos, b.leased_nanos, b.minute, b.minute_requests, b.day, b.day_requests, b.day_spent_nanos, b.day_leased_nanos, b.day_cap_nanos
    FROM unnest(p_leases, p_customers, p_keys, p_minute_limits, p_day_limits, p_caps, p_key_limits, p_key_resets, p_wants, p_floors, p_slots, p_counted_until_ms)
      WITH ORDINALITY AS i(lease, customer, key, minute_limit, day_limit, cap, key_limit, key_reset, want, floor, slots, counted_until_ms, n)
    LEFT JOIN (SELECT * FROM balance WHERE customer_id = ANY (p_customers)) b ON b.customer_id = i.customer
    LEFT JOIN (SELECT o.lease_id, o.granted_nanos, o.slots, o.slot_minute FROM lease o WHERE o.lease_id = ANY (p_leases)) l ON l.lease_id = i.lease
    ORDER BY i.customer, i.n
  LOOP
    IF v_customer IS DISTINCT FROM r.customer THEN
      IF v_day IS NOT NULL THEN
        b_customers := b_customers || v_customer;
        b_leased := b_leased || v_leased;
        b_minute := b_minute || v_minute;
        b_minute_requests := b_minute_requests || minute_used;
        b_day := b_day || v_day;
        b_day_requests := b_day_requests || day_used;
        b_day_spent := b_day_spent || v_day_spent;
        b_day_leased := b_day_leased || v_day_leased;
        b_day_cap := b_day_cap || v_day_cap;
      END IF;
      v_customer := r.customer;
      v_leased := r.leased_nanos;
      -- Windows move forward only: a clock that is stepped back a little goes on counting in the later window instead of opening an
      -- earlier one again. One that had been far ahead is not followed.
      IF r.minute >= v_this_minute AND r.minute <= v_this_minute + interval '2 minutes' THEN
        v_minute := r.minute;
        minute_used := r.minute_requests;
      ELSE
        v_minute := v_this_minute;
        -- Zero, but in a minute that comes again after a clock was set back: its leases may still admit what they were granted, and give it back.
        SELECT coalesce(sum(o.slots), 0) INTO minute_used
          FROM lease o WHERE o.customer_id = r.customer AND o.slot_minute = v_minute AND o.slots IS NOT NULL;
      END IF;
      IF r.day >= v_today AND r.day <= v_today + 1 THEN
        v_day := r.day;
        day_used := r.day_requests;
        v_day_spent := r.day_spent_nanos;
        v_day_leased := r.day_leased_nanos;
        v_day_cap := r.day_cap_nanos;
      ELSE
        v_day := CASE WHEN r.account IS NOT NULL THEN v_today END;
        IF isfinite(r.day) THEN
          INSERT INTO day_spend (customer_id, day, spent_nanos, cap_nanos) VALUES (r.customer, r.day, r.day_spent_nanos, r.day_cap_nanos);
        END IF;
        DELETE FROM day_spend d WHERE d.customer_id = r.customer AND d.day = v_today RETURNING d.spent_nanos, d.cap_nanos INTO v_day_spent, v_day_cap;
        day_used := 0;
        v_day_leased := 0;
        IF FOUND THEN
          -- It was charged for requests that came late, or was at hand before by a clock that was days off since: then it has leases too.
          SELECT coalesce(sum(o.granted_nanos), 0), coalesce(sum(o.slots), 0) INTO v_day_leased, day_used
            FROM lease o WHERE o.customer_id = r.customer AND o.cap_day = v_today;
        ELSE
          v_day_spent := 0;
          v_day_cap := NULL;
        END IF;
      END IF;
      v_minute_ends_ms := extract(epoch FROM v_minute + interval '1 minute') * 1000;
      day_ends_ms := extract(epoch FROM (v_day + 1)::timestamp AT TIME ZONE 'UTC') * 1000;
    END IF;

    item := r.n;
    minute_ends_ms := v_minute_ends_ms;
    held := NULL;
    slots := r.slots;
    posted := r.posted_nanos;
    held_elsewhere := false;
    v_counted := r.counted_until_ms IS NOT DISTINCT FROM v_minute_ends_ms;
    v_counted_today := coalesce(r.counted_until_ms > day_ends_ms - 86400000, false);
    v_day_cap := greatest(v_day_cap, r.cap);
    cap_left := greatest(r.cap - v_day_spent - v_day_leased, 0);
    free := posted - v_leased;
    key_spent := NULL;
    key_left := NULL;
    key_ends_ms := NULL;
    v_key_window := NULL;
    IF r.key_limit IS NOT NULL AND r.account IS NOT NULL THEN
      v_key_window := key_window_start(r.key_reset, v_day);
      SELECT k.n INTO v_k FROM unnest(k_customers, k_keys, k_windows) WITH ORDINALITY AS k(customer, key, key_window, n)
        WHERE k.customer = r.customer AND k.key = r.key AND k.key_window = v_key_window;
      IF v_k IS NULL THEN
        v_k := cardinality(k_keys) + 1;
        k_customers := k_customers || r.customer;
        k_keys := k_keys || r.key;
        k_windows := k_windows || v_key_window;
        SELECT k.spent_nanos, k.leased_nanos INTO v_key_spent, v_key_leased FROM key_spend k
          WHERE k.customer_id = r.customer AND k.key_id = r.key AND k.window_start = v_key_window;
        k_spent := k_spent || coalesce(v_key_spent, 0);
        k_leased := k_leased || coalesce(v_key_leased, 0);
        k_granted := k_granted || 0::bigint;
      END IF;
      key_spent := k_spent[v_k];
      key_left := greatest(r.key_limit - key_spent - k_leased[v_k] - k_granted[v_k], 0);
      key_ends_ms := extract(epoch FROM key_window_end(r.key_reset, v_key_window)) * 1000;
    END IF;
    IF r.account IS NULL THEN
      verdict := 'no_account';
    ELSIF r.already IS NOT NULL THEN
      verdict := 'granted';
      held := r.already;
      slots := r.slots_already;
      IF r.minute_already <> v_minute THEN
        -- Asked again after the minute that its slots were counted in, or, by a clock that was set back, before it: it serves no more.
        minute_ends_ms := least(extract(epoch FROM r.minute_already + interval '1 minute') * 1000, now_ms);
      END IF;
    ELSIF r.slots IS NOT NULL THEN
      verdict := 'no_bulk';
      IF least(free, cap_left) >= r.floor THEN
        held := least(r.want, free / (2 * nodes), cap_left / (2 * nodes));
        slots := least(r.slots, (r.minute_limit - minute_used) / (2 * nodes), (r.day_limit - day_used) / (2 * nodes));
        -- Fewer requests than this are not worth the two updates that a lease costs.
        IF held > 0 AND slots >= 8 THEN
          verdict := 'granted';
          minute_used := minute_used + slots;
          day_used := day_used + slots;
        END IF;
      END IF;
    ELSIF minute_used >= r.minute_limit AND NOT v_counted THEN
      verdict := 'rate_limit_exceeded';
    ELSIF day_used >= r.day_limit AND NOT v_counted_today THEN
      verdict := 'daily_limit_exceeded';
    ELSE
      IF NOT v_counted THEN
        minute_used := minute_used + 1;
      END IF;
      IF NOT v_counted_today THEN
        day_used := day_used + 1;
      END IF;
      IF r.want IS NULL THEN
        verdict := 'counted';
      -- `key_left` is NULL without a limit, which least() passes over.
      ELSIF least(free, cap_left, key_left) >= r.floor THEN
        verdict := 'granted';
        held := least(r.want, free, cap_left, key_left);
      ELSE
        SELECT coalesce(sum(o.settled_nanos), 0), coalesce(sum(o.settled_nanos) FILTER (WHERE o.cap_day = v_day), 0)
          INTO v_unfolded, v_unfolded_today FROM lease o WHERE o.customer_id = r.customer AND o.slots IS NOT NULL;
        posted := posted - v_unfolded;
        IF posted < r.floor THEN
          verdict := 'insufficient_credits';
        ELSIF r.cap - v_day_spent - v_unfolded_today < r.floor THEN
          verdict := 'daily_spend_cap_reached';
        ELSIF r.key_limit - key_spent < r.floor THEN
          verdict := 'key_spend_limit_reached';
        ELSE
          -- Only until the customer's running requests have finished.
          verdict := 'in_flight_budget';
        END IF;
      END IF;
    END IF;
    IF verdict = 'granted' AND r.already IS NULL THEN
      v_leased := v_leased + held;
      v_day_leased := v_day_leased + held;
      l_items := l_items || item;
      l_granted := l_granted || held;
      l_slots := l_slots || slots;
      l_minute := l_minute || CASE WHEN slots IS NOT NULL THEN v_minute END;
      l_cap_day := l_cap_day || v_day;
      l_key_window := l_key_window || v_key_window;
      IF v_key_window IS NOT NULL THEN
        k_granted[v_k] := k_granted[v_k] + held;
      END IF;
    ELSIF verdict IN ('rate_limit_exceeded', 'daily_limit_exceeded') OR (verdict = 'in_flight_budget' AND least(free, cap_left) < r.floor) THEN
      held_elsewhere := EXISTS (SELECT FROM lease o WHERE o.customer_id = r.customer AND o.slots IS NOT NULL AND o.node_id <> p_node);
      IF held_elsewhere THEN
        v_recalled := v_recalled || r.customer;
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;

  IF v_day IS NOT NULL THEN
    b_customers := b_customers || v_customer;
    b_leased := b_leased || v_leased;
    b_minute := b_minute || v_minute;
    b_minute_requests := b_minute_requests || minute_used;
    b_day := b_day || v_day;
    b_day_requests := b_day_requests || day_used;
    b_day_spent := b_day_spent || v_day_spent;
    b_day_leased := b_day_leased || v_day_leased;
    b_day_cap := b_day_cap || v_day_cap;
  END IF;
  UPDATE balance b SET leased_nanos = s.leased, minute = s.minute, minute_requests = s.minute_requests,
      day = s.day, day_requests = s.day_requests, day_spent_nanos = s.day_spent, day_leased_nanos = s.day_leased, day_cap_nanos = s.day_cap
    FROM unnest(b_customers, b_leased, b_minute, b_minute_requests, b_day, b_day_requests, b_day_spent, b_day_leased, b_day_cap)
      AS s(customer, leased, minute, minute_requests, day, day_requests, day_spent, day_leased, day_cap)
    WHERE b.customer_id = s.customer AND b.customer_id = ANY (b_customers);
  INSERT INTO lease (lease_id, customer_id, node_id, key_id, model_id, key_window, granted_nanos, slots, slot_minute, cap_day)
    SELECT p_leases[g.n], p_customers[g.n], p_node, p_keys[g.n], p_models[g.n], g.key_window, g.granted, g.slots, g.minute, g.cap_day
    FROM unnest(l_items, l_granted, l_slots, l_minute, l_cap_day, l_key_window) AS g(n, granted, slots, minute, cap_day, key_window);
  IF cardinality(k_keys) > 0 THEN
    INSERT INTO key_spend AS k (customer_id, key_id, window_start, leased_nanos)
      SELECT g.customer, g.key, g.key_window, g.granted
      FROM unnest(k_customers, k_keys, k_windows, k_granted) AS g(customer, key, key_window, granted) WHERE g.granted > 0
      ON CONFLICT (customer_id, key_id, window_start) DO UPDATE SET leased_nanos = k.leased_nanos + excluded.leased_nanos;
  END IF;
  IF cardinality(v_recalled) > 0 THEN
    PERFORM 1 FROM lease o WHERE o.customer_id = ANY (v_recalled) AND o.slots IS NOT NULL AND o.node_id <> p_node AND NOT o.recalled
      ORDER BY o.lease_id FOR NO KEY UPDATE;
    UPDATE lease o SET recalled = true WHERE o.customer_id = ANY (v_recalled) AND o.slots IS NOT NULL AND o.node_id <> p_node AND NOT o.recalled;
  END IF;
END $$;

-- Folds bulk leases and gives back what their node does not need: all of it, or all but `keep` when that is not NULL and requests still run
-- on the lease; and every slot beyond the `slots_used`. Sent again it finds nothing left to do. Answers the leases that existed.
CREATE FUNCTION hand_back_leases(p_leases uuid[], p_keeps bigint[], p_slots_used integer[]) RETURNS SETOF uuid
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '2s' AS $$
DECLARE
  v_customers uuid[];
BEGIN
  SELECT array_agg(DISTINCT customer_id) INTO v_customers FROM lease WHERE lease_id = ANY (p_leases) AND slots IS NOT NULL;
  PERFORM 1 FROM balance WHERE customer_id = ANY (v_customers) ORDER BY customer_id FOR NO KEY UPDATE;
  -- Settlements lock the lease alone.
  PERFORM 1 FROM lease WHERE lease_id = ANY (p_leases) ORDER BY lease_id FOR UPDATE;
  RETURN QUERY
  WITH folding AS (
    SELECT l.lease_id, l.customer_id, l.cap_day, l.slot_minute, i.keep, l.settled_nanos AS settled,
      greatest(l.granted_nanos - l.settled_nanos - coalesce(i.keep, 0), 0) AS given, greatest(l.slots - i.slots_used, 0) AS unused
    FROM (SELECT * FROM lease WHERE lease_id = ANY (p_leases) AND slots IS NOT NULL) l
    -- A lease that is in the batch twice, to shrink and then to close, is folded once.
    JOIN (
      SELECT lease, CASE WHEN bool_and(keep IS NOT NULL) THEN min(keep) END AS keep, max(slots_used) AS slots_used
      FROM unnest(p_leases, p_keeps, p_slots_used) AS i(lease, keep, slots_used) GROUP BY lease
    ) i ON i.lease = l.lease_id
  ), closed AS (
    DELETE FROM lease l USING folding f WHERE l.lease_id = f.lease_id AND l.lease_id = ANY (p_leases) AND f.keep IS NULL
  ), kept AS (
    UPDATE lease l SET granted_nanos = l.granted_nanos - f.settled - f.given, settled_nanos = 0, slots = l.slots - f.unused, recalled = false
    FROM folding f WHERE l.lease_id = f.lease_id AND l.lease_id = ANY (p_leases) AND f.keep IS NOT NULL
  ), returned AS (
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
    ) s WHERE b.customer_id = s.customer_id AND b.customer_id = ANY (v_customers)
  ), other_days AS (
    INSERT INTO day_spend AS d (customer_id, day, spent_nanos, cap_nanos)
    SELECT f.customer_id, f.cap_day, sum(f.settled), o.day_cap_nanos
    FROM folding f JOIN balance o USING (customer_id)
    WHERE o.customer_id = ANY (v_customers) AND f.cap_day <> o.day AND f.settled > 0 GROUP BY f.customer_id, f.cap_day, o.day_cap_nanos
    ON CONFLICT (customer_id, day) DO UPDATE SET spent_nanos = d.spent_nanos + excluded.spent_nanos
  )
  SELECT lease_id FROM folding;
END $$;

-- ---------------------------------------------------------------- settlement

-- One request as `settle_batch` is asked to end it. The records of the journal are rows of it as text, and are sent as they are:
-- whoever adds, removes or moves a field here does so in src/ledger/settlement/settlement-record.ts, with a new version.
CREATE TYPE settlement_asked AS (
  version integer, request uuid, customer uuid, lease uuid, key uuid, started_ms bigint, model text, provider text, endpoint text, hoster uuid,
  input_tokens integer, output_tokens integer, reported_input_tokens integer, reported_output_tokens integer,
  counted_input_tokens integer, counted_output_tokens integer, usage_source text,
  input_price bigint, output_price bigint, price_version integer,
  hold bigint, cost bigint, hoster_share bigint, fee bigint, writeoff bigint, latency_ms integer, first_token_ms integer,
  success boolean, outcome text, finish_reason text, attempts json, routing jsonb);

-- Ends a batch of requests: writes their usage rows, charges them, returns what their leases held, adds them to the sums of their hours and days.
-- Each is a settlement_asked as text, with a record separator (U+001E) before the next: read in a third of the time that json takes.
-- A request whose row exists is done already and changes nothing, so a batch may be sent again after an ambiguous commit. The exception is
-- the row `node_died` of the reaper: it was only presumed, and gives way to what really happened.
-- A request that names another lease than its own id was admitted by that bulk lease, which is charged; the balance row is not touched.
-- Answers only for what did not go as asked: 'duplicate', 'clamped' (cost above the lease, the rest written off),
-- 'late' (lease gone, charged from free balance), 'written_off' (lease gone, and the free balance, the cap of its day or the key's spend limit
-- has no room), 'no_account',
-- 'fenced' (bulk lease gone or too small: nothing was done; it is to be sent again under its own id, which settles it late).
CREATE FUNCTION settle_batch(p_node_shard smallint, p_settlements text)
RETURNS TABLE (odd_request uuid, effect text)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '2s' AS $$
DECLARE
  v_asked settlement_asked[] := ARRAY(SELECT record::settlement_asked FROM string_to_table(p_settlements, E'\x1e') AS record);
  r record;
  v_customer uuid;
  v_free bigint;
  v_tx bigint;
  v_charged bigint;
  -- Customers and requests with strict leases, and those leases as far as they exist: they end here.
  s_customers uuid[];
  s_requests uuid[];
  l_ids uuid[] := '{}';
  l_customers uuid[] := '{}';
  l_granted bigint[] := '{}';
  l_cap_days date[] := '{}';
  l_keys uuid[] := '{}';
  l_key_windows date[] := '{}';
  -- Bulk leases that are charged here.
  b_ids uuid[];
  b_customers uuid[];
  b_costs numeric[];
  b_cap_days date[] := '{}';
  -- Requests without a lease that are charged from free balance.
  v_late uuid[] := '{}';
  v_late_windows date[] := '{}';
  v_late_days date[] := '{}';
  v_cap_day date;
  v_cap_left bigint;
  v_seen uuid[] := '{}';
  -- Requests that are done already or cannot be charged at all.
  v_skipped uuid[] := '{}';
BEGIN
  SELECT array_agg(DISTINCT i.customer) FILTER (WHERE NOT is_bulk), array_agg(i.lease) FILTER (WHERE NOT is_bulk),
      array_agg(i.lease) FILTER (WHERE is_bulk), array_agg(i.customer) FILTER (WHERE is_bulk), array_agg(i.cost) FILTER (WHERE is_bulk)
    INTO s_customers, s_requests, b_ids, b_customers, b_costs
    FROM (
      SELECT lease, customer, lease <> request AS is_bulk, sum(least(cost, hold)) AS cost FROM unnest(v_asked) GROUP BY lease, customer, is_bulk
    ) i;

  IF s_customers IS NOT NULL THEN
    PERFORM 1 FROM balance WHERE customer_id = ANY (s_customers) ORDER BY customer_id FOR NO KEY UPDATE;
    WITH gone AS (
      DELETE FROM lease WHERE lease_id = ANY (s_requests) AND customer_id = ANY (s_customers) AND slots IS NULL
      RETURNING lease_id, customer_id, granted_nanos, cap_day, key_id, key_window)
    SELECT coalesce(array_agg(lease_id), '{}'), coalesce(array_agg(customer_id), '{}'), coalesce(array_agg(granted_nanos), '{}'), coalesce(array_agg(cap_day), '{}'),
        coalesce(array_agg(key_id), '{}'), coalesce(array_agg(key_window), '{}')
      INTO l_ids, l_customers, l_granted, l_cap_days, l_keys, l_key_windows FROM gone;
  END IF;

  IF b_ids IS NOT NULL THEN
    PERFORM 1 FROM lease WHERE lease_id = ANY (b_ids) ORDER BY lease_id FOR NO KEY UPDATE;
    -- Which of them is odd is looked for only where one is: a lease is gone, or room is short.
    IF EXISTS (
      SELECT FROM unnest(b_ids, b_customers, b_costs) AS i(lease, customer, cost)
      LEFT JOIN (SELECT * FROM lease WHERE lease_id = ANY (b_ids) AND slots IS NOT NULL) l ON l.lease_id = i.lease AND l.customer_id = i.customer
      WHERE l.lease_id IS NULL OR i.cost > l.granted_nanos - l.settled_nanos
    ) THEN
      -- What is settled already takes no room in the lease again.
      FOR odd_request, effect IN
        SELECT i.request, 'fenced'
        FROM (
          SELECT j.*, sum(j.cost) FILTER (WHERE NOT j.done) OVER (PARTITION BY j.lease ORDER BY j.n) AS so_far
          FROM (
            SELECT q.*, CASE WHEN q.asked > q.room
              THEN EXISTS (SELECT FROM usage_event u WHERE u.customer_id = q.customer AND u.request_id = q.request) ELSE false END AS done
            FROM (
              SELECT p.request, p.customer, p.lease, least(p.cost, p.hold) AS cost, p.ordinality AS n, l.granted_nanos - l.settled_nanos AS room,
                sum(least(p.cost, p.hold)) OVER (PARTITION BY p.lease) AS asked
              FROM unnest(v_asked) WITH ORDINALITY AS p
              LEFT JOIN (SELECT * FROM lease WHERE lease_id = ANY (b_ids) AND slots IS NOT NULL) l ON l.lease_id = p.lease AND l.customer_id = p.customer
              WHERE p.lease <> p.request
            ) q
          ) j
        ) i
        WHERE i.room IS NULL OR (NOT i.done AND i.so_far > i.room)
      LOOP
        v_skipped := v_skipped || odd_request;
        RETURN NEXT;
      END LOOP;
    END IF;
    SELECT coalesce(array_agg(lease_id), '{}'), coalesce(array_agg(cap_day), '{}') INTO b_ids, b_cap_days FROM lease WHERE lease_id = ANY (b_ids);
  END IF;

  IF cardinality(l_ids) < cardinality(s_requests) THEN
    FOR r IN
      SELECT i.request, i.customer, i.cost AS asked, least(i.cost, i.hold) AS cost, b.posted_nanos, b.leased_nanos, b.day, b.customer_id AS account,
        u.outcome AS done, u.key_id AS key, u.key_window,
        -- The reaper knew the day of a strict lease; a request of a bulk lease was admitted when it began.
        coalesce(u.cap_day, (to_timestamp(i.started_ms / 1000::float8) AT TIME ZONE 'UTC')::date) AS cap_day
      FROM unnest(v_asked) WITH ORDINALITY AS i
      LEFT JOIN (SELECT * FROM balance WHERE customer_id = ANY (s_customers)) b ON b.customer_id = i.customer
      LEFT JOIN LATERAL (
        SELECT e.outcome, e.key_id, e.key_window, e.cap_day FROM usage_event e WHERE e.customer_id = i.customer AND e.request_id = i.request
      ) u ON true
      WHERE i.lease = i.request AND i.request <> ALL (l_ids)
      ORDER BY i.customer, cap_day, i.ordinality
    LOOP
      -- A batch may hold the same request twice: the first one counts.
      CONTINUE WHEN r.request = ANY (v_seen);
      v_seen := v_seen || r.request;
      odd_request := r.request;
      IF v_customer IS DISTINCT FROM r.customer THEN
        v_customer := r.customer;
        v_free := r.posted_nanos - r.leased_nanos;
        v_cap_day := NULL;
      END IF;
      IF r.done = 'node_died' THEN
        PERFORM withdraw_presumed_death(r.customer, r.request, p_node_shard);
      END IF;
      IF r.account IS NULL THEN
        v_skipped := v_skipped || r.request;
        effect := 'no_account';
        RETURN NEXT;
      ELSIF r.done IS NOT NULL AND r.done <> 'node_died' THEN
        v_skipped := v_skipped || r.request;
        effect := 'duplicate';
        RETURN NEXT;
      ELSIF r.asked = 0 THEN
        -- Free: its row is written below, and is nothing odd.
        NULL;
      ELSE
        IF v_cap_day IS DISTINCT FROM r.cap_day THEN
          v_cap_day := r.cap_day;
          -- What ends in this batch is still held: its rows come below.
          SELECT late_cap_left(r.customer, r.cap_day) - coalesce(sum(l.granted), 0) INTO v_cap_left
            FROM unnest(l_customers, l_granted, l_cap_days) AS l(customer, granted, cap_day)
            WHERE l.customer = r.customer AND l.cap_day = r.cap_day AND r.cap_day <> r.day;
        END IF;
        IF r.cost > 0 AND r.cost <= least(v_free, v_cap_left)
          AND (r.key_window IS NULL OR spend_late(r.customer, r.key, r.key_window, r.cost)) THEN
          v_free := v_free - r.cost;
          v_cap_left := v_cap_left - r.cost;
          v_late := v_late || r.request;
          v_late_windows := v_late_windows || r.key_window;
          v_late_days := v_late_days || r.cap_day;
          effect := 'late';
        ELSE
          effect := 'written_off';
        END IF;
        RETURN NEXT;
      END IF;
    END LOOP;
  END IF;

  -- asked: what each is charged. ins: the rows that are new, and sums of them. From those: bulk leases (spent), balances (moved, paid), spend limits
  -- of keys (key_paid), entries of the ledger, and the sums that reports read (by_hour, by_day, by_key).
  v_tx := nextval('ledger_tx_tx_id_seq');
  WITH asked AS (
    SELECT i.*, l.granted, coalesce(l.cap_day, b.cap_day, t.cap_day) AS cap_day, coalesce(l.key_window, t.key_window) AS key_window,
      coalesce(l.granted, i.hold) AS held,
      CASE WHEN l.granted IS NOT NULL THEN least(i.cost, l.granted)
        WHEN b.lease IS NOT NULL OR i.request = ANY (v_late) THEN least(i.cost, i.hold) ELSE 0 END AS charge
    FROM unnest(v_asked) WITH ORDINALITY AS i
    LEFT JOIN unnest(l_ids, l_customers, l_granted, l_cap_days, l_key_windows) AS l(lease, customer, granted, cap_day, key_window)
      ON l.lease = i.request AND l.customer = i.customer
    LEFT JOIN unnest(v_late, v_late_windows, v_late_days) AS t(request, key_window, cap_day) ON t.request = i.request
    LEFT JOIN unnest(b_ids, b_cap_days) AS b(lease, cap_day) ON b.lease = i.lease
  ), shared AS (
    -- A smaller charge is shared in the proportion of the asked one, the hoster's part rounded down as in splitCost.
    SELECT *, CASE WHEN charge = cost THEN hoster_share ELSE div(hoster_share::numeric * charge, cost)::bigint END AS hoster_part
    FROM asked
  ), ins AS (
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
      CASE WHEN charge > 0 THEN v_tx END, cap_day, key_window
    FROM shared
    WHERE request <> ALL (v_skipped)
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING request_id, customer_id, key_id, started_at, model_id, provider, hoster_id, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, cap_day
  ), lease_of AS (
    -- A batch may hold the same request twice.
    SELECT DISTINCT ON (request) request, nullif(lease, request) AS bulk_lease FROM asked ORDER BY request, ordinality
  ), sums AS (
    -- As fine as all that is summed below, so that the rows are grouped once. Only key_paid goes back to them: it is by request.
    SELECT ins.customer_id, l.bulk_lease, ins.cap_day, ins.hoster_id, ins.key_id, ins.model_id, ins.provider,
      date_trunc('hour', ins.started_at, 'UTC') AS hour, count(*) AS requests, count(*) FILTER (WHERE ins.success) AS successes,
      sum(ins.input_tokens) AS input_tokens, sum(ins.output_tokens) AS output_tokens,
      sum(ins.cost_nanos)::bigint AS cost_nanos, sum(ins.hoster_share_nanos)::bigint AS hoster_share_nanos, sum(ins.fee_nanos)::bigint AS fee_nanos,
      coalesce(sum(ins.latency_ms) FILTER (WHERE ins.success), 0) AS latency_ms_sum
    FROM ins JOIN lease_of l ON l.request = ins.request_id
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
  ), spent AS (
    UPDATE lease l SET settled_nanos = l.settled_nanos + s.cost
    FROM (SELECT bulk_lease, sum(cost_nanos)::bigint AS cost FROM sums WHERE bulk_lease IS NOT NULL GROUP BY bulk_lease) s
    WHERE l.lease_id = s.bulk_lease AND l.lease_id = ANY (b_ids) AND s.cost > 0
  ), moved AS (
    SELECT m.customer, sum(m.cost)::bigint AS cost, sum(m.granted)::bigint AS granted,
      (sum(m.cost) FILTER (WHERE m.cap_day = b.day))::bigint AS day_cost, (sum(m.granted) FILTER (WHERE m.cap_day = b.day))::bigint AS day_granted
    FROM (
      SELECT customer_id AS customer, cost_nanos AS cost, 0 AS granted, cap_day FROM sums WHERE bulk_lease IS NULL
      UNION ALL
      SELECT customer, 0, granted, cap_day FROM unnest(l_customers, l_granted, l_cap_days) AS l(customer, granted, cap_day)
    ) m
    JOIN (SELECT customer_id, day FROM balance WHERE customer_id = ANY (s_customers)) b ON b.customer_id = m.customer
    GROUP BY m.customer
  ), paid AS (
    UPDATE balance b SET posted_nanos = b.posted_nanos - m.cost, leased_nanos = b.leased_nanos - m.granted,
      day_spent_nanos = b.day_spent_nanos + coalesce(m.day_cost, 0), day_leased_nanos = b.day_leased_nanos - coalesce(m.day_granted, 0)
    FROM moved m WHERE b.customer_id = m.customer AND b.customer_id = ANY (s_customers)
  ), other_days AS (
    INSERT INTO day_spend AS d (customer_id, day, spent_nanos, cap_nanos)
    SELECT s.customer_id, s.cap_day, sum(s.cost_nanos), b.day_cap_nanos
    FROM sums s JOIN (SELECT customer_id, day, day_cap_nanos FROM balance WHERE customer_id = ANY (s_customers)) b USING (customer_id)
    WHERE s.bulk_lease IS NULL AND s.cap_day <> b.day AND s.cost_nanos > 0 GROUP BY s.customer_id, s.cap_day, b.day_cap_nanos
    ON CONFLICT (customer_id, day) DO UPDATE SET spent_nanos = d.spent_nanos + excluded.spent_nanos
  ), key_paid AS (
    UPDATE key_spend k SET spent_nanos = k.spent_nanos + s.cost, leased_nanos = k.leased_nanos - s.granted
    FROM (
      SELECT l.customer, l.key, l.key_window, sum(l.granted)::bigint AS granted, coalesce(sum(ins.cost_nanos), 0)::bigint AS cost
      FROM unnest(l_ids, l_customers, l_keys, l_granted, l_key_windows) AS l(lease, customer, key, granted, key_window)
      LEFT JOIN ins ON ins.request_id = l.lease AND ins.customer_id = l.customer
      WHERE l.key_window IS NOT NULL GROUP BY l.customer, l.key, l.key_window
    ) s WHERE k.customer_id = s.customer AND k.key_id = s.key AND k.window_start = s.key_window AND k.customer_id = ANY (s_customers)
  ), entries AS (
    INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT v_tx, e.kind, e.account, e.amount FROM (
      SELECT 'customer' AS kind, customer_id AS account, -sum(cost_nanos)::bigint AS amount FROM sums GROUP BY customer_id
      UNION ALL
      SELECT 'hoster_payable', hoster_id, sum(hoster_share_nanos)::bigint FROM sums WHERE hoster_share_nanos > 0 GROUP BY hoster_id
      UNION ALL
      SELECT 'platform_revenue', '00000000-0000-0000-0000-000000000000'::uuid, sum(fee_nanos)::bigint FROM sums
    ) e WHERE e.amount <> 0
  ), by_hour AS (
    -- In the order of the keys, here and below: calls that run at the same time take the rows in the same order.
    INSERT INTO usage_hour AS u (customer_id, hour, node_shard, requests, successes, local_requests, hoster_requests, cloud_requests,
      input_tokens, output_tokens, cost_nanos, latency_ms_sum)
    SELECT customer_id, hour, p_node_shard, sum(requests), sum(successes),
      coalesce(sum(requests) FILTER (WHERE provider = 'local'), 0), coalesce(sum(requests) FILTER (WHERE provider = 'hoster'), 0),
      coalesce(sum(requests) FILTER (WHERE provider = 'cloud'), 0),
      sum(input_tokens), sum(output_tokens), sum(cost_nanos), sum(latency_ms_sum)
    FROM sums GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (customer_id, hour, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      local_requests = u.local_requests + excluded.local_requests, hoster_requests = u.hoster_requests + excluded.hoster_requests,
      cloud_requests = u.cloud_requests + excluded.cloud_requests,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum
  ), by_day AS (
    INSERT INTO usage_day AS u (customer_id, day, model_id, provider, node_shard, requests, successes,
      input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
    SELECT customer_id, (hour AT TIME ZONE 'UTC')::date, model_id, provider, p_node_shard, sum(requests), sum(successes),
      sum(input_tokens), sum(output_tokens), sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), sum(latency_ms_sum)
    FROM sums GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, hoster_share_nanos = u.hoster_share_nanos + excluded.hoster_share_nanos,
      fee_nanos = u.fee_nanos + excluded.fee_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum
  ), by_key AS (
    INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT customer_id, key_id, (hour AT TIME ZONE 'UTC')::date, p_node_shard, sum(requests), sum(cost_nanos)
    FROM sums WHERE key_id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos
  )
  SELECT coalesce(sum(cost_nanos), 0)::bigint INTO v_charged FROM sums;

  IF v_charged > 0 THEN
    INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (v_tx, 'settle', gen_random_uuid()::text);
  END IF;
  IF cardinality(l_ids) > 0 THEN
    RETURN QUERY
      SELECT i.request, 'clamped' FROM unnest(v_asked) AS i
      JOIN unnest(l_ids, l_granted) AS l(lease, granted) ON l.lease = i.request WHERE i.cost > l.granted;
  END IF;
END $$;

-- Charges a request whose lease is gone to the spend limit of its key, in the window of that lease, if the limit has room; whether it had.
CREATE FUNCTION spend_late(p_customer uuid, p_key uuid, p_window date, p_cost bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE key_spend k SET spent_nanos = k.spent_nanos + p_cost
  WHERE k.customer_id = p_customer AND k.key_id = p_key AND k.window_start = p_window
    AND k.spent_nanos + k.leased_nanos + p_cost <= coalesce((SELECT a.spend_limit_nanos FROM api_key a WHERE a.key_id = p_key), 9223372036854775807);
  RETURN FOUND;
END $$;

-- What the daily spend cap leaves for a request of that day whose lease is gone. Asked for once per customer and day of a batch.
CREATE FUNCTION late_cap_left(p_customer uuid, p_day date) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN b.day = p_day THEN coalesce(b.day_cap_nanos, 9223372036854775807) - b.day_spent_nanos - b.day_leased_nanos
    ELSE coalesce(d.cap_nanos, b.day_cap_nanos, 9223372036854775807) - coalesce(d.spent_nanos, 0)
      - (SELECT coalesce(sum(o.granted_nanos), 0)::bigint FROM lease o WHERE o.customer_id = p_customer AND o.cap_day = p_day) END
  FROM balance b LEFT JOIN day_spend d ON d.customer_id = b.customer_id AND d.day = p_day
  WHERE b.customer_id = p_customer
$$;

-- Takes back the row that the reaper wrote for a request of a node it took for dead. Its shard of the sums may differ from the reaper's:
-- only the sum of the shards means something.
CREATE FUNCTION withdraw_presumed_death(p_customer uuid, p_request uuid, p_node_shard smallint) RETURNS void
LANGUAGE sql AS $$
  WITH gone AS (
    DELETE FROM usage_event WHERE customer_id = p_customer AND request_id = p_request AND outcome = 'node_died' RETURNING key_id, started_at, model_id
  ), by_hour AS (
    INSERT INTO usage_hour AS u (customer_id, hour, node_shard, requests, successes, local_requests, hoster_requests, cloud_requests,
      input_tokens, output_tokens, cost_nanos, latency_ms_sum)
    SELECT p_customer, date_trunc('hour', started_at, 'UTC'), p_node_shard, -1, 0, 0, 0, 0, 0, 0, 0, 0 FROM gone
    ON CONFLICT (customer_id, hour, node_shard) DO UPDATE SET requests = u.requests - 1
  ), by_key AS (
    INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT p_customer, key_id, (started_at AT TIME ZONE 'UTC')::date, p_node_shard, -1, 0 FROM gone WHERE key_id IS NOT NULL
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET requests = u.requests - 1
  )
  INSERT INTO usage_day AS u (customer_id, day, model_id, provider, node_shard, requests, successes,
    input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
  SELECT p_customer, (started_at AT TIME ZONE 'UTC')::date, model_id, 'none', p_node_shard, -1, 0, 0, 0, 0, 0, 0, 0 FROM gone
  ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET requests = u.requests - 1
$$;

-- ---------------------------------------------------------------- leases whose owner is gone

-- Gives back the money of these leases without a usage row: their requests never ran. Answers the ids that existed.
CREATE FUNCTION release_leases(p_leases uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '2s' AS $$
DECLARE
  v_customers uuid[];
BEGIN
  SELECT array_agg(DISTINCT customer_id) INTO v_customers FROM lease WHERE lease_id = ANY (p_leases);
  PERFORM 1 FROM balance WHERE customer_id = ANY (v_customers) ORDER BY customer_id FOR NO KEY UPDATE;
  RETURN QUERY
  WITH gone AS (
    DELETE FROM lease WHERE lease_id = ANY (p_leases) AND customer_id = ANY (v_customers)
    RETURNING lease_id, customer_id, key_id, key_window, granted_nanos, cap_day
  ), key_returned AS (
    UPDATE key_spend k SET leased_nanos = k.leased_nanos - s.granted
    FROM (
      SELECT customer_id, key_id, key_window, sum(granted_nanos)::bigint AS granted FROM gone
      WHERE key_window IS NOT NULL GROUP BY customer_id, key_id, key_window
    ) s WHERE k.customer_id = s.customer_id AND k.key_id = s.key_id AND k.window_start = s.key_window AND k.customer_id = ANY (v_customers)
  ), returned AS (
    UPDATE balance b SET leased_nanos = b.leased_nanos - s.granted, day_leased_nanos = b.day_leased_nanos - s.day_granted
    FROM (
      SELECT g.customer_id, sum(g.granted_nanos)::bigint AS granted,
        coalesce(sum(g.granted_nanos) FILTER (WHERE g.cap_day = o.day), 0)::bigint AS day_granted
      FROM gone g JOIN balance o USING (customer_id) WHERE o.customer_id = ANY (v_customers) GROUP BY g.customer_id
    ) s WHERE b.customer_id = s.customer_id AND b.customer_id = ANY (v_customers)
  )
  SELECT lease_id FROM gone;
END $$;

-- Ends the leases that one customer has with dead nodes: folds them, returns the money, and leaves a free usage row `node_died` for each strict
-- one. The requests of a bulk lease were known to its node alone; its slots stay counted.
-- A node without a row counts as dead. Answers how many there were.
CREATE FUNCTION reclaim_leases(p_customer uuid, p_node_shard smallint) RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_leases uuid[];
  v_reclaimed bigint;
BEGIN
  PERFORM 1 FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  v_leases := ARRAY(
    SELECT l.lease_id FROM lease l
    WHERE l.customer_id = p_customer AND NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')
    ORDER BY l.lease_id FOR UPDATE);
  WITH gone AS (
    DELETE FROM lease l WHERE l.lease_id = ANY (v_leases) RETURNING l.*
  ), ins AS (
    INSERT INTO usage_event (customer_id, request_id, key_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
      input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome, cap_day, key_window)
    SELECT customer_id, lease_id, key_id, granted_at, coalesce(model_id, ''), 'none', 0, 0, 'none',
      0, 0, granted_nanos, 0, 0, 0, 0, false, 'node_died', cap_day, key_window
    FROM gone WHERE slots IS NULL
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING key_id, started_at, model_id
  ), key_returned AS (
    UPDATE key_spend k SET leased_nanos = k.leased_nanos - s.granted
    FROM (SELECT key_id, key_window, sum(granted_nanos)::bigint AS granted FROM gone WHERE key_window IS NOT NULL GROUP BY key_id, key_window) s
    WHERE k.customer_id = p_customer AND k.key_id = s.key_id AND k.window_start = s.key_window
  ), returned AS (
    UPDATE balance b SET posted_nanos = b.posted_nanos - s.settled, leased_nanos = b.leased_nanos - s.granted,
      day_spent_nanos = b.day_spent_nanos + s.day_settled, day_leased_nanos = b.day_leased_nanos - s.day_granted
    FROM (
      SELECT sum(g.granted_nanos)::bigint AS granted, sum(g.settled_nanos)::bigint AS settled,
        coalesce(sum(g.granted_nanos) FILTER (WHERE g.cap_day = o.day), 0)::bigint AS day_granted,
        coalesce(sum(g.settled_nanos) FILTER (WHERE g.cap_day = o.day), 0)::bigint AS day_settled
      FROM gone g JOIN balance o USING (customer_id) WHERE o.customer_id = p_customer HAVING count(*) > 0
    ) s WHERE b.customer_id = p_customer
  ), other_days AS (
    INSERT INTO day_spend AS d (customer_id, day, spent_nanos, cap_nanos)
    SELECT p_customer, g.cap_day, sum(g.settled_nanos), o.day_cap_nanos
    FROM gone g JOIN balance o USING (customer_id)
    WHERE o.customer_id = p_customer AND g.cap_day <> o.day AND g.settled_nanos > 0 GROUP BY g.cap_day, o.day_cap_nanos
    ON CONFLICT (customer_id, day) DO UPDATE SET spent_nanos = d.spent_nanos + excluded.spent_nanos
  ), by_hour AS (
    INSERT INTO usage_hour AS u (customer_id, hour, node_shard, requests, successes, local_requests, hoster_requests, cloud_requests,
      input_tokens, output_tokens, cost_nanos, latency_ms_sum)
    SELECT p_customer, date_trunc('hour', started_at, 'UTC'), p_node_shard, count(*), 0, 0, 0, 0, 0, 0, 0, 0
    FROM ins GROUP BY 2 ORDER BY 2
    ON CONFLICT (customer_id, hour, node_shard) DO UPDATE SET requests = u.requests + excluded.requests
  ), by_day AS (
    INSERT INTO usage_day AS u (customer_id, day, model_id, provider, node_shard, requests, successes,
      input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
    SELECT p_customer, (started_at AT TIME ZONE 'UTC')::date, model_id, 'none', p_node_shard, count(*), 0, 0, 0, 0, 0, 0, 0
    FROM ins GROUP BY 2, 3 ORDER BY 2, 3
    ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET requests = u.requests + excluded.requests
  ), by_key AS (
    INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT p_customer, key_id, (started_at AT TIME ZONE 'UTC')::date, p_node_shard, count(*), 0
    FROM ins WHERE key_id IS NOT NULL GROUP BY 2, 3 ORDER BY 2, 3
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET requests = u.requests + excluded.requests
  )
  SELECT count(*) INTO v_reclaimed FROM gone;
  RETURN v_reclaimed;
END $$;

-- ---------------------------------------------------------------- partitions of usage_event

-- Adds the partition `p_name` for request ids in [p_from, p_to), which are a span of time. Rows that came before their partition are moved
-- out of the default one. False when it exists.
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
  EXECUTE format('CREATE TABLE %I (LIKE usage_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', p_name);
  EXECUTE format(
    'WITH moved AS (DELETE FROM usage_event_default WHERE request_id >= %L AND request_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    p_from, p_to, p_name);
  -- Attached and not created as a partition: this locks nothing that a settlement needs, except the default partition.
  EXECUTE format('ALTER TABLE usage_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', p_name, p_from, p_to);
  RETURN true;
END $$;

-- ---------------------------------------------------------------- the ledger is append only

CREATE FUNCTION refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append only: correct it with a new transaction', TG_TABLE_NAME;
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_tx FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
