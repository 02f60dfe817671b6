-- What promotion credit pays to hosters comes from a budget of the operator. It is found by day, from sums, long before it can be paid: requests
-- and settlements do no more work than before. docs/payouts.md describes the rules.

-- ---------------------------------------------------------------- ledger
-- `promotion_excess` moves from the hoster to platform_promo: what promotion credit paid beyond the budget, or what an operator withheld. NOT VALID:
-- the old rows satisfied a stricter check, and reading them all would take minutes.
ALTER TABLE ledger_tx DROP CONSTRAINT ledger_tx_kind_check;
ALTER TABLE ledger_tx ADD CONSTRAINT ledger_tx_kind_check CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund',
  'payment', 'voucher', 'reversal', 'reversal_returned', 'debt_payment', 'processor_fee',
  'payout', 'payout_paid', 'payout_returned', 'earnings_moved', 'clawback', 'clawback_returned', 'opening_balance', 'promotion_excess')) NOT VALID;

-- ---------------------------------------------------------------- tables
-- Days until `closed_day` are done; those before this migration count as paid with own money. `found_day`: the requests until this day
-- were looked at. One row.
CREATE TABLE promotion_progress (
  closed_day    date NOT NULL,
  found_day     date NOT NULL
);
INSERT INTO promotion_progress SELECT today - 1, today FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) d;

-- The part of a hoster's earnings of one UTC day that the promotion credit of one customer paid.
CREATE TABLE promotion_share (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  day           date NOT NULL,
  customer_id   uuid NOT NULL,
  share_nanos   bigint NOT NULL CHECK (share_nanos > 0),
  -- `clear`: nothing relates the customer to the hoster. `waiting`: an operator decides.
  state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'clear', 'waiting', 'released', 'withheld')),
  PRIMARY KEY (hoster_id, day, customer_id)
);
CREATE INDEX promotion_share_day ON promotion_share (day);

-- A day of a hoster past the hold of promotional earnings. Its rows in promotion_share keep their amounts from then on.
CREATE TABLE promotion_day (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  day           date NOT NULL,
  share_nanos   bigint NOT NULL,
  -- What the budget pays of it.
  budget_nanos  bigint NOT NULL CHECK (budget_nanos BETWEEN 0 AND share_nanos),
  -- What the promotion account has taken back: the rest, and what was withheld.
  taken_nanos   bigint NOT NULL DEFAULT 0 CHECK (taken_nanos BETWEEN 0 AND share_nanos),
  -- The payout that has what is left. NULL: it is in none yet.
  payout_id     uuid REFERENCES payout,
  PRIMARY KEY (hoster_id, day)
);
CREATE INDEX promotion_day_payout ON promotion_day (payout_id) WHERE payout_id IS NOT NULL;

-- Promotional earnings that related customers paid. A batch with a payout to the hoster waits for the decision.
CREATE TABLE promotion_review (
  review_id     uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  share_nanos   bigint NOT NULL,
  -- [{customer_id, evidence, detail}], as it was then.
  evidence      jsonb NOT NULL,
  opened_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  state         text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'released', 'withheld')),
  reason        text,
  -- NULL with a decision: the command line.
  decided_by    uuid,
  decided_at    timestamptz,
  CHECK ((state = 'waiting') = (decided_at IS NULL))
);
CREATE UNIQUE INDEX promotion_review_waiting ON promotion_review (hoster_id) WHERE state = 'waiting';
CREATE INDEX promotion_review_opened ON promotion_review (opened_at DESC, review_id);

-- Customers without promotion credit: it is given when an account is opened, and only a refund brings it back. The search leaves them out, because the
-- history of 10,000 customers of hosters takes 14 seconds.
CREATE TABLE promotion_used_up (
  customer_id   uuid PRIMARY KEY,
  -- From the next day on, the customer has none, unless a refund came later.
  day           date NOT NULL,
  noted_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The settings that payouts follow.
CREATE TYPE payout_rules AS (hold_days integer, promotion_hold_days integer, promotion_hoster_day_nanos bigint, promotion_day_nanos bigint,
  promotion_needs_payers boolean);

-- ---------------------------------------------------------------- promotional earnings
-- The promotion credit that these customers spent on each day (UTC). Promotion credit is spent first, from the day on which it was given. Credit is
-- promotion when the promotion account gave it.
CREATE FUNCTION promotion_spent(p_customers uuid[]) RETURNS TABLE (customer_id uuid, day date, spent bigint, promotion bigint)
LANGUAGE sql STABLE AS $$
  WITH flow AS (
    SELECT f.customer_id, f.day, sum(f.given) AS given, sum(f.spent) AS spent FROM (
      SELECT e.account_id AS customer_id, (t.at AT TIME ZONE 'UTC')::date AS day, e.amount_nanos AS given, 0 AS spent
        FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
       WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = ANY (p_customers) AND t.kind IN ('signup_credit', 'credit')
         AND EXISTS (SELECT FROM ledger_entry p WHERE p.tx_id = e.tx_id AND p.account_kind = 'platform_promo')
      UNION ALL
      SELECT d.customer_id, d.day, 0, d.cost_nanos FROM usage_day d WHERE d.customer_id = ANY (p_customers)
      UNION ALL
      SELECT r.customer_id, (r.started_at AT TIME ZONE 'UTC')::date, 0, -r.amount_nanos FROM refund r WHERE r.customer_id = ANY (p_customers)
    ) f GROUP BY 1, 2
  ),
  -- What is left at the end of a day is the sum so far above its lowest point, or above zero.
  walk AS (SELECT *, sum(f.given - f.spent) OVER (PARTITION BY f.customer_id ORDER BY f.day) AS net FROM flow f),
  left_over AS (SELECT *, w.net - least(0, min(w.net) OVER (PARTITION BY w.customer_id ORDER BY w.day)) AS remains FROM walk w)
  SELECT l.customer_id, l.day, l.spent::bigint,
    (lag(l.remains, 1, 0::numeric) OVER (PARTITION BY l.customer_id ORDER BY l.day) + l.given - l.remains)::bigint
  FROM left_over l
$$;

-- Notes those of these customers that had no promotion credit left before this day.
CREATE FUNCTION note_promotion_used_up(p_customers uuid[], p_before date) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO promotion_used_up (customer_id, day)
    SELECT c.customer_id, p_before - 1 FROM unnest(p_customers) AS c(customer_id)
    WHERE coalesce((
        SELECT sum(d.cost_nanos) FROM usage_day d WHERE d.customer_id = c.customer_id AND d.day < p_before), 0)
      >= coalesce((
        SELECT sum(e.amount_nanos) FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
        WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = c.customer_id AND t.kind IN ('signup_credit', 'credit')
          AND EXISTS (SELECT FROM ledger_entry p WHERE p.tx_id = e.tx_id AND p.account_kind = 'platform_promo')), 0)
      + coalesce((SELECT sum(r.amount_nanos) FROM refund r WHERE r.customer_id = c.customer_id), 0)
    ON CONFLICT DO NOTHING
$$;

SELECT note_promotion_used_up(ARRAY(SELECT customer_id FROM balance), (SELECT closed_day + 1 FROM promotion_progress));

-- The customers of hosters on these days that had promotion credit left before them.
CREATE FUNCTION promotion_customers(p_from date, p_to date) RETURNS uuid[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(
    SELECT DISTINCT d.customer_id FROM usage_day d WHERE d.day BETWEEN p_from AND p_to AND d.provider = 'hoster'
      AND NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = d.customer_id)
      AND NOT EXISTS (SELECT FROM promotion_used_up u WHERE u.customer_id = d.customer_id AND u.day < p_from
          AND NOT EXISTS (SELECT FROM refund r WHERE r.customer_id = u.customer_id AND r.at > u.noted_at)))
$$;

-- Finds the promotional earnings of those of these days that are not closed. On the day on which the promotion credit of a customer ends, each
-- hoster has the same part of it. Calls queue for a lock.
CREATE FUNCTION find_promotion_shares_of(p_from date, p_to date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from date := greatest(p_from, (SELECT closed_day + 1 FROM promotion_progress));
BEGIN
  PERFORM pg_advisory_xact_lock(x'73797072'::int);  -- "sypr" in ASCII; any number that no other lock uses
  PERFORM note_promotion_used_up(promotion_customers(v_from, p_to), v_from);
  DELETE FROM promotion_share s WHERE s.day BETWEEN v_from AND p_to;
  INSERT INTO promotion_share (hoster_id, day, customer_id, share_nanos)
    SELECT hoster_id, day, customer_id, share FROM (
      SELECT u.hoster_id, p.day, u.customer_id,
        ceil(sum(u.hoster_share_nanos - coalesce(r.hoster_share_nanos, 0)) * p.promotion / p.spent)::bigint AS share
      FROM promotion_spent(promotion_customers(v_from, p_to)) p
      JOIN usage_event u ON u.customer_id = p.customer_id AND u.hoster_id IS NOT NULL
        AND u.started_at >= p.day::timestamp AT TIME ZONE 'UTC' AND u.started_at < (p.day + 1)::timestamp AT TIME ZONE 'UTC'
      LEFT JOIN refund r ON r.customer_id = u.customer_id AND r.request_id = u.request_id
      WHERE p.promotion > 0 AND p.spent > 0 AND p.day BETWEEN v_from AND p_to
      GROUP BY u.hoster_id, p.day, u.customer_id, p.promotion, p.spent
    ) found
    WHERE share > 0;
END $$;

-- Finds the promotional earnings up to now. Settlements of the last days may be late.
CREATE FUNCTION find_promotion_shares(p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_today date := (p_now AT TIME ZONE 'UTC')::date;
BEGIN
  PERFORM find_promotion_shares_of((SELECT found_day - 2 FROM promotion_progress), v_today);
  UPDATE promotion_progress SET found_day = v_today WHERE found_day < v_today;
END $$;

-- As in 0021, with earnings that promotion credit paid: `promotional` is what is not closed yet or waits for a decision, and cannot be moved. What is not closed is held.
DROP FUNCTION hoster_funds;
CREATE FUNCTION hoster_funds(p_hosters uuid[], p_held_from date)
RETURNS TABLE (hoster uuid, balance bigint, held bigint, payable bigint, held_day date, promotional bigint, promotional_day date)
LANGUAGE sql STABLE AS $$
  SELECT h.hoster_id, f.balance, f.held, f.balance - f.held, l.held_day, coalesce(p.unclosed, 0) + coalesce(p.undecided, 0), p.last_day
  FROM hoster h
  LEFT JOIN (
    SELECT hoster_id, sum(hoster_share_nanos - refunded_share_nanos)::bigint AS net,
      coalesce(sum(hoster_share_nanos - refunded_share_nanos) FILTER (WHERE day >= p_held_from), 0)::bigint AS held,
      max(day) FILTER (WHERE day >= p_held_from AND hoster_share_nanos > 0) AS held_day
    FROM hoster_line WHERE p_hosters IS NULL OR hoster_id = ANY (p_hosters) GROUP BY hoster_id
  ) l USING (hoster_id)
  LEFT JOIN (
    SELECT hoster_id, sum(amount_nanos)::bigint AS net FROM hoster_movement WHERE p_hosters IS NULL OR hoster_id = ANY (p_hosters) GROUP BY hoster_id
  ) m USING (hoster_id)
  LEFT JOIN (
    SELECT s.hoster_id, sum(s.share_nanos) FILTER (WHERE d.day IS NULL)::bigint AS unclosed, max(s.day) FILTER (WHERE d.day IS NULL) AS last_day,
      -- Within the hold of all earnings, they are held already.
      sum(s.share_nanos) FILTER (WHERE d.day IS NULL AND s.day < p_held_from)::bigint AS held_longer,
      sum(s.share_nanos) FILTER (WHERE d.day IS NOT NULL AND s.state IN ('open', 'waiting'))::bigint AS undecided
    FROM promotion_share s LEFT JOIN promotion_day d ON d.hoster_id = s.hoster_id AND d.day = s.day
    WHERE p_hosters IS NULL OR s.hoster_id = ANY (p_hosters) GROUP BY s.hoster_id
  ) p USING (hoster_id)
  CROSS JOIN LATERAL (
    SELECT coalesce(l.net, 0) + coalesce(m.net, 0) AS balance, coalesce(l.held, 0) + coalesce(p.held_longer, 0) AS held
  ) f
  WHERE p_hosters IS NULL OR h.hoster_id = ANY (p_hosters)
$$;

-- ---------------------------------------------------------------- the budget
-- Takes from a locked hoster what the budget of a closed day does not pay, or what was withheld.
CREATE FUNCTION take_promotion_excess(p_hoster uuid, p_day date) RETURNS void
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
      '00000000-0000-0000-0000-000000000000', 'earnings from promotion credit beyond the budget of ' || p_day);
    UPDATE promotion_day SET taken_nanos = v_taken WHERE hoster_id = p_hoster AND day = p_day;
  END IF;
END $$;

-- Closes the days past the hold of promotional earnings: they get their budget, and the promotion account takes the rest back. A hoster has at most
-- p_rules.promotion_hoster_day_nanos for a day, and all hosters p_rules.promotion_day_nanos, in proportion. Rounds down.
CREATE FUNCTION close_promotion_days(p_now timestamptz, p_rules payout_rules) RETURNS void
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
      SELECT hoster_id, v_day, share, CASE WHEN asked_by_all <= p_rules.promotion_day_nanos THEN asked
          ELSE div(asked::numeric * p_rules.promotion_day_nanos, asked_by_all) END
      FROM (
        SELECT *, sum(asked) OVER () AS asked_by_all FROM (
          SELECT hoster_id, share, least(share, p_rules.promotion_hoster_day_nanos,
              CASE WHEN p_rules.promotion_needs_payers THEN fees ELSE share END)::bigint AS asked
          FROM (SELECT hoster_id, sum(share_nanos)::bigint AS share FROM promotion_share WHERE day = v_day GROUP BY hoster_id) of_day
          -- What the platform earned with the requests of 30 days that promotion credit did not pay, less what it paid of theirs since.
          CROSS JOIN LATERAL (
            SELECT greatest(0, coalesce(div(l.fees * (l.shares - p.shares), nullif(l.shares, 0)), 0) - p.paid) AS fees
            FROM (
              SELECT coalesce(sum(fee_nanos - (refunded_nanos - refunded_share_nanos)), 0) AS fees,
                coalesce(sum(hoster_share_nanos - refunded_share_nanos), 0) AS shares
              FROM hoster_line WHERE hoster_id = of_day.hoster_id AND day BETWEEN v_day - 29 AND v_day
            ) l, (
              SELECT coalesce(sum(s.share_nanos), 0) AS shares,
                (SELECT coalesce(sum(d.share_nanos - d.taken_nanos), 0) FROM promotion_day d
                  WHERE d.hoster_id = of_day.hoster_id AND d.day BETWEEN v_day - 29 AND v_day - 1) AS paid
              FROM promotion_share s WHERE s.hoster_id = of_day.hoster_id AND s.day BETWEEN v_day - 29 AND v_day
            ) p
          ) payers
        ) s
      ) a;
    FOR v_hoster IN SELECT hoster_id FROM promotion_day WHERE day = v_day ORDER BY hoster_id LOOP
      PERFORM take_promotion_excess(v_hoster, v_day);
    END LOOP;
  END LOOP;
  UPDATE promotion_progress SET closed_day = v_last WHERE closed_day < v_last;
  -- Before networks and browsers are forgotten.
  PERFORM open_promotion_reviews();
END $$;

-- ---------------------------------------------------------------- reviews
-- What relates the customers to a hoster that paid it with promotion credit: the evidence of related_customers, and two kinds more. `circular`: the
-- balance of the customer has received earnings of a hoster. `timing`: the customer got its signup credit within ten minutes of two others that also
-- gave most of it to this hoster.
CREATE FUNCTION promotion_evidence(p_hoster uuid, p_customers uuid[]) RETURNS TABLE (customer_id uuid, evidence text, detail text)
LANGUAGE sql STABLE AS $$
  WITH signed_up AS (
    SELECT e.account_id AS customer_id, t.at FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
     WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND t.kind = 'signup_credit'
       AND e.account_id IN (SELECT s.customer_id FROM promotion_share s WHERE s.hoster_id = p_hoster)
       AND 2 * (SELECT sum(s.share_nanos) FROM promotion_share s WHERE s.hoster_id = p_hoster AND s.customer_id = e.account_id)
         > (SELECT sum(s.share_nanos) FROM promotion_share s WHERE s.customer_id = e.account_id)
  )
  SELECT r.customer_id, r.evidence, r.detail FROM related_customers(p_hoster) r WHERE r.customer_id = ANY (p_customers)
  UNION
  SELECT e.account_id, 'circular', h.name FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    JOIN ledger_entry o ON o.tx_id = e.tx_id AND o.account_kind = 'hoster_payable' JOIN hoster h ON h.hoster_id = o.account_id
    WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = ANY (p_customers) AND t.kind = 'earnings_moved'
  UNION
  SELECT a.customer_id, 'timing', count(*) - 1 || ' others' FROM signed_up a JOIN signed_up b ON b.at BETWEEN a.at - interval '10 minutes' AND a.at + interval '10 minutes'
    WHERE a.customer_id = ANY (p_customers) GROUP BY a.customer_id HAVING count(*) >= 3
$$;

-- Looks for relations in the promotional earnings of closed days that were not looked at. Those of related customers wait for an operator. Call it with the
-- hosters locked.
CREATE FUNCTION open_promotion_reviews() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_hoster uuid;
  v_customers uuid[];
  v_evidence jsonb;
BEGIN
  FOR v_hoster, v_customers IN
    SELECT s.hoster_id, array_agg(DISTINCT s.customer_id) FROM promotion_share s JOIN promotion_day d USING (hoster_id, day)
    WHERE s.state = 'open' GROUP BY s.hoster_id ORDER BY s.hoster_id
  LOOP
    SELECT jsonb_agg(e ORDER BY e.customer_id, e.evidence, e.detail) INTO v_evidence FROM promotion_evidence(v_hoster, v_customers) e;
    UPDATE promotion_share s SET state = CASE WHEN v_evidence @> jsonb_build_array(jsonb_build_object('customer_id', s.customer_id)) THEN 'waiting' ELSE 'clear' END
      FROM promotion_day d WHERE s.hoster_id = v_hoster AND d.hoster_id = v_hoster AND d.day = s.day AND s.state = 'open';
    IF v_evidence IS NOT NULL THEN
      INSERT INTO promotion_review AS r (review_id, hoster_id, share_nanos, evidence)
        VALUES (gen_random_uuid(), v_hoster, (SELECT sum(share_nanos) FROM promotion_share WHERE hoster_id = v_hoster AND state = 'waiting'), v_evidence)
        ON CONFLICT (hoster_id) WHERE state = 'waiting' DO UPDATE SET share_nanos = excluded.share_nanos, evidence = r.evidence || excluded.evidence;
    END IF;
  END LOOP;
END $$;

-- Decides a review. What is withheld goes back to the promotion account, and payouts to the hoster that were not sent are cancelled: the rest is in the
-- next batch. Returns whether the review waited. For the owner of the tables: the gateway role calls decide_promotion_review_by_operator.
CREATE FUNCTION decide_promotion_review(p_operator uuid, p_review uuid, p_is_released boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v promotion_review;
  v_payout payout;
  v_day date;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM promotion_review WHERE review_id = p_review));
  UPDATE promotion_review SET state = CASE WHEN p_is_released THEN 'released' ELSE 'withheld' END, reason = p_reason, decided_by = p_operator, decided_at = clock_timestamp()
    WHERE review_id = p_review AND state = 'waiting' RETURNING * INTO v;
  IF v.review_id IS NULL THEN
    RETURN false;
  END IF;
  IF v.state = 'withheld' THEN
    FOR v_payout IN SELECT * FROM payout WHERE hoster_id = v.hoster_id AND state IN ('prepared', 'approved') ORDER BY payout_id FOR UPDATE LOOP
      PERFORM drop_payout(v_payout, 'earnings from promotion credit were withheld');
    END LOOP;
  END IF;
  FOR v_day IN SELECT DISTINCT day FROM promotion_share WHERE hoster_id = v.hoster_id AND state = 'waiting' ORDER BY day LOOP
    UPDATE promotion_share SET state = v.state WHERE hoster_id = v.hoster_id AND day = v_day AND state = 'waiting';
    PERFORM take_promotion_excess(v.hoster_id, v_day);
  END LOOP;
  PERFORM add_audit_entry(p_operator, 'payout.promotion_' || v.state, v.hoster_id::text, NULL,
    jsonb_build_object('share_usd', trim_scale(v.share_nanos / 1e9)::text, 'reason', p_reason), p_address);
  RETURN true;
END $$;

CREATE FUNCTION decide_promotion_review_by_operator(p_session bytea, p_review uuid, p_is_released boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT decide_promotion_review(operator_of_session(p_session, true), p_review, p_is_released, p_reason, p_address) $$;

-- ---------------------------------------------------------------- payouts
DROP FUNCTION prepare_payouts_by_operator, prepare_payouts;

-- As in 0021, after the changes of accounts that are due. A payout with promotional earnings of related customers waits for a review.
CREATE FUNCTION prepare_payouts(p_operator uuid, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_now timestamptz,
  p_rules payout_rules, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_held_from date := held_from(p_now, p_rules.hold_days);
  v_hosters uuid[] := ARRAY(SELECT hoster_id FROM hoster);
  v_total bigint := 0;
  v_count integer := 0;
BEGIN
  -- All at once, so that no hoster is locked out of order below.
  PERFORM lock_hosters(v_hosters);
  PERFORM apply_payout_changes(p_now);
  PERFORM close_promotion_days(p_now, p_rules);
  INSERT INTO payout_batch (batch_id, driver, is_live, prepared_by) VALUES (p_batch, p_driver, p_is_live, p_operator);
  FOR hoster, verdict, amount, payable IN
    SELECT f.hoster, CASE
        WHEN f.payable / 10000000 * 10000000 < greatest(p_minimum, 10000000) THEN 'below_minimum'
        WHEN h.payout_frozen_at IS NOT NULL THEN 'frozen'
        WHEN a.driver IS NULL THEN 'no_account'
        WHEN a.driver <> p_driver THEN 'other_driver'
        WHEN a.state <> 'ready' THEN 'account_not_ready'
        ELSE 'prepared' END,
      -- The part of a cent stays payable.
      f.payable / 10000000 * 10000000, f.payable
    FROM hoster_funds(v_hosters, v_held_from) f JOIN hoster h ON h.hoster_id = f.hoster LEFT JOIN hoster_account a ON a.hoster_id = f.hoster
    WHERE f.balance <> 0 ORDER BY f.hoster
  LOOP
    payout := NULL;
    IF verdict = 'prepared' THEN
      payout := gen_random_uuid();
      INSERT INTO payout (payout_id, batch_id, hoster_id, driver, is_live, destination, holder, amount_nanos, reference)
        SELECT payout, p_batch, a.hoster_id, p_driver, p_is_live, a.destination, a.holder, amount, 'PO-' || upper(right(payout::text, 12))
        FROM hoster_account a WHERE a.hoster_id = hoster;
      PERFORM move_payout(payout, amount, 0, 'payout PO-' || upper(right(payout::text, 12)));
      UPDATE promotion_day d SET payout_id = payout WHERE d.hoster_id = hoster
        AND (d.payout_id IS NULL OR EXISTS (SELECT FROM payout o WHERE o.payout_id = d.payout_id AND o.state IN ('failed', 'returned', 'cancelled')));
      v_total := v_total + amount;
      v_count := v_count + 1;
    ELSE
      amount := 0;
    END IF;
    RETURN NEXT;
  END LOOP;
  IF v_count = 0 THEN
    DELETE FROM payout_batch WHERE batch_id = p_batch;
  ELSE
    PERFORM add_audit_entry(p_operator, 'payout.prepared', p_batch::text, NULL,
      jsonb_build_object('payouts', v_count, 'amount_usd', trim_scale(v_total / 1e9)::text, 'driver', p_driver), p_address);
  END IF;
END $$;
CREATE FUNCTION prepare_payouts_by_operator(p_session bytea, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_now timestamptz,
  p_rules payout_rules, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE sql AS $$
  SELECT * FROM prepare_payouts(operator_of_session(p_session, true), p_batch, p_driver, p_is_live, p_minimum, p_now, p_rules, p_address)
$$;

-- As in 0021, but 'undecided' while a review of a hoster in the batch waits.
CREATE OR REPLACE FUNCTION approve_payouts(p_operator uuid, p_batch uuid, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout_batch;
  v_total numeric;
  v_recent numeric;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE batch_id = p_batch));
  -- Approvals count one after the other, so that two at once cannot pass the limit together.
  PERFORM pg_advisory_xact_lock(x'73797061'::int);  -- "sypa" in ASCII; any number that no other lock uses
  SELECT * INTO v FROM payout_batch WHERE batch_id = p_batch FOR UPDATE;
  IF v.batch_id IS NULL THEN
    RETURN 'no_batch';
  ELSIF v.state <> 'prepared' THEN
    RETURN CASE WHEN v.state = 'cancelled' THEN 'cancelled' ELSE 'approved_before' END;
  END IF;
  IF EXISTS (SELECT FROM payout p JOIN promotion_review r USING (hoster_id) WHERE p.batch_id = p_batch AND p.state = 'prepared' AND r.state = 'waiting') THEN
    RETURN 'undecided';
  END IF;
  SELECT coalesce(sum(amount_nanos), 0) INTO v_total FROM payout WHERE batch_id = p_batch AND state = 'prepared';
  IF v.prepared_by IS NOT DISTINCT FROM p_operator THEN
    SELECT coalesce(sum(p.amount_nanos), 0) INTO v_recent FROM payout_batch b JOIN payout p USING (batch_id)
      WHERE b.prepared_by IS NOT DISTINCT FROM p_operator AND b.approved_by IS NOT DISTINCT FROM p_operator
        AND b.approved_at > now() - interval '24 hours' AND p.state <> 'cancelled';
    IF v_recent + v_total > payout_alone_max_nanos() AND (CASE WHEN p_operator IS NOT NULL THEN has_other_operator(p_operator)
      ELSE EXISTS (SELECT FROM person o WHERE is_operator(o.person_id) AND has_other_operator(o.person_id)) END) THEN
      RETURN 'second_operator';
    END IF;
  END IF;
  UPDATE payout_batch SET state = 'approved', approved_by = p_operator, approved_at = now() WHERE batch_id = p_batch;
  UPDATE payout SET state = 'approved' WHERE batch_id = p_batch AND state = 'prepared';
  PERFORM add_audit_entry(p_operator, 'payout.approved', p_batch::text, NULL, jsonb_build_object('amount_usd', trim_scale(v_total / 1e9)::text), p_address);
  RETURN 'approved';
END $$;
DROP FUNCTION move_earnings;
-- As in 0021, without earnings that promotion credit paid: they would come back as own money.
CREATE FUNCTION move_earnings(p_move uuid, p_hoster uuid, p_amount bigint, p_person uuid, p_address text, p_now timestamptz)
RETURNS TABLE (verdict text, amount bigint, customer uuid)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_hoster hoster;
  v_earlier record;
  v_balance bigint;
BEGIN
  SELECT a.customer_id INTO customer FROM hoster_account a WHERE a.hoster_id = p_hoster;
  PERFORM FROM balance WHERE customer_id = customer FOR NO KEY UPDATE;
  SELECT * INTO v_hoster FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  SELECT e.account_id, -e.amount_nanos AS amount INTO v_earlier FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
    WHERE t.kind = 'earnings_moved' AND t.ref = p_move::text AND e.account_kind = 'hoster_payable';
  IF v_earlier.amount IS NOT NULL THEN
    amount := v_earlier.amount;
    verdict := CASE WHEN v_earlier.account_id = p_hoster AND coalesce(p_amount, amount) = amount THEN 'duplicate' ELSE 'move_reused' END;
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM find_promotion_shares(p_now);
  SELECT f.balance - f.promotional INTO v_balance FROM hoster_funds(ARRAY[p_hoster], 'infinity') f;
  amount := coalesce(p_amount, v_balance);
  verdict := CASE
    WHEN v_hoster.hoster_id IS NULL THEN 'no_hoster'
    -- It may have changed before the lock.
    WHEN customer IS NULL OR customer IS DISTINCT FROM (SELECT a.customer_id FROM hoster_account a WHERE a.hoster_id = p_hoster) THEN 'no_customer'
    WHEN v_hoster.payout_frozen_at IS NOT NULL THEN 'frozen'
    WHEN amount <= 0 OR amount > v_balance THEN 'not_enough'
    ELSE 'moved' END;
  IF verdict = 'moved' THEN
    PERFORM post_hoster('earnings_moved', p_move::text, p_hoster, -amount, 'customer', customer, 'earnings of ' || v_hoster.name);
    UPDATE balance SET posted_nanos = posted_nanos + amount WHERE customer_id = customer;
    PERFORM add_audit_entry(p_person, 'hoster.earnings_moved', p_hoster::text, customer, jsonb_build_object('amount_usd', trim_scale(amount / 1e9)::text), p_address);
  ELSE
    amount := greatest(v_balance, 0);
  END IF;
  RETURN NEXT;
END $$;
-- ---------------------------------------------------------------- rights
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION desk_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', desk_functions() || ARRAY['close_promotion_days', 'decide_promotion_review_by_operator']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['promotion_progress', 'promotion_share', 'promotion_day', 'promotion_review', 'promotion_used_up']::name[]));
END $$;
