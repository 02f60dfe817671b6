-- Moves the windows of a locked balance to the present. Windows only move forward: when the clock was set back a little, the
-- later window goes on counting instead of the earlier one opening again. A window far ahead of the clock is not kept.
CREATE OR REPLACE FUNCTION open_windows(p_balance balance, p_now timestamptz) RETURNS account_windows
LANGUAGE plpgsql AS $$
DECLARE
  v_minute timestamptz := date_trunc('minute', p_now, 'UTC');
  v_today date := (p_now AT TIME ZONE 'UTC')::date;
  v account_windows;
BEGIN
  v.customer := p_balance.customer_id;
  -- Less the debt: then less than nothing is free, and not even a request that costs nothing is admitted.
  v.posted := p_balance.posted_nanos - p_balance.debt_nanos;
  v.leased := p_balance.leased_nanos;
  IF p_balance.minute >= v_minute AND p_balance.minute <= v_minute + interval '2 minutes' THEN
    v.minute := p_balance.minute;
    v.minute_used := p_balance.minute_requests;
  ELSE
    v.minute := v_minute;
    -- Zero, except when a clock that was set back reaches a minute again: its bulk leases may still use, or give back, their
    -- slots.
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

-- Begins another day in the windows of a locked balance: keeps the sums of the former day in day_spend, and takes those of the
-- new day from there when it was charged before.
CREATE OR REPLACE FUNCTION open_day(p_windows account_windows, p_balance balance, p_day date) RETURNS account_windows
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
  v.day_leased := 0;
  DELETE FROM day_spend d WHERE d.customer_id = v.customer AND d.day = p_day RETURNING d.spent_nanos, d.cap_nanos INTO v.day_spent, v.day_cap;
  IF FOUND THEN
    -- The day has been charged before, for requests that ended late or by a clock that was days off. It may have open leases too.
    SELECT o.granted, o.slots INTO v.day_leased, v.day_used FROM open_leases_of_day(v.customer, p_day) o;
  ELSE
    v.day_spent := 0;
  END IF;
  RETURN v;
END $$;

-- The milliseconds since 1970 began.
CREATE OR REPLACE FUNCTION epoch_ms(p_at timestamptz) RETURNS double precision
LANGUAGE sql STABLE AS $$ SELECT (extract(epoch FROM p_at) * 1000)::double precision $$;

-- Writes the windows of locked balances back, as open_windows and the admissions after it left them.
CREATE OR REPLACE FUNCTION save_windows(p_windows account_windows[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE balance b SET leased_nanos = w.leased, minute = w.minute, minute_requests = w.minute_used,
      day = w.day, day_requests = w.day_used, day_spent_nanos = w.day_spent, day_leased_nanos = w.day_leased, day_cap_nanos = w.day_cap
    FROM unnest(p_windows) w
    WHERE b.customer_id = w.customer AND b.customer_id = ANY (ARRAY(SELECT customer FROM unnest(p_windows)));
END $$;

-- What the cap of a day leaves for a late charge, beyond what was spent and what leases hold. NULL when the customer has no
-- account.
CREATE OR REPLACE FUNCTION late_cap_left(p_customer uuid, p_day date) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN b.day = p_day THEN coalesce(b.day_cap_nanos, unlimited_nanos()) - b.day_spent_nanos - b.day_leased_nanos
    ELSE coalesce(d.cap_nanos, b.day_cap_nanos, unlimited_nanos()) - coalesce(d.spent_nanos, 0)
      - (SELECT o.granted FROM open_leases_of_day(p_customer, p_day) o) END
  FROM balance b LEFT JOIN day_spend d ON d.customer_id = b.customer_id AND d.day = p_day
  WHERE b.customer_id = p_customer
$$;

-- What the open leases of a day hold, and their slots. Needed only for days that are not the current one of the balance, which
-- are rare, so it reads all open leases: an index on them would cost each admission more.
CREATE OR REPLACE FUNCTION open_leases_of_day(p_customer uuid, p_day date, OUT granted bigint, OUT slots integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = on AS $$
BEGIN
  SELECT coalesce(sum(o.granted_nanos), 0), coalesce(sum(o.slots), 0) INTO granted, slots
    FROM lease o WHERE o.customer_id = p_customer AND o.cap_day = p_day;
END $$;

-- What a key with a limit has spent and holds in one window.
CREATE OR REPLACE FUNCTION read_key_budget(p_customer uuid, p_key uuid, p_window date) RETURNS spend_budget
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT (p_customer, p_key, p_window, coalesce(max(k.spent_nanos), 0), coalesce(max(k.leased_nanos), 0), 0)::spend_budget
    FROM key_spend k WHERE k.customer_id = p_customer AND k.key_id = p_key AND k.window_start = p_window);
END $$;

-- Lets a limit of a key count what the key has spent in the current window before. Call it before the limit is set. Requests
-- that run meanwhile without the limit are not counted: their leases name no window. Locks the balance of the customer.
CREATE OR REPLACE FUNCTION count_key_window(p_customer uuid, p_key uuid, p_reset text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_window date;
  v_spent bigint;
BEGIN
  PERFORM lock_balances(ARRAY[p_customer]);
  SELECT next_window_start(p_reset, b.day, (p_now AT TIME ZONE 'UTC')::date) INTO v_window FROM balance b WHERE b.customer_id = p_customer;
  IF v_window IS NULL THEN RETURN; END IF;
  SELECT coalesce(sum(d.cost_nanos), 0) INTO v_spent
    FROM usage_key_day d WHERE d.customer_id = p_customer AND d.key_id = p_key AND d.day >= v_window;
  IF v_spent = 0 THEN RETURN; END IF;
  INSERT INTO key_spend AS k (customer_id, key_id, window_start, spent_nanos, before_nanos) VALUES (p_customer, p_key, v_window, v_spent, v_spent)
    ON CONFLICT (customer_id, key_id, window_start) DO UPDATE SET spent_nanos = excluded.spent_nanos,
      before_nanos = k.before_nanos + excluded.spent_nanos - k.spent_nanos
    WHERE k.spent_nanos < excluded.spent_nanos;
END $$;

-- Adds what a batch granted to the holds of keys with a limit. The balances are locked.
CREATE OR REPLACE FUNCTION save_key_budgets(p_budgets spend_budget[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO key_spend AS k (customer_id, key_id, window_start, leased_nanos)
    SELECT customer, spender, window_start, granted FROM unnest(p_budgets) WHERE granted > 0
    ON CONFLICT (customer_id, key_id, window_start) DO UPDATE SET leased_nanos = k.leased_nanos + excluded.leased_nanos;
END $$;

-- What a member with a limit has spent and holds in one window.
CREATE OR REPLACE FUNCTION read_member_budget(p_customer uuid, p_member uuid, p_window date) RETURNS spend_budget
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT (p_customer, p_member, p_window, coalesce(max(m.spent_nanos), 0), coalesce(max(m.leased_nanos), 0), 0)::spend_budget
    FROM member_spend m WHERE m.customer_id = p_customer AND m.person_id = p_member AND m.window_start = p_window);
END $$;

-- Adds what a batch granted to the holds of members with a limit. The balances are locked.
CREATE OR REPLACE FUNCTION save_member_budgets(p_budgets spend_budget[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO member_spend AS m (customer_id, person_id, window_start, leased_nanos)
    SELECT customer, spender, window_start, granted FROM unnest(p_budgets) WHERE granted > 0
    ON CONFLICT (customer_id, person_id, window_start) DO UPDATE SET leased_nanos = m.leased_nanos + excluded.leased_nanos;
END $$;

-- The start of the window that the next admission would use, for reports. Like open_windows, it keeps a day of the balance that
-- is at most one day ahead of the clock.
CREATE OR REPLACE FUNCTION next_window_start(p_reset text, p_balance_day date, p_today date) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT key_window_start(p_reset, CASE WHEN p_balance_day > p_today AND p_balance_day <= p_today + 1 THEN p_balance_day ELSE p_today END)
$$;

-- The UTC day on which the window of a key's spend limit began that contains `p_day`. Weeks are ISO weeks: they begin on Monday.
CREATE OR REPLACE FUNCTION key_window_start(p_reset text, p_day date) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reset
    WHEN 'daily' THEN p_day
    WHEN 'weekly' THEN date_trunc('week', p_day::timestamp)::date
    WHEN 'monthly' THEN date_trunc('month', p_day::timestamp)::date
    ELSE '-infinity'::date
  END
$$;

-- When the window that began on `p_start` ends. NULL for a limit that never resets.
CREATE OR REPLACE FUNCTION key_window_end(p_reset text, p_start date) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_reset
    WHEN 'daily' THEN (p_start + 1)::timestamp
    WHEN 'weekly' THEN (p_start + 7)::timestamp
    WHEN 'monthly' THEN p_start::timestamp + interval '1 month'
  END AT TIME ZONE 'UTC'
$$;
