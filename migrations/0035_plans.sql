-- Functions that move money run with enable_seqscan off, so that a plan made while a table was small stays right when it grows. A
-- statement without any other way than to read the whole table then costs 1e10 in PostgreSQL 14 to 17. With `jit`, which is
-- on by default, that is far above the cost from which each run of the statement is compiled, for 400 ms. Switchyard's sessions
-- switch `jit` off; these statements get a proper plan as well.

-- is_archived looks for the month of a request. One row per month, so the lock is short.
CREATE INDEX usage_archive_ids ON usage_archive (from_id, to_id);

-- What the open leases of a day hold, and their slots. Needed only for days that are not the current one of the balance, which are rare, so
-- it reads all open leases: an index on them would cost each admission more.
CREATE FUNCTION open_leases_of_day(p_customer uuid, p_day date, OUT granted bigint, OUT slots integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = on AS $$
BEGIN
  SELECT coalesce(sum(o.granted_nanos), 0), coalesce(sum(o.slots), 0) INTO granted, slots
    FROM lease o WHERE o.customer_id = p_customer AND o.cap_day = p_day;
END $$;

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
  v.day_spent := 0;
  v.day_leased := 0;
  v.day_cap := NULL;
  DELETE FROM day_spend d WHERE d.customer_id = v.customer AND d.day = p_day RETURNING d.spent_nanos, d.cap_nanos INTO v.day_spent, v.day_cap;
  IF FOUND THEN
    -- The day has been charged before, for requests that ended late or by a clock that was days off. It may
    -- have open leases too.
    SELECT o.granted, o.slots INTO v.day_leased, v.day_used FROM open_leases_of_day(v.customer, p_day) o;
  ELSE
    v.day_spent := 0;
  END IF;
  RETURN v;
END $$;

CREATE OR REPLACE FUNCTION late_cap_left(p_customer uuid, p_day date) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN b.day = p_day THEN coalesce(b.day_cap_nanos, 9223372036854775807) - b.day_spent_nanos - b.day_leased_nanos
    ELSE coalesce(d.cap_nanos, b.day_cap_nanos, 9223372036854775807) - coalesce(d.spent_nanos, 0)
      - (SELECT o.granted FROM open_leases_of_day(p_customer, p_day) o) END
  FROM balance b LEFT JOIN day_spend d ON d.customer_id = b.customer_id AND d.day = p_day
  WHERE b.customer_id = p_customer
$$;
