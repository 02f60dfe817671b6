-- Decides a batch of admissions: counts each item in its customer's windows and places its lease. Returns one answer per item;
-- `item` counts from 1. The parameters have one array per column, with one element per item.
--
-- - `p_key_limits`, `p_key_resets`: NULL for keys without a spend limit; `p_members` and the two after it: NULL unless the
--   member that made the key has one.
-- - `p_wants`, `p_floors`: both NULL only count. Otherwise as much of `want` is granted as possible, if that is at least `floor`.
-- - `p_slots`: NULL asks for a strict lease.
-- - `p_counted_until_ms`: for a retry after a refusal for money, the end of the minute in which the request was counted.
--
-- A lease that exists already is returned again without counting: its admission was sent twice. An item with `slots` asks for a
-- bulk lease of up to `want` and that many requests: see decide_bulk. Its refusal is 'no_bulk'. A refusal that bulk leases of
-- other nodes could prevent is marked `held_elsewhere`, and recalls them. An item of a key or a member with a spend limit holds
-- at most what the limit leaves in its window. Such a key is admitted by strict leases only, so its spend and its holds are known
-- here to the nano-USD. Items without `key_limit` or `member` do no work for it.
--
-- Locks the row of the node, then the balances, then the bulk leases that it recalls, both in the order of their ids: see
-- locks.sql. With `p_skip_locked`, the items of customers with a balance that another session has locked get the verdict
-- 'locked', and nothing is done for them. Otherwise the call waits. Raises SY001 when the node is not alive: it was declared
-- dead, and its leases are reclaimed. `p_now` replaces the clock of the windows. NULL uses the time after the locks were
-- obtained.
CREATE OR REPLACE FUNCTION admit_batch(
  p_node uuid, p_now timestamptz,
  p_leases uuid[], p_customers uuid[], p_keys uuid[], p_models text[],
  p_minute_limits integer[], p_day_limits integer[], p_caps bigint[],
  p_key_limits bigint[], p_key_resets text[],
  p_wants bigint[], p_floors bigint[],
  p_slots integer[],
  p_counted_until_ms double precision[],
  p_skip_locked boolean,
  p_members uuid[] DEFAULT NULL, p_member_limits bigint[] DEFAULT NULL, p_member_resets text[] DEFAULT NULL)
RETURNS SETOF admission_answer
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '250ms' AS $$
DECLARE
  -- An item with the balance of its customer and that customer's bulk leases.
  v_row record;
  v_now timestamptz;
  -- What is the same in all answers.
  v_common admission_answer;
  -- The customers with a balance that this call has locked. Only used with `p_skip_locked`.
  v_locked uuid[];
  v_state admission_state;
  v_answer admission_answer;
  -- The customer of the windows in the state, and the windows of the customers before it.
  v_customer uuid;
  v_windows account_windows[] := '{}';
  v_leases granted_lease[] := '{}';
  v_recalled uuid[] := '{}';
BEGIN
  v_common.nodes := lock_live_node(p_node);
  IF p_skip_locked THEN
    v_locked := try_lock_balances(p_customers);
  ELSE
    PERFORM lock_balances(p_customers);
  END IF;
  v_now := coalesce(p_now, clock_timestamp());
  -- Rounded up, so that a node that counts the rest of the minute from it stops early rather than late.
  v_common.now_ms := ceil(epoch_ms(v_now));
  v_common.held_elsewhere := false;
  v_state.key_budgets := '{}';
  v_state.member_budgets := '{}';

  FOR v_row IN
    SELECT (i.n, i.customer, i.lease, i.key, i.minute_limit, i.day_limit, i.cap, i.key_limit, i.key_reset, i.want, i.floor, i.slots, i.counted_until_ms,
        i.member, i.member_limit, i.member_reset, earlier.granted_nanos, earlier.slots, earlier.slot_minute)::admission_asked AS asked,
      i.customer, account.balance, held.bulk
    FROM unnest(p_customers, p_leases, p_keys, p_minute_limits, p_day_limits, p_caps, p_key_limits, p_key_resets, p_wants, p_floors, p_slots, p_counted_until_ms,
        p_members, p_member_limits, p_member_resets)
      WITH ORDINALITY AS i(customer, lease, key, minute_limit, day_limit, cap, key_limit, key_reset, want, floor, slots, counted_until_ms,
        member, member_limit, member_reset, n)
    LEFT JOIN (SELECT o.customer_id, o AS balance FROM balance o WHERE o.customer_id = ANY (p_customers)) account ON account.customer_id = i.customer
    LEFT JOIN (SELECT o.lease_id, o.granted_nanos, o.slots, o.slot_minute FROM lease o WHERE o.lease_id = ANY (p_leases)) earlier ON earlier.lease_id = i.lease
    LEFT JOIN (
      SELECT o.customer_id, array_agg(o) AS bulk FROM lease o WHERE o.customer_id = ANY (p_customers) AND o.slots IS NOT NULL GROUP BY o.customer_id
    ) held ON held.customer_id = i.customer
    ORDER BY i.customer, i.n
  LOOP
    v_answer := v_common;
    v_answer.item := (v_row.asked).item;
    IF v_row.balance IS NULL OR v_row.customer <> ALL (v_locked) THEN
      v_answer.verdict := CASE WHEN v_row.balance IS NULL THEN 'no_account' ELSE 'locked' END;
      RETURN NEXT v_answer;
      CONTINUE;
    END IF;
    IF v_customer IS DISTINCT FROM v_row.customer THEN
      IF v_customer IS NOT NULL THEN
        v_windows := v_windows || v_state.windows;
      END IF;
      v_customer := v_row.customer;
      v_state.windows := open_windows(v_row.balance, v_now);
      v_state.unused := find_unused_slots(v_row.bulk, v_state.windows, p_node);
    END IF;

    v_state.answer := v_answer;
    v_state := admit_item(v_state, v_row.asked);
    v_answer := v_state.answer;
    IF v_answer.verdict = 'granted' AND (v_row.asked).granted IS NULL THEN
      v_leases := v_leases || v_state.lease;
    ELSIF v_answer.verdict IN ('rate_limit_exceeded', 'daily_limit_exceeded')
      OR (v_answer.verdict = 'in_flight_budget' AND least(v_answer.free, v_answer.cap_left) < (v_row.asked).floor)
    THEN
      v_answer.held_elsewhere := is_held_elsewhere(v_row.customer, p_node);
      IF v_answer.held_elsewhere THEN
        v_recalled := v_recalled || v_row.customer;
      END IF;
    END IF;
    RETURN NEXT v_answer;
  END LOOP;

  PERFORM save_windows(v_windows || v_state.windows);
  PERFORM insert_leases(p_node, p_leases, p_customers, p_keys, p_models, v_leases);
  IF cardinality(v_state.key_budgets) > 0 THEN
    PERFORM save_key_budgets(v_state.key_budgets);
  END IF;
  IF cardinality(v_state.member_budgets) > 0 THEN
    PERFORM save_member_budgets(v_state.member_budgets);
  END IF;
  IF cardinality(v_recalled) > 0 THEN
    PERFORM recall_bulk_leases(v_recalled, p_node, p_skip_locked);
  END IF;
END $$;

-- The slots in the windows `w` that no request has used, as far as this node knows: all slots of its own open bulk leases, since
-- it counts their requests itself, and those that other nodes have not reported as used. `p_bulk` has all open ones of the
-- customer, or is NULL.
CREATE OR REPLACE FUNCTION find_unused_slots(p_bulk lease[], w account_windows, p_node uuid) RETURNS unused_slots
LANGUAGE plpgsql AS $$
DECLARE
  v_total unused_slots := (0, 0, NULL);
  v_lease lease;
  v_slots integer;
BEGIN
  FOREACH v_lease IN ARRAY coalesce(p_bulk, '{}') LOOP
    v_slots := v_lease.slots;
    IF v_lease.node_id = p_node THEN
      v_total.own_leases := v_total.own_leases || v_lease.lease_id;
    ELSE
      v_slots := v_slots - v_lease.slots_used;
    END IF;
    IF v_lease.slot_minute = w.minute THEN
      v_total.minute := v_total.minute + v_slots;
    END IF;
    IF v_lease.cap_day = w.day THEN
      v_total.day := v_total.day + v_slots;
    END IF;
  END LOOP;
  RETURN v_total;
END $$;

-- Decides one item `r` of a batch in the windows of its customer. Returns the state `s` after it, with the answer, and with the
-- lease if it grants one.
CREATE OR REPLACE FUNCTION admit_item(s admission_state, r admission_asked) RETURNS admission_state
LANGUAGE plpgsql AS $$
DECLARE
  v_windows account_windows := s.windows;
  v_answer admission_answer := s.answer;
  v_unused unused_slots := s.unused;
  v_decision admission_decision;
  -- For the limit of the key and that of the member: the current window, its place in the budgets, and the limit less the spend.
  -- NULL without a limit.
  v_key_window date;
  v_key_place integer;
  v_key_room bigint;
  v_member_window date;
  v_member_place integer;
  v_member_room bigint;
BEGIN
  v_windows.day_cap := greatest(v_windows.day_cap, r.cap);
  v_answer.minute_ends_ms := v_windows.minute_ends_ms;
  v_answer.day_ends_ms := v_windows.day_ends_ms;
  v_answer.free := v_windows.posted - v_windows.leased;
  v_answer.cap_left := greatest(r.cap - v_windows.day_spent - v_windows.day_leased, 0);
  IF r.key_limit IS NOT NULL THEN
    v_key_window := key_window_start(r.key_reset, v_windows.day);
    v_key_place := find_budget(s.key_budgets, r.customer, r.key, v_key_window);
    IF v_key_place > cardinality(s.key_budgets) THEN
      s.key_budgets := s.key_budgets || read_key_budget(r.customer, r.key, v_key_window);
    END IF;
    v_answer.key_spent := s.key_budgets[v_key_place].spent;
    v_key_room := r.key_limit - v_answer.key_spent;
    v_answer.key_left := greatest(v_key_room - s.key_budgets[v_key_place].leased - s.key_budgets[v_key_place].granted, 0);
    v_answer.key_ends_ms := epoch_ms(key_window_end(r.key_reset, v_key_window));
  END IF;
  IF r.member IS NOT NULL THEN
    v_member_window := key_window_start(r.member_reset, v_windows.day);
    v_member_place := find_budget(s.member_budgets, r.customer, r.member, v_member_window);
    IF v_member_place > cardinality(s.member_budgets) THEN
      s.member_budgets := s.member_budgets || read_member_budget(r.customer, r.member, v_member_window);
    END IF;
    v_answer.member_spent := s.member_budgets[v_member_place].spent;
    v_member_room := r.member_limit - v_answer.member_spent;
    v_answer.member_left := greatest(v_member_room - s.member_budgets[v_member_place].leased - s.member_budgets[v_member_place].granted, 0);
    v_answer.member_ends_ms := epoch_ms(key_window_end(r.member_reset, v_member_window));
  END IF;

  IF r.granted IS NOT NULL THEN
    -- Its admission was sent twice.
    v_decision := ('granted', r.granted, r.granted_slots, 0, 0, v_windows.posted);
    IF r.granted_minute <> v_windows.minute THEN
      -- Its slots were counted in another minute, earlier, or later by a clock that was set back. It admits no more requests.
      v_answer.minute_ends_ms := least(epoch_ms(r.granted_minute + interval '1 minute'), v_answer.now_ms);
    END IF;
  ELSIF r.slots IS NOT NULL THEN
    v_decision := decide_bulk(v_windows, r, v_answer);
  ELSE
    v_decision := decide_strict(v_windows, r, v_answer, v_key_room, v_member_room);
  END IF;
  v_answer.verdict := v_decision.verdict;
  v_answer.held := v_decision.held;
  v_answer.slots := v_decision.slots;
  v_answer.posted := v_decision.posted;
  v_windows.minute_used := v_windows.minute_used + v_decision.counted_minute;
  v_windows.day_used := v_windows.day_used + v_decision.counted_day;
  IF v_decision.verdict = 'granted' AND r.granted IS NULL THEN
    v_windows.leased := v_windows.leased + v_decision.held;
    v_windows.day_leased := v_windows.day_leased + v_decision.held;
    IF v_key_place IS NOT NULL THEN
      s.key_budgets[v_key_place].granted := s.key_budgets[v_key_place].granted + v_decision.held;
    END IF;
    IF v_member_place IS NOT NULL THEN
      s.member_budgets[v_member_place].granted := s.member_budgets[v_member_place].granted + v_decision.held;
    END IF;
    IF v_decision.slots IS NOT NULL THEN
      v_unused := (v_unused.minute + v_decision.slots, v_unused.day + v_decision.slots, v_unused.own_leases || r.lease);
    END IF;
    s.lease := (r.item, v_decision.held, v_decision.slots, CASE WHEN v_decision.slots IS NOT NULL THEN v_windows.minute END, v_windows.day,
      v_key_window, r.member, v_member_window);
  END IF;
  v_answer.minute_used := v_windows.minute_used;
  v_answer.day_used := v_windows.day_used;
  v_answer.minute_made := v_windows.minute_used - v_unused.minute;
  v_answer.day_made := v_windows.day_used - v_unused.day;
  v_answer.own_leases := v_unused.own_leases;
  s.windows := v_windows;
  s.unused := v_unused;
  s.answer := v_answer;
  RETURN s;
END $$;

-- The place of a spend limit's window among those that the batch has met; one beyond the last for a new one.
CREATE OR REPLACE FUNCTION find_budget(p_budgets spend_budget[], p_customer uuid, p_spender uuid, p_window date) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR n IN 1 .. cardinality(p_budgets) LOOP
    IF (p_budgets[n].customer, p_budgets[n].spender, p_budgets[n].window_start) = (p_customer, p_spender, p_window) THEN
      RETURN n;
    END IF;
  END LOOP;
  RETURN cardinality(p_budgets) + 1;
END $$;

-- Decides a request for a bulk lease. It gets at most this node's share of half of what is free, so that the last dollars and the
-- last requests of a window are never stranded on one node. It gets nothing when less than `r.floor` is free, or for a single
-- request: strict leases serve then. A bulk lease costs as much as one strict lease.
CREATE OR REPLACE FUNCTION decide_bulk(w account_windows, r admission_asked, a admission_answer)
RETURNS admission_decision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_held bigint := least(r.want, a.free / (2 * a.nodes), a.cap_left / (2 * a.nodes));
  v_slots integer := least(r.slots, (r.minute_limit - w.minute_used) / (2 * a.nodes), (r.day_limit - w.day_used) / (2 * a.nodes));
BEGIN
  IF least(a.free, a.cap_left) < r.floor OR (v_held <= 0 AND r.want > 0) OR v_slots < 2 THEN
    RETURN ('no_bulk', NULL, NULL, 0, 0, w.posted)::admission_decision;
  END IF;
  RETURN ('granted', v_held, v_slots, v_slots, v_slots, w.posted)::admission_decision;
END $$;

-- Decides a request for a strict lease, or one that is only counted (`r.want` is NULL). `r.counted_until_ms` is set for a retry:
-- a retry in the same minute is not counted again, and one in a later minute of the same day is counted in the minute only. The
-- tighter one of the limits of the key and the member decides; without a limit, its values are NULL, which least() ignores.
CREATE OR REPLACE FUNCTION decide_strict(w account_windows, r admission_asked, a admission_answer, p_key_room bigint, p_member_room bigint)
RETURNS admission_decision
LANGUAGE plpgsql AS $$
DECLARE
  v_decision admission_decision := (NULL, NULL, NULL, 1, 1, w.posted);
BEGIN
  IF r.counted_until_ms = w.minute_ends_ms THEN
    v_decision.counted_minute := 0;
  END IF;
  IF r.counted_until_ms > w.day_ends_ms - 86400000 THEN  -- milliseconds of a day
    v_decision.counted_day := 0;
  END IF;
  IF w.minute_used >= r.minute_limit AND v_decision.counted_minute = 1 THEN
    RETURN ('rate_limit_exceeded', NULL, NULL, 0, 0, w.posted)::admission_decision;
  ELSIF w.day_used >= r.day_limit AND v_decision.counted_day = 1 THEN
    RETURN ('daily_limit_exceeded', NULL, NULL, 0, 0, w.posted)::admission_decision;
  ELSIF r.want IS NULL THEN
    v_decision.verdict := 'counted';
  ELSIF least(a.free, a.cap_left, a.key_left, a.member_left) >= r.floor THEN
    v_decision.verdict := 'granted';
    v_decision.held := least(r.want, a.free, a.cap_left, a.key_left, a.member_left);
  ELSE
    SELECT m.verdict, m.posted INTO v_decision.verdict, v_decision.posted FROM money_refusal(w, r.floor, r.cap, p_key_room, p_member_room) AS m;
  END IF;
  RETURN v_decision;
END $$;

-- Why a request that needs at least `p_floor` is refused for money. `p_key_room` and `p_member_room` are what the limits of the
-- key and the member leave beyond their spend; NULL without a limit. `posted` is the balance less the charges of bulk leases that
-- are not folded yet; for 'account_in_debt', it is the debt, negative.
CREATE OR REPLACE FUNCTION money_refusal(w account_windows, p_floor bigint, p_cap bigint, p_key_room bigint, p_member_room bigint, OUT verdict text,
  OUT posted bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_unfolded bigint;
  v_unfolded_today bigint;
BEGIN
  -- Less than nothing is free: only with a debt. See open_windows.
  IF w.posted < w.leased THEN
    verdict := 'account_in_debt';
    posted := w.posted - w.leased;
    RETURN;
  END IF;
  SELECT coalesce(sum(o.settled_nanos), 0), coalesce(sum(o.settled_nanos) FILTER (WHERE o.cap_day = w.day), 0) INTO v_unfolded, v_unfolded_today
    FROM lease o WHERE o.customer_id = w.customer AND o.slots IS NOT NULL;
  posted := w.posted - v_unfolded;
  verdict := CASE
    WHEN posted < p_floor THEN 'insufficient_credits'
    WHEN p_cap - w.day_spent - v_unfolded_today < p_floor THEN 'daily_spend_cap_reached'
    WHEN p_key_room < p_floor THEN 'key_spend_limit_reached'
    WHEN p_member_room < p_floor THEN 'member_spend_limit_reached'
    -- Only until the customer's running requests have ended.
    ELSE 'in_flight_budget'
  END;
END $$;

-- Whether another node has a bulk lease of this customer.
CREATE OR REPLACE FUNCTION is_held_elsewhere(p_customer uuid, p_node uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM lease o WHERE o.customer_id = p_customer AND o.slots IS NOT NULL AND o.node_id <> p_node);
END $$;

-- Writes the leases that a batch grants.
CREATE OR REPLACE FUNCTION insert_leases(p_node uuid, p_leases uuid[], p_customers uuid[], p_keys uuid[], p_models text[], p_granted granted_lease[])
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO lease (lease_id, customer_id, node_id, key_id, model_id, key_window, granted_nanos, slots, slot_minute, cap_day, member_id,
      member_window)
    SELECT p_leases[g.item], p_customers[g.item], p_node, p_keys[g.item], p_models[g.item], g.key_window, g.granted, g.slots, g.slot_minute, g.cap_day,
      g.member, g.member_window
    FROM unnest(p_granted) AS g;
END $$;

-- Asks the other nodes to hand back what they do not need of their bulk leases of these customers. Locks the leases in the order
-- of lease_id and waits for them; with `p_skip_locked`, leaves out those that another session has locked.
CREATE OR REPLACE FUNCTION recall_bulk_leases(p_customers uuid[], p_node uuid, p_skip_locked boolean) RETURNS void
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
