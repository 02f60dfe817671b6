-- Closes the days past the hold of promotional earnings: they get their budget, and the promotion account takes the rest back. A
-- hoster has at most p_rules.promotion_hoster_day_nanos for a day, and all hosters p_rules.promotion_day_nanos, in proportion.
-- Rounds down. Locks all hosters in the order of hoster_id, then the search for promotional earnings.
CREATE OR REPLACE FUNCTION close_promotion_days(p_now timestamptz, p_rules payout_rules) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_last date := held_from(p_now, greatest(p_rules.promotion_hold_days, p_rules.hold_days, 1)) - 1;
  v_day date;
  v_hoster uuid;
BEGIN
  -- Before the lock of the search, as the functions that have locked a hoster when they search.
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM hoster));
  PERFORM find_promotion_shares(p_now);
  -- Once more: settlements may be weeks late, from the journal of a node that was down.
  PERFORM find_promotion_shares_of('-infinity', v_last);
  FOR v_day IN SELECT DISTINCT day FROM promotion_share WHERE day > (SELECT closed_day FROM promotion_progress) AND day <= v_last ORDER BY day LOOP
    INSERT INTO promotion_day (hoster_id, day, share_nanos, budget_nanos)
      WITH earned AS (
        SELECT s.hoster_id, sum(s.share_nanos)::bigint AS share FROM promotion_share s WHERE s.day = v_day GROUP BY s.hoster_id
      ), asked AS (
        SELECT e.hoster_id, e.share, least(e.share, p_rules.promotion_hoster_day_nanos,
          CASE WHEN p_rules.promotion_needs_payers THEN fees_of_payers(e.hoster_id, v_day) ELSE e.share END)::bigint AS nanos
        FROM earned e
      ), compared AS (
        SELECT *, sum(nanos) OVER () AS nanos_of_all FROM asked
      )
      SELECT hoster_id, v_day, share, CASE WHEN nanos_of_all <= p_rules.promotion_day_nanos THEN nanos
        ELSE div(nanos::numeric * p_rules.promotion_day_nanos, nanos_of_all) END
      FROM compared;
    FOR v_hoster IN SELECT hoster_id FROM promotion_day WHERE day = v_day ORDER BY hoster_id LOOP
      PERFORM take_promotion_excess(v_hoster, v_day);
    END LOOP;
  END LOOP;
  UPDATE promotion_progress SET closed_day = v_last WHERE closed_day < v_last;
  -- Before networks and browsers are forgotten.
  PERFORM open_promotion_reviews();
END $$;

-- What the platform earned with the requests of 30 days, until `p_day`, that promotion credit did not pay, less what promotion
-- credit has paid this hoster for the days before. Rounds down.
CREATE OR REPLACE FUNCTION fees_of_payers(p_hoster uuid, p_day date) RETURNS numeric
LANGUAGE sql STABLE AS $$
  WITH earned AS (
    SELECT coalesce(sum(fee_nanos - (refunded_nanos - refunded_share_nanos)), 0) AS fees,
      coalesce(sum(hoster_share_nanos - refunded_share_nanos), 0) AS shares
    FROM hoster_line WHERE hoster_id = p_hoster AND day BETWEEN p_day - 29 AND p_day
  ), by_promotion AS (
    SELECT coalesce(sum(share_nanos), 0) AS shares FROM promotion_share WHERE hoster_id = p_hoster AND day BETWEEN p_day - 29 AND p_day
  ), paid AS (
    SELECT coalesce(sum(share_nanos - taken_nanos), 0) AS shares FROM promotion_day WHERE hoster_id = p_hoster AND day BETWEEN p_day - 29 AND p_day - 1
  )
  SELECT greatest(0, coalesce(div(earned.fees * (earned.shares - by_promotion.shares), nullif(earned.shares, 0)), 0) - paid.shares)
  FROM earned, by_promotion, paid
$$;

-- Finds the promotional earnings up to now. Settlements of the last days may be late. Locks the search, as
-- find_promotion_shares_of.
CREATE OR REPLACE FUNCTION find_promotion_shares(p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_today date := (p_now AT TIME ZONE 'UTC')::date;
BEGIN
  PERFORM find_promotion_shares_of((SELECT found_day - 2 FROM promotion_progress), v_today);
  UPDATE promotion_progress SET found_day = v_today WHERE found_day < v_today;
END $$;

-- Finds the promotional earnings of those of these days that are not closed. On the day on which the promotion credit of a
-- customer ends, each hoster has the same part of it. What was found for an archived month stays: its usage rows are gone, and no
-- charge or refund of it comes any more. Locks the search: calls run one after the other.
CREATE OR REPLACE FUNCTION find_promotion_shares_of(p_from date, p_to date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from date;
  v_archived date[];
BEGIN
  PERFORM pg_advisory_xact_lock(x'73797072'::int);  -- "sypr" in ASCII; any number that no other lock uses
  -- After the lock: a call that waited for it may find days closed, whose shares keep their amounts.
  v_from := greatest(p_from, (SELECT closed_day + 1 FROM promotion_progress));
  v_archived := ARRAY(SELECT month FROM usage_archive);
  PERFORM note_promotion_used_up(promotion_customers(v_from, p_to), v_from);
  DELETE FROM promotion_share s WHERE s.day BETWEEN v_from AND p_to AND date_trunc('month', s.day)::date <> ALL (v_archived);
  INSERT INTO promotion_share (hoster_id, day, customer_id, share_nanos)
    WITH found AS (
      SELECT used.hoster_id, spent.day, used.customer_id,
        ceil(sum(used.hoster_share_nanos - coalesce(refunded.hoster_share_nanos, 0)) * spent.promotion / spent.spent)::bigint AS share
      FROM promotion_spent(promotion_customers(v_from, p_to)) spent
      JOIN usage_event used ON used.customer_id = spent.customer_id AND used.hoster_id IS NOT NULL
        AND used.started_at >= spent.day::timestamp AT TIME ZONE 'UTC' AND used.started_at < (spent.day + 1)::timestamp AT TIME ZONE 'UTC'
      LEFT JOIN refund refunded ON refunded.customer_id = used.customer_id AND refunded.request_id = used.request_id
      WHERE spent.promotion > 0 AND spent.spent > 0 AND spent.day BETWEEN v_from AND p_to AND date_trunc('month', spent.day)::date <> ALL (v_archived)
      GROUP BY used.hoster_id, spent.day, used.customer_id, spent.promotion, spent.spent
    )
    SELECT hoster_id, day, customer_id, share FROM found WHERE share > 0;
END $$;

-- Notes those of these customers that had no promotion credit left before this day. Own money that was spent before the promotion
-- credit was given uses up none of it, and what is given from this day on is not used up.
CREATE OR REPLACE FUNCTION note_promotion_used_up(p_customers uuid[], p_before date) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO promotion_used_up (customer_id, day)
    SELECT c.customer_id, p_before - 1 FROM unnest(p_customers) AS c(customer_id)
      LEFT JOIN promotion_days(p_customers) d ON d.customer_id = c.customer_id
    GROUP BY c.customer_id
    HAVING coalesce((array_agg(d.remains ORDER BY d.day DESC) FILTER (WHERE d.day < p_before))[1], 0) = 0
      AND coalesce(bool_and(d.given <= 0) FILTER (WHERE d.day >= p_before), true)
    ON CONFLICT (customer_id) DO UPDATE SET day = excluded.day, noted_at = excluded.noted_at
$$;

-- The customers of hosters on these days that had promotion credit left before them. A customer that got promotion credit after
-- the day on which it was used up has some again.
CREATE OR REPLACE FUNCTION promotion_customers(p_from date, p_to date) RETURNS uuid[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(
    SELECT DISTINCT d.customer_id FROM usage_day d WHERE d.day BETWEEN p_from AND p_to AND d.provider = 'hoster'
      AND NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = d.customer_id)
      AND NOT EXISTS (SELECT FROM promotion_used_up u WHERE u.customer_id = d.customer_id AND u.day < p_from
          AND NOT EXISTS (SELECT FROM refund r WHERE r.customer_id = u.customer_id AND r.at > u.noted_at)
          AND NOT EXISTS (SELECT FROM promotion_given(ARRAY[u.customer_id]) g WHERE (g.at AT TIME ZONE 'UTC')::date > u.day)))
$$;

-- The promotion credit that these customers spent on each day (UTC). Promotion credit is spent first, from the day on which it
-- was given. Credit is promotion when the promotion account gave it.
CREATE OR REPLACE FUNCTION promotion_spent(p_customers uuid[]) RETURNS TABLE (customer_id uuid, day date, spent bigint, promotion bigint)
LANGUAGE sql STABLE AS $$
  SELECT d.customer_id, d.day, d.spent::bigint,
    (lag(d.remains, 1, 0::numeric) OVER (PARTITION BY d.customer_id ORDER BY d.day) + d.given - d.remains)::bigint
  FROM promotion_days(p_customers) d
$$;

-- By customer and UTC day: the promotion credit that was given, the charges, and the promotion credit that is left at the end. It
-- is spent first, from the day on which it was given.
CREATE OR REPLACE FUNCTION promotion_days(p_customers uuid[]) RETURNS TABLE (customer_id uuid, day date, given numeric, spent numeric, remains numeric)
LANGUAGE sql STABLE AS $$
  WITH flow AS (
    SELECT f.customer_id, f.day, sum(f.given) AS given, sum(f.spent) AS spent FROM (
      SELECT g.customer_id, (g.at AT TIME ZONE 'UTC')::date AS day, g.nanos AS given, 0 AS spent FROM promotion_given(p_customers) g
      UNION ALL
      SELECT d.customer_id, d.day, 0, d.cost_nanos FROM usage_day d WHERE d.customer_id = ANY (p_customers)
      UNION ALL
      SELECT r.customer_id, (r.started_at AT TIME ZONE 'UTC')::date, 0, -r.amount_nanos FROM refund r WHERE r.customer_id = ANY (p_customers)
    ) f GROUP BY 1, 2
  ),
  -- What is left at the end of a day is the sum so far above its lowest point, or above zero.
  walk AS (SELECT *, sum(f.given - f.spent) OVER (PARTITION BY f.customer_id ORDER BY f.day) AS net FROM flow f)
  SELECT w.customer_id, w.day, w.given, w.spent, w.net - least(0, min(w.net) OVER (PARTITION BY w.customer_id ORDER BY w.day)) FROM walk w
$$;

-- The promotion credit that these customers got, less what was taken back unspent: what the promotion account gave, and payments
-- of a test mode, which nobody paid. What reversals took from those is not subtracted: the debt of a disputed test payment may
-- never be paid.
CREATE OR REPLACE FUNCTION promotion_given(p_customers uuid[]) RETURNS TABLE (customer_id uuid, at timestamptz, nanos bigint)
LANGUAGE sql STABLE AS $$
  SELECT e.account_id, t.at, e.amount_nanos FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
   WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = ANY (p_customers)
     AND CASE t.kind
       WHEN 'payment' THEN EXISTS (SELECT FROM payment p WHERE p.tx_id = e.tx_id AND NOT p.is_live)
       ELSE t.kind IN ('signup_credit', 'credit', 'voucher', 'reversal_returned')
         AND EXISTS (SELECT FROM ledger_entry p WHERE p.tx_id = e.tx_id AND p.account_kind = 'platform_promo') END
  UNION ALL
  -- What came from another cell, less what went there.
  SELECT e.account_id, t.at, -e.amount_nanos FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
   WHERE e.account_kind = 'cell_promo' AND e.account_id = ANY (p_customers)
  UNION ALL
  SELECT c.customer_id, t.at, -c.amount_nanos FROM credit_taken c JOIN ledger_tx t USING (tx_id)
   WHERE c.customer_id = ANY (p_customers) AND t.kind = 'reversal'
     AND EXISTS (SELECT FROM ledger_entry p WHERE p.tx_id = c.tx_id AND p.account_kind = 'platform_promo')
$$;

-- Takes from a locked hoster what the budget of a closed day does not pay, or what was withheld.
CREATE OR REPLACE FUNCTION take_promotion_excess(p_hoster uuid, p_day date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v promotion_day;
  v_taken bigint;
BEGIN
  SELECT * INTO STRICT v FROM promotion_day WHERE hoster_id = p_hoster AND day = p_day;
  -- What is not withheld has the budget first.
  SELECT v.share_nanos - least(v.budget_nanos, coalesce(sum(share_nanos) FILTER (WHERE state <> 'withheld'), 0)) INTO v_taken
    FROM promotion_share WHERE hoster_id = p_hoster AND day = p_day;
  IF v_taken > v.taken_nanos THEN
    PERFORM post_hoster('promotion_excess', p_hoster || ':' || p_day || ':' || v_taken, p_hoster, v.taken_nanos - v_taken, 'platform_promo',
      platform_account(), 'earnings from promotion credit beyond the budget of ' || p_day);
    UPDATE promotion_day SET taken_nanos = v_taken WHERE hoster_id = p_hoster AND day = p_day;
  END IF;
END $$;
