-- Budgets of teams: spend limits of members, and labels of requests with their spend. A member's limit covers all keys that the
-- person made in the console. It works like the spend limit of a key: such keys are admitted by strict leases only, so spend and
-- holds are known under the lock of the balance, to the nano-USD, over all nodes.

-- ---------------------------------------------------------------- limits of members

-- The limit stays when the person leaves, because the keys stay. NULL means no limit: the row keeps the highest one.
CREATE TABLE member_limit (
  customer_id   uuid NOT NULL REFERENCES customer,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  spend_limit_nanos bigint CHECK (spend_limit_nanos >= 0),
  -- The highest limit that the member has had, as in api_key.
  highest_limit_nanos bigint NOT NULL,
  limit_reset   text NOT NULL DEFAULT 'none' CHECK (limit_reset IN ('none', 'daily', 'weekly', 'monthly')),
  PRIMARY KEY (customer_id, person_id)
);

-- What members with a limit have spent and hold, as key_spend has it for keys. Read and written only under the lock of the
-- customer's balance row.
CREATE TABLE member_spend (
  customer_id   uuid NOT NULL,
  person_id     uuid NOT NULL,
  window_start  date NOT NULL,
  spent_nanos   bigint NOT NULL DEFAULT 0 CHECK (spent_nanos >= 0),
  leased_nanos  bigint NOT NULL DEFAULT 0 CHECK (leased_nanos >= 0),
  PRIMARY KEY (customer_id, person_id, window_start)
) WITH (fillfactor = 50);

-- The member and the window of the limit that a lease counts against. NULL without a limit. Strict leases only.
ALTER TABLE lease ADD COLUMN member_id uuid, ADD COLUMN member_window date;

-- The start of the window that the next admission would use, for reports. Like open_windows, it keeps a day of the balance that is at
-- most one day ahead of the clock.
CREATE FUNCTION next_window_start(p_reset text, p_balance_day date, p_today date) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT key_window_start(p_reset, CASE WHEN p_balance_day > p_today AND p_balance_day <= p_today + 1 THEN p_balance_day ELSE p_today END)
$$;

-- ---------------------------------------------------------------- labels

-- A label says what a request is for, such as a project. A request has the label of its header, else that of its key.
ALTER TABLE api_key ADD COLUMN label text CHECK (label ~ '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,63}$');

-- What requests with each label were charged, as in usage_key_day. A node adds at most 200 labels of a customer to a day; the
-- requests with further ones are summed under the empty label. Reports therefore read few rows, whatever clients send.
CREATE TABLE usage_label_day (
  customer_id   uuid NOT NULL,
  label         text NOT NULL,
  -- The UTC day the request began.
  day           date NOT NULL,
  node_shard    smallint NOT NULL,
  requests      bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  PRIMARY KEY (customer_id, day, label, node_shard)
) WITH (fillfactor = 70);
-- The days of all customers, for operators.
CREATE INDEX usage_label_day_day ON usage_label_day (day);

-- ---------------------------------------------------------------- usage rows

-- The view is made again with the new columns, which are NULL for most requests, so that their rows do not grow.
DROP VIEW usage_row;
ALTER TABLE usage_event ADD COLUMN label text, ADD COLUMN member_id uuid, ADD COLUMN member_window date;
ALTER TABLE usage_frozen ADD COLUMN label text, ADD COLUMN member_id uuid, ADD COLUMN member_window date;
CREATE VIEW usage_row AS SELECT * FROM usage_event UNION ALL SELECT * FROM usage_frozen;
ALTER TABLE usage_closing ADD COLUMN label text, ADD COLUMN member_id uuid, ADD COLUMN member_window date;

ALTER TYPE settlement_asked ADD ATTRIBUTE label text;
ALTER TYPE unleased_settlement ADD ATTRIBUTE member uuid, ADD ATTRIBUTE member_window date;
ALTER TYPE settled_request ADD ATTRIBUTE label text;
ALTER TYPE settled_sum ADD ATTRIBUTE label text;
ALTER TYPE granted_lease ADD ATTRIBUTE member uuid, ADD ATTRIBUTE member_window date;

-- ---------------------------------------------------------------- admission

-- What a member with a limit has spent and holds in one window. `key` of the type is the person.
CREATE FUNCTION read_member_budget(p_customer uuid, p_member uuid, p_window date) RETURNS key_budget
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT (p_customer, p_member, p_window, coalesce(max(m.spent_nanos), 0), coalesce(max(m.leased_nanos), 0), 0)::key_budget
    FROM member_spend m WHERE m.customer_id = p_customer AND m.person_id = p_member AND m.window_start = p_window);
END $$;

CREATE FUNCTION save_member_budgets(p_budgets key_budget[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO member_spend AS m (customer_id, person_id, window_start, leased_nanos)
    SELECT customer, key, window_start, granted FROM unnest(p_budgets) WHERE granted > 0
    ON CONFLICT (customer_id, person_id, window_start) DO UPDATE SET leased_nanos = m.leased_nanos + excluded.leased_nanos;
END $$;

DROP FUNCTION admit_batch;

-- Decides a batch of admissions: counts each item in its customer's windows and places its lease. Returns one
-- row per item; `item` counts from 1. The parameters have one array per column, with one element per item.
--
-- A lease that exists already is returned again without counting: its admission was sent twice. An item with
-- `slots` asks for a bulk lease of up to `want` and that many requests: see decide_bulk. Its refusal is
-- 'no_bulk'. A refusal that bulk leases of other nodes could prevent is marked `held_elsewhere`, and recalls
-- them. An item of a key or a member with a spend limit holds at most what the limit leaves in its window. Such a key is
-- admitted by strict leases only, so its spend and its holds are known here to the nano-USD. Items without
-- `key_limit` or `member` do no work for it. Raises SY001 when the node is not alive: it was declared dead, and its
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
  p_skip_locked boolean,
  -- The member that made the key, if it has a spend limit; else NULL.
  p_members uuid[] DEFAULT NULL, p_member_limits bigint[] DEFAULT NULL, p_member_resets text[] DEFAULT NULL)
RETURNS TABLE (
  item integer, verdict text, held bigint, slots integer, posted bigint, free bigint, cap_left bigint,
  key_spent bigint, key_left bigint, key_ends_ms double precision,
  member_spent bigint, member_left bigint, member_ends_ms double precision, held_elsewhere boolean, nodes integer,
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
  -- The same for the limits of members.
  v_members key_budget[] := '{}';
  v_m integer;
  v_member_window date;
  -- What the limits of the key and the member leave beyond their spend. NULL without a limit.
  v_key_room bigint;
  v_member_room bigint;
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
    FROM unnest(p_customers, p_leases, p_keys, p_minute_limits, p_day_limits, p_caps, p_key_limits, p_key_resets, p_wants, p_floors, p_slots, p_counted_until_ms,
        p_members, p_member_limits, p_member_resets)
      WITH ORDINALITY AS i(customer, lease, key, minute_limit, day_limit, cap, key_limit, key_reset, want, floor, slots, counted_until_ms,
        member, member_limit, member_reset, n)
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
    v_key_room := NULL;
    member_spent := NULL;
    member_left := NULL;
    member_ends_ms := NULL;
    v_member_window := NULL;
    v_member_room := NULL;
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
      v_key_room := r.key_limit - key_spent;
    END IF;
    IF r.member IS NOT NULL THEN
      v_member_window := key_window_start(r.member_reset, w.day);
      SELECT m.n INTO v_m FROM unnest(v_members) WITH ORDINALITY AS m(customer, member, window_start, spent, leased, granted, n)
        WHERE m.customer = r.customer AND m.member = r.member AND m.window_start = v_member_window;
      IF v_m IS NULL THEN
        v_m := cardinality(v_members) + 1;
        v_members := v_members || read_member_budget(r.customer, r.member, v_member_window);
      END IF;
      member_spent := v_members[v_m].spent;
      member_left := greatest(r.member_limit - member_spent - v_members[v_m].leased - v_members[v_m].granted, 0);
      member_ends_ms := epoch_ms(key_window_end(r.member_reset, v_member_window));
      v_member_room := r.member_limit - member_spent;
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
        -- The tighter one of the two limits decides.
        d := decide_strict(w, r.want, r.floor, r.minute_limit, r.day_limit, r.cap, least(v_key_room, v_member_room), r.counted_until_ms,
          free, cap_left, 0, least(key_left, member_left));
        IF d.verdict = 'key_spend_limit_reached' AND (v_key_room < r.floor) IS NOT TRUE THEN
          d.verdict := 'member_spend_limit_reached';
        END IF;
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
        v_granted := v_granted
          || (item, held, slots, CASE WHEN slots IS NOT NULL THEN w.minute END, w.day, v_key_window, r.member, v_member_window)::granted_lease;
        IF v_key_window IS NOT NULL THEN
          v_budgets[v_k].granted := v_budgets[v_k].granted + held;
        END IF;
        IF v_member_window IS NOT NULL THEN
          v_members[v_m].granted := v_members[v_m].granted + held;
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
  INSERT INTO lease (lease_id, customer_id, node_id, key_id, model_id, key_window, granted_nanos, slots, slot_minute, cap_day,
      member_id, member_window)
    SELECT p_leases[g.item], p_customers[g.item], p_node, p_keys[g.item], p_models[g.item], g.key_window, g.granted, g.slots, g.slot_minute, g.cap_day,
      g.member, g.member_window
    FROM unnest(v_granted) AS g;
  IF cardinality(v_budgets) > 0 THEN
    PERFORM save_key_budgets(v_budgets);
  END IF;
  IF cardinality(v_members) > 0 THEN
    PERFORM save_member_budgets(v_members);
  END IF;
  IF cardinality(v_recalled) > 0 THEN
    PERFORM recall_bulk_leases(v_recalled, p_node, p_skip_locked);
  END IF;
END $$;

-- ---------------------------------------------------------------- settlement

-- As charge_key_late, for the limit of a member.
CREATE FUNCTION charge_member_late(p_customer uuid, p_member uuid, p_window date, p_cost bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE member_spend m SET spent_nanos = m.spent_nanos + p_cost
  WHERE m.customer_id = p_customer AND m.person_id = p_member AND m.window_start = p_window
    AND m.spent_nanos + m.leased_nanos + p_cost <= coalesce((
      SELECT l.spend_limit_nanos FROM member_limit l WHERE l.customer_id = p_customer AND l.person_id = p_member), 9223372036854775807);
  RETURN FOUND;
END $$;

-- Charges a request that has no lease any more to the limits of its key and of its member: to both or to none. Returns whether
-- both have room.
CREATE FUNCTION charge_limits_late(p_customer uuid, p_key uuid, p_key_window date, p_member uuid, p_member_window date, p_cost bigint)
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

-- Decides how to settle the requests that name no bulk lease and have no strict lease in `p_ended`:
-- settled before, free, charged to the free balance, written off, or of an archived month. Withdraws the row that
-- presumes their end where there is one. Returns one row per request.
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

-- Writes the usage rows of the requests that are not in `p_skipped`, each with its charge, and returns those
-- that are new. A request with a strict lease is charged at most what the lease holds. One with a bulk lease,
-- or with the effect 'late', is charged at most its hold. Any other is free.
CREATE OR REPLACE FUNCTION insert_usage_rows(
  p_tx bigint, p_asked settlement_asked[], p_ended lease[], p_bulk lease[], p_unleased unleased_settlement[], p_skipped uuid[])
RETURNS settled_request[]
LANGUAGE plpgsql AS $$
DECLARE
  v_settled settled_request[];
BEGIN
  WITH asked AS (
    SELECT i.*, coalesce(l.cap_day, b.cap_day, t.cap_day) AS cap_day, coalesce(l.key_window, t.key_window) AS key_window,
      coalesce(l.member_id, t.member) AS member, coalesce(l.member_window, t.member_window) AS member_window,
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
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing, tx_id, cap_day, key_window,
      cache_read_tokens, cache_read_pico_per_token, cache_write_tokens, cache_write_pico_per_token, reasoning_tokens, other_parts,
      label, member_id, member_window)
    SELECT request, customer, key, to_timestamp(started_ms / 1000::float8), model, provider, endpoint, hoster,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_price, output_price, price_version,
      held, charge, hoster_part, CASE WHEN charge = cost THEN fee ELSE charge - hoster_part END, writeoff + cost - charge,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing,
      CASE WHEN charge > 0 THEN p_tx END, cap_day, key_window,
      cache_read_tokens, cache_read_price, cache_write_tokens, cache_write_price, reasoning_tokens, other_parts,
      label, member, member_window
    FROM shared
    WHERE request <> ALL (p_skipped)
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING request_id, customer_id, key_id, started_at, model_id, provider, hoster_id, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, cap_day, cache_read_tokens, label
  ), lease_of AS (
    -- The first one counts when a batch holds the same request twice.
    SELECT DISTINCT ON (request) request, nullif(lease, request) AS bulk_lease FROM asked ORDER BY request, ordinality
  )
  SELECT array_agg((n.request_id, n.customer_id, l.bulk_lease, n.cap_day, n.hoster_id, n.key_id, n.model_id, n.provider, n.started_at,
      n.success, n.input_tokens, n.output_tokens, n.cost_nanos, n.hoster_share_nanos, n.fee_nanos, n.latency_ms, n.cache_read_tokens, n.label)::settled_request)
    INTO v_settled
    FROM inserted n JOIN lease_of l ON l.request = n.request_id;
  RETURN coalesce(v_settled, '{}');
END $$;

-- Groups the settled requests once, so that each table below reads a few sums instead of all requests.
CREATE OR REPLACE FUNCTION sum_settled(p_settled settled_request[]) RETURNS settled_sum[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT (customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'),
      count(*), count(*) FILTER (WHERE success), sum(input_tokens), sum(output_tokens),
      sum(cost)::bigint, sum(hoster_share)::bigint, sum(fee)::bigint, coalesce(sum(latency_ms) FILTER (WHERE success), 0),
      coalesce(sum(cached_tokens), 0), label)::settled_sum
    FROM unnest(p_settled)
    GROUP BY customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'), label);
END $$;

-- Releases what ended strict leases held of the spend limits of their keys and members, and counts what their requests cost.
CREATE OR REPLACE FUNCTION charge_key_limits(p_ended lease[], p_settled settled_request[]) RETURNS void
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

-- Adds to the sums of labels. The first 200 labels of a customer, a day and a shard have a row each.
CREATE FUNCTION add_to_label_days(p_node_shard smallint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM unnest(p_sums) WHERE label IS NOT NULL) THEN
    RETURN;
  END IF;
  INSERT INTO usage_label_day AS u (customer_id, label, day, node_shard, requests, cost_nanos)
    SELECT s.customer, CASE WHEN s.is_known OR s.number <= 200 THEN s.label ELSE '' END, s.day, p_node_shard, sum(s.requests), sum(s.cost)
    FROM (
      SELECT g.*, k.label IS NOT NULL AS is_known,
        (SELECT count(*) FROM usage_label_day d WHERE d.customer_id = g.customer AND d.day = g.day AND d.node_shard = p_node_shard)
          + count(*) FILTER (WHERE k.label IS NULL) OVER (PARTITION BY g.customer, g.day ORDER BY g.label) AS number
      FROM (
        SELECT customer, label, (hour AT TIME ZONE 'UTC')::date AS day, sum(requests) AS requests, sum(cost) AS cost
        FROM unnest(p_sums) WHERE label IS NOT NULL GROUP BY 1, 2, 3
      ) g
      LEFT JOIN usage_label_day k ON k.customer_id = g.customer AND k.day = g.day AND k.label = g.label AND k.node_shard = p_node_shard
    ) s
    GROUP BY 1, 2, 3 ORDER BY 1, 3, 2
    ON CONFLICT (customer_id, day, label, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos;
END $$;

-- Adds to the sums that reports read. Concurrent calls lock their rows in the order of the keys.
CREATE OR REPLACE FUNCTION add_to_usage_sums(p_node_shard smallint, p_sums settled_sum[]) RETURNS void
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
      input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens)
    SELECT customer, (hour AT TIME ZONE 'UTC')::date, model, provider, p_node_shard, sum(requests), sum(successes),
      sum(input_tokens), sum(output_tokens), sum(cost), sum(hoster_share), sum(fee), sum(latency_ms_sum), sum(cached_tokens)
    FROM unnest(p_sums) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, hoster_share_nanos = u.hoster_share_nanos + excluded.hoster_share_nanos,
      fee_nanos = u.fee_nanos + excluded.fee_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum,
      cached_tokens = u.cached_tokens + excluded.cached_tokens;
  INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT customer, key, (hour AT TIME ZONE 'UTC')::date, p_node_shard, sum(requests), sum(cost)
    FROM unnest(p_sums) WHERE key IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos;
  PERFORM add_to_label_days(p_node_shard, p_sums);
END $$;

DROP FUNCTION sum_presumed;

-- Sums of `p_requests` rows that only presume how a request ended: with -1 the sum of a row that is withdrawn.
CREATE FUNCTION sum_presumed(p_customer uuid, p_key uuid, p_model text, p_started_at timestamptz, p_label text, p_requests bigint)
RETURNS settled_sum
LANGUAGE sql STABLE AS $$
  SELECT (p_customer, NULL, NULL, NULL, p_key, p_model, 'none', date_trunc('hour', p_started_at, 'UTC'), p_requests, 0, 0, 0, 0, 0, 0, 0, 0,
    p_label)::settled_sum
$$;

-- Removes the row of a request that presumes its end: `node_died` of the reaper, or `superseded` of a node that runs
-- the request again. It may be subtracted from another shard of the sums than it was added to: only the sum over all
-- shards has a meaning.
CREATE OR REPLACE FUNCTION withdraw_presumed_end(p_customer uuid, p_request uuid, p_node_shard smallint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_sums settled_sum[];
BEGIN
  WITH withdrawn AS (
    DELETE FROM usage_event WHERE customer_id = p_customer AND request_id = p_request AND outcome IN ('node_died', 'superseded')
    RETURNING key_id, started_at, model_id, label
  )
  SELECT array_agg(sum_presumed(p_customer, key_id, model_id, started_at, label, -1)) INTO v_sums FROM withdrawn;
  PERFORM add_to_usage_sums(p_node_shard, v_sums);
END $$;

-- Ends the leases that one customer has with dead nodes: folds them, releases their money, and writes a free
-- usage row `node_died` for each strict lease. Only the dead node knew the requests of its bulk leases, so
-- their slots stay counted. A node without a row counts as dead. Returns the number of leases.
CREATE OR REPLACE FUNCTION reclaim_leases(p_customer uuid, p_node_shard smallint) RETURNS bigint
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
      input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome, cap_day, key_window,
      member_id, member_window)
    SELECT customer_id, lease_id, key_id, granted_at, coalesce(model_id, ''), 'none', 0, 0, 'none',
      0, 0, granted_nanos, 0, 0, 0, 0, false, 'node_died', cap_day, key_window,
      member_id, member_window
    FROM unnest(v_ended) WHERE slots IS NULL
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING key_id, started_at, model_id
  )
  SELECT array_agg(sum_presumed(p_customer, key_id, model_id, started_at, NULL, 1)) INTO v_died FROM inserted;
  PERFORM move_balances(ARRAY(SELECT (customer_id, cap_day, settled_nanos, granted_nanos)::balance_move FROM unnest(v_ended)));
  PERFORM charge_key_limits(v_ended, '{}');
  PERFORM add_to_usage_sums(p_node_shard, v_died);
  RETURN cardinality(v_ended);
END $$;

-- Writes the sums of a frozen month, keeps its refunded rows in usage_event and drops the others. The rows were
-- written to the file with these totals. Raises SY003 when the totals differ from the rows. Does nothing when the month
-- is archived already.
CREATE OR REPLACE FUNCTION finish_usage_archive(p_month date, p_requests bigint, p_cost bigint, p_file_name text, p_file_sha256 text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v usage_archive;
  v_kept bigint;
  v_requests bigint;
  v_cost bigint;
BEGIN
  SELECT * INTO STRICT v FROM usage_archive WHERE month = p_month FOR UPDATE;
  IF v.archived_at IS NOT NULL THEN
    RETURN;
  END IF;
  SELECT count(*), coalesce(sum(cost_nanos), 0) INTO v_requests, v_cost FROM usage_frozen WHERE request_id >= v.from_id AND request_id < v.to_id;
  IF (v_requests, v_cost) IS DISTINCT FROM (p_requests, p_cost) THEN
    RAISE EXCEPTION 'the file of % has % rows that cost % nano-USD, the database % that cost %',
      to_char(p_month, 'YYYY-MM'), p_requests, p_cost, v_requests, v_cost USING ERRCODE = 'SY003';
  END IF;

  -- A refund refers to its usage row.
  INSERT INTO usage_event
    SELECT f.* FROM usage_frozen f
    WHERE f.request_id >= v.from_id AND f.request_id < v.to_id
      AND EXISTS (SELECT FROM refund r WHERE r.customer_id = f.customer_id AND r.request_id = f.request_id);
  GET DIAGNOSTICS v_kept = ROW_COUNT;
  INSERT INTO usage_closing (month, customer_id, day, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_block,
      requests, successes, local_requests, hoster_requests, cloud_requests, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens,
      label, member_id, member_window)
    SELECT p_month, customer_id, (started_at AT TIME ZONE 'UTC')::date, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_id >> 16,
      count(*), count(*) FILTER (WHERE success), count(*) FILTER (WHERE provider = 'local'), count(*) FILTER (WHERE provider = 'hoster'),
      count(*) FILTER (WHERE provider = 'cloud'), sum(input_tokens), sum(output_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), coalesce(sum(latency_ms) FILTER (WHERE success), 0),
      coalesce(sum(cache_read_tokens), 0), label, member_id, member_window
    FROM usage_frozen f
    WHERE request_id >= v.from_id AND request_id < v.to_id
      AND NOT EXISTS (SELECT FROM refund r WHERE r.customer_id = f.customer_id AND r.request_id = f.request_id)
    GROUP BY customer_id, (started_at AT TIME ZONE 'UTC')::date, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_id >> 16,
      label, member_id, member_window;
  UPDATE usage_archive
    SET archived_at = now(), requests = p_requests, kept_requests = v_kept, cost_nanos = p_cost, file_name = p_file_name, file_sha256 = p_file_sha256
    WHERE month = p_month;

  -- Last, since only then an audit has to wait. One that runs has read the rows, or will read the sums.
  PERFORM lock_exclusively(ARRAY['usage_frozen', frozen_partition_name(p_month)]);
  EXECUTE format('DROP TABLE %I', frozen_partition_name(p_month));
END $$;

-- ---------------------------------------------------------------- open pages

CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON member_limit FOR EACH ROW EXECUTE FUNCTION note_customer_change('budgets');
CREATE TRIGGER note_limit AFTER UPDATE ON api_key FOR EACH ROW
  WHEN ((OLD.spend_limit_nanos, OLD.limit_reset) IS DISTINCT FROM (NEW.spend_limit_nanos, NEW.limit_reset))
  EXECUTE FUNCTION note_customer_change('budgets');

-- ---------------------------------------------------------------- rights
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['member_spend', 'usage_label_day']::name[]));
END $$;
