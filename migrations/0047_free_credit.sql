-- Grants and vouchers that nobody paid for are promotion credit, as the signup credit is: the promotion account gives them, so what they pay to hosters
-- comes from its budget. Until now they counted as paid. What was granted and made before stays paid: nothing tells which of it was.

-- ---------------------------------------------------------------- grants
ALTER TABLE grant_request ADD COLUMN is_promotion boolean NOT NULL DEFAULT false;
ALTER TABLE grant_request ALTER COLUMN is_promotion DROP DEFAULT;

DROP FUNCTION grant_credit, request_grant, request_grant_by_operator, grant_detail;

-- As in 0002. `p_is_promotion`: nobody paid for it. Another mark under the same ref is a mismatch, as another amount is.
CREATE FUNCTION grant_credit(p_customer uuid, p_amount bigint, p_ref text, p_reason text, p_is_promotion boolean DEFAULT false)
RETURNS TABLE (applied boolean, mismatch boolean, posted bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_source text := credit_source(p_is_promotion);
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
      (v_tx, v_source, '00000000-0000-0000-0000-000000000000', -p_amount);
    UPDATE balance SET posted_nanos = posted_nanos + p_amount WHERE customer_id = p_customer;
  ELSE
    mismatch := NOT EXISTS (
      SELECT FROM ledger_tx t JOIN ledger_entry e USING (tx_id) JOIN ledger_entry s USING (tx_id)
      WHERE t.kind = 'credit' AND t.ref = p_ref
        AND e.account_kind = 'customer' AND e.account_id = p_customer AND e.amount_nanos = p_amount AND s.account_kind = v_source);
  END IF;
  SELECT b.posted_nanos INTO posted FROM balance b WHERE b.customer_id = p_customer;
  RETURN NEXT;
END $$;

CREATE FUNCTION credit_source(p_is_promotion boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_is_promotion THEN 'platform_promo' ELSE 'cash' END $$;

CREATE FUNCTION grant_detail(p_amount bigint, p_ref text, p_reason text, p_is_promotion boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text, 'ref', p_ref, 'reason', p_reason, 'is_promotion', p_is_promotion)
$$;

-- As in 0012, with the mark.
CREATE FUNCTION request_grant(p_operator uuid, p_grant uuid, p_customer uuid, p_amount bigint, p_ref text, p_reason text, p_is_promotion boolean,
  p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_before grant_request;
  v_recent numeric;
  v_credit record;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  -- Grants to one customer queue here, so that two at once cannot pass the limit together.
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN 'no_account';
  END IF;
  SELECT * INTO v_before FROM grant_request WHERE ref = p_ref;
  IF FOUND THEN
    RETURN CASE
      WHEN (v_before.customer_id, v_before.amount_nanos, v_before.is_promotion) <> (p_customer, p_amount, p_is_promotion) OR v_before.state = 'rejected'
        THEN 'ref_taken'
      WHEN v_before.state = 'waiting' THEN 'waiting'
      ELSE 'duplicate' END;
  END IF;
  SELECT coalesce(sum(amount_nanos), 0) INTO v_recent FROM grant_request
   WHERE customer_id = p_customer AND requested_by = p_operator AND state = 'granted' AND requested_at > now() - interval '24 hours';
  IF v_recent + p_amount > grant_alone_max_nanos() AND has_other_operator(p_operator) THEN
    INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, is_promotion, state, requested_by)
      VALUES (p_grant, p_customer, p_amount, p_ref, p_reason, p_is_promotion, 'waiting', p_operator);
    PERFORM add_audit_entry(p_operator, 'credit.requested', p_customer::text, p_customer, grant_detail(p_amount, p_ref, p_reason, p_is_promotion), p_address);
    RETURN 'waiting';
  END IF;
  SELECT * INTO v_credit FROM grant_credit(p_customer, p_amount, p_ref, p_reason, p_is_promotion);
  IF v_credit.mismatch THEN
    RETURN 'ref_taken';
  ELSIF NOT v_credit.applied THEN
    RETURN 'duplicate';
  END IF;
  INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, is_promotion, state, requested_by, decided_by, decided_at)
    VALUES (p_grant, p_customer, p_amount, p_ref, p_reason, p_is_promotion, 'granted', p_operator, p_operator, now());
  PERFORM add_audit_entry(p_operator, 'credit.granted', p_customer::text, p_customer, grant_detail(p_amount, p_ref, p_reason, p_is_promotion), p_address);
  RETURN 'granted';
END $$;

CREATE FUNCTION request_grant_by_operator(p_session bytea, p_grant uuid, p_customer uuid, p_amount bigint, p_ref text, p_reason text,
  p_is_promotion boolean, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT request_grant(operator_of_session(p_session, true), p_grant, p_customer, p_amount, p_ref, p_reason, p_is_promotion, p_address)
$$;

-- As in 0012, with the mark.
CREATE OR REPLACE FUNCTION decide_grant(p_operator uuid, p_grant uuid, p_is_approved boolean, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v grant_request;
  v_credit record;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  SELECT * INTO v FROM grant_request WHERE grant_id = p_grant FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'no_grant';
  ELSIF v.state <> 'waiting' THEN
    RETURN 'decided_before';
  ELSIF p_is_approved AND v.requested_by = p_operator THEN
    RETURN 'own_request';
  END IF;
  IF p_is_approved THEN
    SELECT * INTO v_credit FROM grant_credit(v.customer_id, v.amount_nanos, v.ref, v.reason, v.is_promotion);
    IF NOT v_credit.applied THEN
      RETURN 'ref_taken';
    END IF;
  END IF;
  UPDATE grant_request
     SET state = CASE WHEN p_is_approved THEN 'granted' ELSE 'rejected' END, decided_by = p_operator, decided_at = now()
   WHERE grant_id = p_grant;
  PERFORM add_audit_entry(p_operator, CASE WHEN p_is_approved THEN 'credit.granted' ELSE 'credit.rejected' END, v.customer_id::text,
    v.customer_id, grant_detail(v.amount_nanos, v.ref, v.reason, v.is_promotion), p_address);
  RETURN CASE WHEN p_is_approved THEN 'granted' ELSE 'rejected' END;
END $$;

-- ---------------------------------------------------------------- vouchers
-- False for the vouchers of before: some were sold.
ALTER TABLE voucher ADD COLUMN is_promotion boolean NOT NULL DEFAULT false;
ALTER TABLE voucher ALTER COLUMN is_promotion DROP DEFAULT;
-- Of a voucher that nobody paid for.
ALTER TABLE payment ADD COLUMN is_promotion boolean NOT NULL DEFAULT false CHECK (NOT is_promotion OR driver = 'voucher');

DROP FUNCTION make_voucher, make_voucher_as, make_voucher_by_operator;

CREATE FUNCTION make_voucher(p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text, p_is_promotion boolean, p_person uuid,
  p_expires_at timestamptz)
RETURNS void
LANGUAGE sql AS $$
  INSERT INTO voucher (voucher_id, code_hash, hint, amount_nanos, note, is_promotion, made_by, expires_at)
    VALUES (p_voucher, p_code_hash, p_hint, p_amount, p_note, p_is_promotion, p_person, p_expires_at)
$$;

-- As in 0017, with the mark.
CREATE FUNCTION make_voucher_as(p_operator uuid, p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text, p_is_promotion boolean,
  p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  -- Vouchers of one operator are made one after the other.
  PERFORM FROM person WHERE person_id = p_operator FOR NO KEY UPDATE;
  IF has_other_operator(p_operator) AND p_amount > grant_alone_max_nanos() - (
      SELECT coalesce(sum(amount_nanos), 0) FROM voucher
      WHERE made_by = p_operator AND made_at > now() - interval '24 hours' AND (revoked_at IS NULL OR payment_id IS NOT NULL)) THEN
    RETURN 'above_limit';
  END IF;
  PERFORM make_voucher(p_voucher, p_code_hash, p_hint, p_amount, p_note, p_is_promotion, p_operator, p_expires_at);
  PERFORM add_audit_entry(p_operator, 'voucher.made', p_voucher::text, NULL, jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text,
    'hint', p_hint, 'note', p_note, 'is_promotion', p_is_promotion), p_address);
  RETURN 'made';
END $$;

CREATE FUNCTION make_voucher_by_operator(p_session bytea, p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text,
  p_is_promotion boolean, p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT make_voucher_as(operator_of_session(p_session, true), p_voucher, p_code_hash, p_hint, p_amount, p_note, p_is_promotion, p_expires_at, p_address)
$$;

-- As in 0017. The payment has the mark of the voucher.
CREATE OR REPLACE FUNCTION redeem_voucher(p_payment uuid, p_customer uuid, p_code_hash bytea, p_reference text, p_person uuid)
RETURNS TABLE (verdict text, payment uuid)
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v voucher;
  v_payment payment;
BEGIN
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'no_account', NULL::uuid;
    RETURN;
  END IF;
  SELECT * INTO v FROM voucher WHERE code_hash = p_code_hash FOR UPDATE;
  verdict := CASE
    WHEN v.voucher_id IS NULL THEN 'unknown'
    WHEN v.payment_id IS NOT NULL THEN
      CASE WHEN (SELECT p.customer_id FROM payment p WHERE p.payment_id = v.payment_id) = p_customer THEN 'duplicate' ELSE 'used' END
    WHEN v.revoked_at IS NOT NULL THEN 'revoked'
    WHEN v.expires_at <= now() THEN 'expired'
    ELSE 'redeemed' END;
  IF verdict = 'redeemed' THEN
    INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference, person_id, is_promotion)
      -- A voucher has no provider. Its amount may be less than a cent, so the unit is a nano-USD.
      VALUES (p_payment, p_customer, 'voucher', 'top_up', v.amount_nanos, v.amount_nanos, 'usd', true, p_reference, p_person, v.is_promotion)
      RETURNING * INTO v_payment;
    PERFORM give_payment_credit(v_payment, 'voucher', v.voucher_id::text, 'voucher ' || v.hint);
    UPDATE voucher SET payment_id = p_payment, redeemed_at = now() WHERE voucher_id = v.voucher_id;
    payment := p_payment;
  ELSIF verdict = 'duplicate' THEN
    payment := v.payment_id;
  END IF;
  RETURN NEXT;
END $$;

-- ---------------------------------------------------------------- the source of credit
DROP FUNCTION post_cash;

-- Moves money from its source to a locked balance. Returns the transaction.
CREATE FUNCTION post_credit(p_kind text, p_ref text, p_customer uuid, p_amount bigint, p_is_promotion boolean, p_reason text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES (p_kind, p_ref, p_reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', p_customer, p_amount),
    (v_tx, credit_source(p_is_promotion), '00000000-0000-0000-0000-000000000000', -p_amount);
  UPDATE balance SET posted_nanos = posted_nanos + p_amount WHERE customer_id = p_customer;
  RETURN v_tx;
END $$;

CREATE OR REPLACE FUNCTION give_payment_credit(p payment, p_kind text, p_ref text, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payment SET state = 'paid', paid_at = now(), failure = NULL, redirect_url = NULL,
      tx_id = post_credit(p_kind, p_ref, p.customer_id, p.amount_nanos, p.is_promotion, p_reason)
    WHERE payment_id = p.payment_id;
END $$;

-- As in 0017, from and to the source of the payment.
CREATE OR REPLACE FUNCTION move_reversal(p_reversal uuid, p_target bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v payment_reversal;
  v_is_promotion boolean;
  v_taken bigint;
  v_free bigint;
  v_tx bigint;
BEGIN
  SELECT * INTO STRICT v FROM payment_reversal WHERE reversal_id = p_reversal FOR UPDATE;
  SELECT is_promotion INTO STRICT v_is_promotion FROM payment WHERE payment_id = v.payment_id;
  v_taken := p_target - (v.taken_nanos - v.returned_nanos);
  IF v_taken = 0 THEN
    RETURN 0;
  END IF;
  IF v_taken < 0 THEN
    PERFORM post_credit('reversal_returned', p_reversal || ':' || v.returned_nanos - v_taken, v.customer_id, -v_taken, v_is_promotion, v.reason);
    UPDATE payment_reversal SET returned_nanos = returned_nanos - v_taken, updated_at = now() WHERE reversal_id = p_reversal;
    RETURN v_taken;
  END IF;
  SELECT least(posted_nanos - leased_nanos, v_taken) INTO v_free FROM balance WHERE customer_id = v.customer_id;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('reversal', p_reversal || ':' || v.taken_nanos + v_taken, v.reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT v_tx, e.kind, e.account, e.amount FROM (VALUES
      ('customer', v.customer_id, -v_free),
      ('customer_debt', v.customer_id, v_free - v_taken),
      (credit_source(v_is_promotion), '00000000-0000-0000-0000-000000000000'::uuid, v_taken)
    ) AS e(kind, account, amount) WHERE e.amount <> 0;
  IF v_free > 0 THEN
    INSERT INTO credit_taken (customer_id, tx_id, amount_nanos) VALUES (v.customer_id, v_tx, v_free);
  END IF;
  UPDATE balance SET posted_nanos = posted_nanos - v_free, debt_nanos = debt_nanos + v_taken - v_free WHERE customer_id = v.customer_id;
  UPDATE payment_reversal SET taken_nanos = taken_nanos + v_taken, updated_at = now() WHERE reversal_id = p_reversal;
  IF v_taken > v_free THEN
    -- Nodes admit no more requests from leases that they hold.
    PERFORM recall_bulk_leases(ARRAY[v.customer_id], '00000000-0000-0000-0000-000000000000', false);
  END IF;
  RETURN v_taken;
END $$;

-- ---------------------------------------------------------------- own money
-- As in 0040: what is from `cash` is paid, unless a payment of the test mode of its provider brought it.
CREATE OR REPLACE FUNCTION own_money_spent(p_customers uuid[]) RETURNS TABLE (customer_id uuid, spent_nanos bigint)
LANGUAGE sql STABLE AS $$
  SELECT b.customer_id, greatest(paid.nanos - reversed.nanos - b.posted_nanos, 0)::bigint
    FROM balance b
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(e.amount_nanos), 0) AS nanos FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
       WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = b.customer_id
         AND (t.kind = 'opening_balance'
           OR (t.kind IN ('payment', 'voucher', 'credit') AND EXISTS (SELECT FROM ledger_entry c WHERE c.tx_id = e.tx_id AND c.account_kind = 'cash')))
         AND NOT EXISTS (SELECT FROM payment p WHERE p.tx_id = e.tx_id AND NOT p.is_live)
    ) AS paid
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(r.taken_nanos - r.returned_nanos), 0) AS nanos FROM payment_reversal r JOIN payment p USING (payment_id)
       WHERE r.customer_id = b.customer_id AND NOT p.is_promotion AND p.is_live
    ) AS reversed
   WHERE b.customer_id = ANY (p_customers)
$$;

-- ---------------------------------------------------------------- promotion credit
-- The promotion credit that these customers got, less what was taken back unspent: what the promotion account gave, and payments of a test mode,
-- which nobody paid. What reversals took from those is not subtracted: the debt of a disputed test payment may never be paid.
CREATE FUNCTION promotion_given(p_customers uuid[]) RETURNS TABLE (customer_id uuid, at timestamptz, nanos bigint)
LANGUAGE sql STABLE AS $$
  SELECT e.account_id, t.at, e.amount_nanos FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
   WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = ANY (p_customers)
     AND CASE t.kind
       WHEN 'payment' THEN EXISTS (SELECT FROM payment p WHERE p.tx_id = e.tx_id AND NOT p.is_live)
       ELSE t.kind IN ('signup_credit', 'credit', 'voucher', 'reversal_returned')
         AND EXISTS (SELECT FROM ledger_entry p WHERE p.tx_id = e.tx_id AND p.account_kind = 'platform_promo') END
  UNION ALL
  SELECT c.customer_id, t.at, -c.amount_nanos FROM credit_taken c JOIN ledger_tx t USING (tx_id)
   WHERE c.customer_id = ANY (p_customers) AND t.kind = 'reversal'
     AND EXISTS (SELECT FROM ledger_entry p WHERE p.tx_id = c.tx_id AND p.account_kind = 'platform_promo')
$$;

-- By customer and UTC day: the promotion credit that was given, the charges, and the promotion credit that is left at the end. It is spent first, from
-- the day on which it was given.
CREATE FUNCTION promotion_days(p_customers uuid[]) RETURNS TABLE (customer_id uuid, day date, given numeric, spent numeric, remains numeric)
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

CREATE OR REPLACE FUNCTION promotion_spent(p_customers uuid[]) RETURNS TABLE (customer_id uuid, day date, spent bigint, promotion bigint)
LANGUAGE sql STABLE AS $$
  SELECT d.customer_id, d.day, d.spent::bigint,
    (lag(d.remains, 1, 0::numeric) OVER (PARTITION BY d.customer_id ORDER BY d.day) + d.given - d.remains)::bigint
  FROM promotion_days(p_customers) d
$$;

-- As in 0043. Own money that was spent before the promotion credit was given uses up none of it, and what is given from this day on is not used up.
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

-- As in 0043. A customer that got promotion credit after the day on which it was used up has some again.
CREATE OR REPLACE FUNCTION promotion_customers(p_from date, p_to date) RETURNS uuid[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(
    SELECT DISTINCT d.customer_id FROM usage_day d WHERE d.day BETWEEN p_from AND p_to AND d.provider = 'hoster'
      AND NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = d.customer_id)
      AND NOT EXISTS (SELECT FROM promotion_used_up u WHERE u.customer_id = d.customer_id AND u.day < p_from
          AND NOT EXISTS (SELECT FROM refund r WHERE r.customer_id = u.customer_id AND r.at > u.noted_at)
          AND NOT EXISTS (SELECT FROM promotion_given(ARRAY[u.customer_id]) g WHERE (g.at AT TIME ZONE 'UTC')::date > u.day)))
$$;

-- As in 0043. What was found for an archived month stays: its usage rows are gone, and no charge or refund of it comes any more.
CREATE OR REPLACE FUNCTION find_promotion_shares_of(p_from date, p_to date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from date := greatest(p_from, (SELECT closed_day + 1 FROM promotion_progress));
  v_archived date[] := ARRAY(SELECT month FROM usage_archive);
BEGIN
  PERFORM pg_advisory_xact_lock(x'73797072'::int);  -- "sypr" in ASCII; any number that no other lock uses
  PERFORM note_promotion_used_up(promotion_customers(v_from, p_to), v_from);
  DELETE FROM promotion_share s WHERE s.day BETWEEN v_from AND p_to AND date_trunc('month', s.day)::date <> ALL (v_archived);
  INSERT INTO promotion_share (hoster_id, day, customer_id, share_nanos)
    SELECT hoster_id, day, customer_id, share FROM (
      SELECT u.hoster_id, p.day, u.customer_id,
        ceil(sum(u.hoster_share_nanos - coalesce(r.hoster_share_nanos, 0)) * p.promotion / p.spent)::bigint AS share
      FROM promotion_spent(promotion_customers(v_from, p_to)) p
      JOIN usage_event u ON u.customer_id = p.customer_id AND u.hoster_id IS NOT NULL
        AND u.started_at >= p.day::timestamp AT TIME ZONE 'UTC' AND u.started_at < (p.day + 1)::timestamp AT TIME ZONE 'UTC'
      LEFT JOIN refund r ON r.customer_id = u.customer_id AND r.request_id = u.request_id
      WHERE p.promotion > 0 AND p.spent > 0 AND p.day BETWEEN v_from AND p_to AND date_trunc('month', p.day)::date <> ALL (v_archived)
      GROUP BY u.hoster_id, p.day, u.customer_id, p.promotion, p.spent
    ) found
    WHERE share > 0;
END $$;

-- As in 0008, after a last search: it reads the rows of the month, and settlements may be weeks late.
ALTER FUNCTION freeze_usage_month RENAME TO freeze_usage_rows;
CREATE FUNCTION freeze_usage_month(p_month date, p_from uuid, p_to uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM find_promotion_shares_of(p_month, (p_month + interval '1 month')::date - 1);
  RETURN freeze_usage_rows(p_month, p_from, p_to);
END $$;

-- As in 0043. `timing`: the customer got promotion credit within ten minutes of two others that also gave most of it to this hoster.
CREATE OR REPLACE FUNCTION promotion_evidence(p_hoster uuid, p_customers uuid[]) RETURNS TABLE (customer_id uuid, evidence text, detail text)
LANGUAGE sql STABLE AS $$
  WITH given AS (
    SELECT g.customer_id, g.at FROM promotion_given(ARRAY(SELECT DISTINCT s.customer_id FROM promotion_share s WHERE s.hoster_id = p_hoster)) g
     WHERE g.nanos > 0
       AND 2 * (SELECT sum(s.share_nanos) FROM promotion_share s WHERE s.hoster_id = p_hoster AND s.customer_id = g.customer_id)
         > (SELECT sum(s.share_nanos) FROM promotion_share s WHERE s.customer_id = g.customer_id)
  ), groups AS (
    SELECT a.customer_id, a.at, count(DISTINCT b.customer_id) - 1 AS others
      FROM given a JOIN given b ON b.at BETWEEN a.at - interval '10 minutes' AND a.at + interval '10 minutes'
     WHERE a.customer_id = ANY (p_customers) GROUP BY a.customer_id, a.at
  )
  SELECT r.customer_id, r.evidence, r.detail FROM related_customers(p_hoster) r WHERE r.customer_id = ANY (p_customers)
  UNION
  SELECT e.account_id, 'circular', h.name FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    JOIN ledger_entry o ON o.tx_id = e.tx_id AND o.account_kind = 'hoster_payable' JOIN hoster h ON h.hoster_id = o.account_id
    WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = ANY (p_customers) AND t.kind = 'earnings_moved'
  UNION
  SELECT g.customer_id, 'timing', max(g.others) || ' others' FROM groups g GROUP BY g.customer_id HAVING max(g.others) >= 2
$$;

-- ---------------------------------------------------------------- sums over all customers
-- As in 0017. Vouchers that nobody paid for are granted, less what was taken back of them.
CREATE OR REPLACE FUNCTION sum_platform_days(p_from date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from timestamptz := p_from::timestamp AT TIME ZONE 'UTC';
BEGIN
  -- Two sums at once would insert the same days.
  PERFORM pg_advisory_xact_lock(x'73797064'::int);  -- "sypd" in ASCII
  DELETE FROM platform_day WHERE day >= p_from;
  INSERT INTO platform_day
    SELECT day, model_id, provider, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), sum(latency_ms_sum)
    FROM usage_day WHERE day >= p_from GROUP BY day, model_id, provider HAVING sum(requests) <> 0;
  DELETE FROM platform_money_day WHERE day >= p_from;
  INSERT INTO platform_money_day (day, granted_nanos, signup_credit_nanos, refunded_nanos, refunded_share_nanos, writeoff_nanos, paid_nanos, reversed_nanos)
    SELECT day, coalesce(sum(granted), 0), coalesce(sum(signup), 0), coalesce(sum(refunded), 0), coalesce(sum(share), 0), coalesce(sum(writeoff), 0),
      coalesce(sum(paid), 0), coalesce(sum(reversed), 0)
    FROM (
      SELECT (t.at AT TIME ZONE 'UTC')::date AS day,
        CASE WHEN t.kind = 'credit' OR (e.account_kind = 'platform_promo' AND t.kind IN ('voucher', 'reversal', 'reversal_returned'))
          THEN -e.amount_nanos END AS granted,
        CASE WHEN t.kind = 'signup_credit' THEN -e.amount_nanos END AS signup,
        NULL::bigint AS refunded, NULL::bigint AS share, NULL::bigint AS writeoff,
        CASE WHEN e.account_kind = 'cash' AND t.kind IN ('payment', 'voucher') THEN -e.amount_nanos END AS paid,
        CASE WHEN e.account_kind = 'cash' AND t.kind IN ('reversal', 'reversal_returned') THEN e.amount_nanos END AS reversed
      FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      -- The index of 0012.
      WHERE t.kind <> 'settle' AND t.at >= v_from AND e.account_kind IN ('cash', 'platform_promo')
      UNION ALL
      SELECT (at AT TIME ZONE 'UTC')::date, NULL, NULL, amount_nanos, hoster_share_nanos, NULL, NULL, NULL FROM refund WHERE at >= v_from
      UNION ALL
      SELECT (started_at AT TIME ZONE 'UTC')::date, NULL, NULL, NULL, NULL, writeoff_nanos, NULL, NULL FROM usage_event
      WHERE writeoff_nanos > 0 AND started_at >= v_from
    ) AS changes
    GROUP BY day;
END $$;
