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
  r record;
  v_now timestamptz;
  -- In the answer from the beginning: what is the same for all items.
  v_answer admission_answer;
  -- The customers with a balance that this call has locked. Only used with `p_skip_locked`.
  v_locked uuid[];
  -- The state, its answer, and the customer of its windows. The windows of the customers before it.
  s admission_state;
  a admission_answer;
  v_customer uuid;
  v_windows account_windows[] := '{}';
  v_leases granted_lease[] := '{}';
  v_recalled uuid[] := '{}';
BEGIN
  v_answer.nodes := lock_live_node(p_node);
  IF p_skip_locked THEN
    v_locked := lock_free_balances(p_customers);
  ELSE
    PERFORM lock_balances(p_customers);
  END IF;
  v_now := coalesce(p_now, clock_timestamp());
  -- Rounded up, so that a node that counts the rest of the minute from it stops early rather than late.
  v_answer.now_ms := ceil(epoch_ms(v_now));
  v_answer.held_elsewhere := false;
  s.key_budgets := '{}';
  s.member_budgets := '{}';

  FOR r IN
    SELECT (i.n, i.customer, i.lease, i.key, i.minute_limit, i.day_limit, i.cap, i.key_limit, i.key_reset, i.want, i.floor, i.slots, i.counted_until_ms,
        i.member, i.member_limit, i.member_reset, l.granted_nanos, l.slots, l.slot_minute)::admission_asked AS asked,
      i.customer, b.balance, h.bulk
    FROM unnest(p_customers, p_leases, p_keys, p_minute_limits, p_day_limits, p_caps, p_key_limits, p_key_resets, p_wants, p_floors, p_slots, p_counted_until_ms,
        p_members, p_member_limits, p_member_resets)
      WITH ORDINALITY AS i(customer, lease, key, minute_limit, day_limit, cap, key_limit, key_reset, want, floor, slots, counted_until_ms,
        member, member_limit, member_reset, n)
    LEFT JOIN (SELECT o.customer_id, o AS balance FROM balance o WHERE o.customer_id = ANY (p_customers)) b ON b.customer_id = i.customer
    LEFT JOIN (SELECT o.lease_id, o.granted_nanos, o.slots, o.slot_minute FROM lease o WHERE o.lease_id = ANY (p_leases)) l ON l.lease_id = i.lease
    LEFT JOIN (
      SELECT o.customer_id, array_agg(o) AS bulk FROM lease o WHERE o.customer_id = ANY (p_customers) AND o.slots IS NOT NULL GROUP BY o.customer_id
    ) h ON h.customer_id = i.customer
    ORDER BY i.customer, i.n
  LOOP
    a := v_answer;
    a.item := (r.asked).item;
    IF r.balance IS NULL OR r.customer <> ALL (v_locked) THEN
      a.verdict := CASE WHEN r.balance IS NULL THEN 'no_account' ELSE 'locked' END;
      RETURN NEXT a;
      CONTINUE;
    END IF;
    IF v_customer IS DISTINCT FROM r.customer THEN
      IF v_customer IS NOT NULL THEN
        v_windows := v_windows || s.windows;
      END IF;
      v_customer := r.customer;
      s.windows := open_windows(r.balance, v_now);
      s.unused := find_unused_slots(r.bulk, s.windows, p_node);
    END IF;

    s.answer := a;
    s := admit_item(s, r.asked);
    a := s.answer;
    IF a.verdict = 'granted' AND (r.asked).granted IS NULL THEN
      v_leases := v_leases || s.lease;
    ELSIF a.verdict IN ('rate_limit_exceeded', 'daily_limit_exceeded')
      OR (a.verdict = 'in_flight_budget' AND least(a.free, a.cap_left) < (r.asked).floor)
    THEN
      a.held_elsewhere := is_held_elsewhere(r.customer, p_node);
      IF a.held_elsewhere THEN
        v_recalled := v_recalled || r.customer;
      END IF;
    END IF;
    RETURN NEXT a;
  END LOOP;

  PERFORM save_windows(v_windows || s.windows);
  PERFORM insert_leases(p_node, p_leases, p_customers, p_keys, p_models, v_leases);
  IF cardinality(s.key_budgets) > 0 THEN
    PERFORM save_key_budgets(s.key_budgets);
  END IF;
  IF cardinality(s.member_budgets) > 0 THEN
    PERFORM save_member_budgets(s.member_budgets);
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
  u unused_slots := (0, 0, NULL);
  v_lease lease;
  v_unused integer;
BEGIN
  FOREACH v_lease IN ARRAY coalesce(p_bulk, '{}') LOOP
    v_unused := v_lease.slots;
    IF v_lease.node_id = p_node THEN
      u.own_leases := u.own_leases || v_lease.lease_id;
    ELSE
      v_unused := v_unused - v_lease.slots_used;
    END IF;
    IF v_lease.slot_minute = w.minute THEN
      u.minute := u.minute + v_unused;
    END IF;
    IF v_lease.cap_day = w.day THEN
      u.day := u.day + v_unused;
    END IF;
  END LOOP;
  RETURN u;
END $$;

-- Decides one item of a batch in the windows of its customer. Returns the state after it, with the answer, and with the lease if
-- it grants one.
CREATE OR REPLACE FUNCTION admit_item(s admission_state, r admission_asked) RETURNS admission_state
LANGUAGE plpgsql AS $$
DECLARE
  w account_windows := s.windows;
  a admission_answer := s.answer;
  u unused_slots := s.unused;
  d admission_decision;
  -- For the limit of the key and that of the member: the current window, its place in the budgets, and the limit less the spend.
  -- NULL without a limit.
  v_key_window date;
  v_key_place integer;
  v_key_room bigint;
  v_member_window date;
  v_member_place integer;
  v_member_room bigint;
BEGIN
  w.day_cap := greatest(w.day_cap, r.cap);
  a.minute_ends_ms := w.minute_ends_ms;
  a.day_ends_ms := w.day_ends_ms;
  a.free := w.posted - w.leased;
  a.cap_left := greatest(r.cap - w.day_spent - w.day_leased, 0);
  IF r.key_limit IS NOT NULL THEN
    v_key_window := key_window_start(r.key_reset, w.day);
    v_key_place := find_budget(s.key_budgets, r.customer, r.key, v_key_window);
    IF v_key_place > cardinality(s.key_budgets) THEN
      s.key_budgets := s.key_budgets || read_key_budget(r.customer, r.key, v_key_window);
    END IF;
    a.key_spent := s.key_budgets[v_key_place].spent;
    v_key_room := r.key_limit - a.key_spent;
    a.key_left := greatest(v_key_room - s.key_budgets[v_key_place].leased - s.key_budgets[v_key_place].granted, 0);
    a.key_ends_ms := epoch_ms(key_window_end(r.key_reset, v_key_window));
  END IF;
  IF r.member IS NOT NULL THEN
    v_member_window := key_window_start(r.member_reset, w.day);
    v_member_place := find_budget(s.member_budgets, r.customer, r.member, v_member_window);
    IF v_member_place > cardinality(s.member_budgets) THEN
      s.member_budgets := s.member_budgets || read_member_budget(r.customer, r.member, v_member_window);
    END IF;
    a.member_spent := s.member_budgets[v_member_place].spent;
    v_member_room := r.member_limit - a.member_spent;
    a.member_left := greatest(v_member_room - s.member_budgets[v_member_place].leased - s.member_budgets[v_member_place].granted, 0);
    a.member_ends_ms := epoch_ms(key_window_end(r.member_reset, v_member_window));
  END IF;

  IF r.granted IS NOT NULL THEN
    -- Its admission was sent twice.
    d := ('granted', r.granted, r.granted_slots, 0, 0, w.posted);
    IF r.granted_minute <> w.minute THEN
      -- Its slots were counted in another minute, earlier, or later by a clock that was set back. It admits no more requests.
      a.minute_ends_ms := least(epoch_ms(r.granted_minute + interval '1 minute'), a.now_ms);
    END IF;
  ELSIF r.slots IS NOT NULL THEN
    d := decide_bulk(w, r, a);
  ELSE
    d := decide_strict(w, r, a, v_key_room, v_member_room);
  END IF;
  a.verdict := d.verdict;
  a.held := d.held;
  a.slots := d.slots;
  a.posted := d.posted;
  w.minute_used := w.minute_used + d.counted_minute;
  w.day_used := w.day_used + d.counted_day;
  IF d.verdict = 'granted' AND r.granted IS NULL THEN
    w.leased := w.leased + d.held;
    w.day_leased := w.day_leased + d.held;
    IF v_key_place IS NOT NULL THEN
      s.key_budgets[v_key_place].granted := s.key_budgets[v_key_place].granted + d.held;
    END IF;
    IF v_member_place IS NOT NULL THEN
      s.member_budgets[v_member_place].granted := s.member_budgets[v_member_place].granted + d.held;
    END IF;
    IF d.slots IS NOT NULL THEN
      u := (u.minute + d.slots, u.day + d.slots, u.own_leases || r.lease);
    END IF;
    s.lease := (r.item, d.held, d.slots, CASE WHEN d.slots IS NOT NULL THEN w.minute END, w.day, v_key_window, r.member, v_member_window);
  END IF;
  a.minute_used := w.minute_used;
  a.day_used := w.day_used;
  a.minute_made := w.minute_used - u.minute;
  a.day_made := w.day_used - u.day;
  a.own_leases := u.own_leases;
  s.windows := w;
  s.unused := u;
  s.answer := a;
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
  d admission_decision := (NULL, NULL, NULL, 1, 1, w.posted);
BEGIN
  IF r.counted_until_ms = w.minute_ends_ms THEN
    d.counted_minute := 0;
  END IF;
  IF r.counted_until_ms > w.day_ends_ms - 86400000 THEN  -- milliseconds of a day
    d.counted_day := 0;
  END IF;
  IF w.minute_used >= r.minute_limit AND d.counted_minute = 1 THEN
    RETURN ('rate_limit_exceeded', NULL, NULL, 0, 0, w.posted)::admission_decision;
  ELSIF w.day_used >= r.day_limit AND d.counted_day = 1 THEN
    RETURN ('daily_limit_exceeded', NULL, NULL, 0, 0, w.posted)::admission_decision;
  ELSIF r.want IS NULL THEN
    d.verdict := 'counted';
  ELSIF least(a.free, a.cap_left, a.key_left, a.member_left) >= r.floor THEN
    d.verdict := 'granted';
    d.held := least(r.want, a.free, a.cap_left, a.key_left, a.member_left);
  ELSE
    SELECT m.verdict, m.posted INTO d.verdict, d.posted FROM money_refusal(w, r.floor, r.cap, least(p_key_room, p_member_room)) AS m;
    IF d.verdict = 'key_spend_limit_reached' AND (p_key_room < r.floor) IS NOT TRUE THEN
      d.verdict := 'member_spend_limit_reached';
    END IF;
  END IF;
  RETURN d;
END $$;

-- Why a request that needs at least `p_floor` is refused for money. `p_key_left` is what the key's spend limit leaves beyond its
-- spend; NULL without a limit. `posted` is the balance less the charges of bulk leases that are not folded yet; for
-- 'account_in_debt', it is the debt, negative.
CREATE OR REPLACE FUNCTION money_refusal(w account_windows, p_floor bigint, p_cap bigint, p_key_left bigint, OUT verdict text, OUT posted bigint)
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
    WHEN p_key_left < p_floor THEN 'key_spend_limit_reached'
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
