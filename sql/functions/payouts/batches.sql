-- Makes a batch of what these hosters are owed past the hold, after the changes of accounts that are due. A payout with
-- promotional earnings of related customers waits for a review. Returns a row for each hoster with a balance other than zero.
-- Verdicts: 'prepared'; 'frozen'; 'below_minimum', also for debts; 'no_account'; 'account_not_ready'; 'other_driver'. For the
-- owner of the tables: the gateway role calls prepare_payouts_by_operator. Locks all hosters in the order of hoster_id, then the
-- audit log if a change of an account is due, then the search for promotional earnings, then the audit log.
CREATE OR REPLACE FUNCTION prepare_payouts(p_operator uuid, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_now timestamptz,
  p_rules payout_rules, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_held_from date := held_from(p_now, p_rules.hold_days);
  v_hosters uuid[] := ARRAY(SELECT hoster_id FROM hoster);
  v_reference text;
  v_total bigint := 0;
  v_count integer := 0;
BEGIN
  -- All at once, so that the functions called here lock no hoster out of order.
  PERFORM lock_hosters(v_hosters);
  PERFORM apply_payout_changes(p_now);
  PERFORM close_promotion_days(p_now, p_rules);
  INSERT INTO payout_batch (batch_id, driver, is_live, prepared_by) VALUES (p_batch, p_driver, p_is_live, p_operator);
  FOR hoster, verdict, amount, payable IN
    SELECT f.hoster, CASE
        WHEN c.whole_cents < greatest(p_minimum, nanos_per_cent()) THEN 'below_minimum'
        WHEN h.payout_frozen_at IS NOT NULL THEN 'frozen'
        WHEN a.driver IS NULL THEN 'no_account'
        WHEN a.driver <> p_driver THEN 'other_driver'
        WHEN a.state <> 'ready' THEN 'account_not_ready'
        ELSE 'prepared' END,
      -- The part of a cent stays payable.
      c.whole_cents, f.payable
    FROM hoster_funds(v_hosters, v_held_from) f CROSS JOIN LATERAL (SELECT f.payable / nanos_per_cent() * nanos_per_cent() AS whole_cents) c
      JOIN hoster h ON h.hoster_id = f.hoster LEFT JOIN hoster_account a ON a.hoster_id = f.hoster
    WHERE f.balance <> 0 ORDER BY f.hoster
  LOOP
    payout := NULL;
    IF verdict = 'prepared' THEN
      payout := gen_random_uuid();
      v_reference := 'PO-' || upper(right(payout::text, 12));
      INSERT INTO payout (payout_id, batch_id, hoster_id, driver, is_live, destination, holder, amount_nanos, reference)
        SELECT payout, p_batch, a.hoster_id, p_driver, p_is_live, a.destination, a.holder, amount, v_reference
        FROM hoster_account a WHERE a.hoster_id = hoster;
      PERFORM move_payout(payout, amount, 0, 'payout ' || v_reference);
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

-- Approves a batch. Verdicts: 'approved'; 'approved_before'; 'cancelled'; 'no_batch'; 'undecided': a review of a hoster in the
-- batch waits; 'second_operator': the operator that prepared it cannot approve it alone. The command line counts as one operator.
-- Locks the hosters of the batch, then all approvals against each other, then the batch, then the audit log.
CREATE OR REPLACE FUNCTION approve_payouts(p_operator uuid, p_batch uuid, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout_batch;
  v_total numeric;
  v_recent numeric;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE batch_id = p_batch));
  -- Two at once cannot pass the limit together.
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

-- Above this sum in 24 hours, what one operator prepares and approves alone needs a second operator. 1,000 USD.
CREATE OR REPLACE FUNCTION payout_alone_max_nanos() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 1000000000000::bigint $$;

-- Cancels the payouts of a batch that were not sent. Returns how many; NULL when there is no such batch. Locks the hosters of the
-- batch, then its payouts in the order of payout_id, then the batch, then the audit log.
CREATE OR REPLACE FUNCTION cancel_payouts(p_operator uuid, p_batch uuid, p_address text) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout;
  v_count integer := 0;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE batch_id = p_batch));
  IF NOT EXISTS (SELECT FROM payout_batch WHERE batch_id = p_batch) THEN
    RETURN NULL;
  END IF;
  FOR v IN SELECT * FROM payout WHERE batch_id = p_batch AND state IN ('prepared', 'approved') ORDER BY payout_id FOR UPDATE LOOP
    PERFORM drop_payout(v, 'cancelled by an operator');
    v_count := v_count + 1;
  END LOOP;
  IF v_count > 0 THEN
    PERFORM add_audit_entry(p_operator, 'payout.cancelled', p_batch::text, NULL, jsonb_build_object('payouts', v_count), p_address);
  END IF;
  RETURN v_count;
END $$;

-- Cancels a locked payout that was not sent: its hoster gets the amount back. Locks the batch.
CREATE OR REPLACE FUNCTION drop_payout(p payout, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM move_payout(p.payout_id, 0, 0, 'payout ' || p.reference || ' cancelled');
  UPDATE payout SET state = 'cancelled', failure = p_reason, ended_at = now() WHERE payout_id = p.payout_id;
  PERFORM end_payout_batch(p.batch_id);
END $$;

-- Moves what a locked payout has taken from its hoster, and what of it was paid, to these amounts, with a transaction for each
-- step. Returns whether something moved.
CREATE OR REPLACE FUNCTION move_payout(p_payout uuid, p_taken bigint, p_paid bigint, p_reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v payout;
  v_moves integer;
  v_tx bigint;
BEGIN
  SELECT * INTO STRICT v FROM payout WHERE payout_id = p_payout;
  v_moves := v.moves;
  IF p_taken > v.taken_nanos THEN
    v_moves := v_moves + 1;
    PERFORM post_hoster('payout', p_payout || ':' || v_moves, v.hoster_id, v.taken_nanos - p_taken, 'payout_clearing', platform_account(), p_reason);
  END IF;
  IF p_paid > v.paid_nanos THEN
    v_moves := v_moves + 1;
    INSERT INTO ledger_tx (kind, ref, reason) VALUES ('payout_paid', p_payout || ':' || v_moves, p_reason) RETURNING tx_id INTO v_tx;
    INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
      (v_tx, 'payout_clearing', platform_account(), v.paid_nanos - p_paid), (v_tx, 'cash', platform_account(), p_paid - v.paid_nanos);
  ELSIF p_paid < v.paid_nanos THEN
    v_moves := v_moves + 1;
    PERFORM post_hoster('payout_returned', p_payout || ':' || v_moves, v.hoster_id, v.paid_nanos - p_paid, 'cash', platform_account(), p_reason);
    v.taken_nanos := v.taken_nanos - (v.paid_nanos - p_paid);
  END IF;
  IF p_taken < v.taken_nanos THEN
    v_moves := v_moves + 1;
    PERFORM post_hoster('payout_returned', p_payout || ':' || v_moves, v.hoster_id, v.taken_nanos - p_taken, 'payout_clearing', platform_account(), p_reason);
  END IF;
  IF v_moves = v.moves THEN
    RETURN false;
  END IF;
  UPDATE payout SET taken_nanos = p_taken, paid_nanos = p_paid, moves = v_moves WHERE payout_id = p_payout;
  RETURN true;
END $$;

-- Ends a batch when all of its payouts have ended. Locks the batch: its payouts end one after the other, so that the last one
-- sees the others.
CREATE OR REPLACE FUNCTION end_payout_batch(p_batch uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM payout_batch WHERE batch_id = p_batch FOR UPDATE;
  UPDATE payout_batch SET state = CASE
      WHEN EXISTS (SELECT FROM payout WHERE batch_id = p_batch AND state <> 'cancelled') THEN 'settled' ELSE 'cancelled' END
    WHERE batch_id = p_batch AND NOT EXISTS (SELECT FROM payout WHERE batch_id = p_batch AND state IN ('prepared', 'approved', 'sending'));
END $$;

-- Locks the hoster of a payout, then the payout. A row of NULLs when there is no such payout.
CREATE OR REPLACE FUNCTION lock_payout(p_payout uuid) RETURNS payout
LANGUAGE plpgsql AS $$
DECLARE
  v payout;
BEGIN
  -- The hoster of a payout never changes.
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE payout_id = p_payout));
  SELECT * INTO v FROM payout WHERE payout_id = p_payout FOR UPDATE;
  RETURN v;
END $$;
