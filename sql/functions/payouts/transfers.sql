-- Transfers: from the moment a payout is sent, what its provider, or an operator for a bank, reports of it.

-- Begins the transfer of a payout. Call it before a payout is sent; only then may it be. Verdicts: 'begun', also when it was
-- begun before; 'cancelled': since it was prepared, its hoster was frozen, owes something or named another account;
-- 'not_approved'; 'ended'; 'no_payout'. Locks the hoster, then the payout, then, to cancel it, the batch.
CREATE OR REPLACE FUNCTION begin_payout(p_payout uuid, p_next_look_at timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout := lock_payout(p_payout);
  v_refusal text;
BEGIN
  IF v.payout_id IS NULL THEN
    RETURN 'no_payout';
  ELSIF v.state = 'prepared' THEN
    RETURN 'not_approved';
  ELSIF v.state = 'sending' THEN
    RETURN 'begun';
  ELSIF v.state <> 'approved' THEN
    RETURN 'ended';
  END IF;
  v_refusal := CASE
    WHEN (SELECT payout_frozen_at IS NOT NULL FROM hoster WHERE hoster_id = v.hoster_id) THEN 'the hoster is frozen'
    WHEN (SELECT balance < 0 FROM hoster_funds(ARRAY[v.hoster_id], 'infinity')) THEN 'earnings were taken back since it was prepared'
    WHEN NOT EXISTS (
      SELECT FROM hoster_account a
      WHERE a.hoster_id = v.hoster_id AND a.driver = v.driver AND a.destination = v.destination AND a.state = 'ready') THEN 'the payout account has changed since it was prepared' END;
  IF v_refusal IS NOT NULL THEN
    PERFORM drop_payout(v, v_refusal);
    RETURN 'cancelled';
  END IF;
  UPDATE payout SET state = 'sending', sent_at = now(), next_look_at = p_next_look_at WHERE payout_id = p_payout;
  RETURN 'begun';
END $$;

-- Notes how the provider names a payout. A second answer changes nothing.
CREATE OR REPLACE FUNCTION note_payout_sent(p_payout uuid, p_provider_ref text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payout SET provider_ref = p_provider_ref WHERE payout_id = p_payout AND provider_ref IS NULL
$$;

-- Books what an operator knows of a payout that a bank made. Verdicts: 'booked', 'unchanged', 'not_csv', 'not_sent', 'no_payout'.
-- Locks the hoster, then the payout, then the batch, then the audit log.
CREATE OR REPLACE FUNCTION settle_bank_payout(p_operator uuid, p_payout uuid, p_is_paid boolean, p_failure text, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v payout := lock_payout(p_payout);
  v_result text;
BEGIN
  IF v.payout_id IS NULL THEN
    RETURN 'no_payout';
  ELSIF v.driver <> 'csv' THEN
    RETURN 'not_csv';
  ELSIF v.state IN ('prepared', 'approved', 'cancelled') THEN
    RETURN 'not_sent';
  END IF;
  v_result := book_payout_report(p_payout, 'csv', v.version, CASE WHEN p_is_paid
    THEN jsonb_build_object('state', 'paid', 'payout_id', p_payout, 'amount_minor', v.amount_nanos / nanos_per_cent(), 'currency', v.currency,
      'destination', v.destination, 'is_live', v.is_live)
    ELSE jsonb_build_object('state', 'failed', 'failure', p_failure) END, NULL);
  IF v_result = 'booked' THEN
    PERFORM add_audit_entry(p_operator, CASE WHEN p_is_paid THEN 'payout.paid' ELSE 'payout.failed' END, p_payout::text, NULL,
      jsonb_build_object('amount_usd', trim_scale(v.amount_nanos / 1e9)::text, 'reference', v.reference, 'reason', p_failure), p_address);
  END IF;
  RETURN v_result;
END $$;

-- Books the difference between what the provider reports and what the books say. Fields of `p_fact`:
--   state          'paid', 'failed', 'pending', or 'absent': the provider does not know the payout
--   payout_id, amount_minor, currency, destination, is_live   for 'paid', must be those of the row
--   reversed_minor what of a paid payout came back
--   failure        shown to operators
-- Results as in book_payment_report, with 'no_payout'. A payout that failed, or was cancelled, and then arrived is taken from
-- the hoster again, which may owe it then. Locks the hoster, then the payout, then the batch.
CREATE OR REPLACE FUNCTION book_payout_report(p_payout uuid, p_driver text, p_version bigint, p_fact jsonb, p_next_look_at timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout := lock_payout(p_payout);
  v_mismatch text;
  v_net bigint;
  v_state text;
  v_is_moved boolean;
BEGIN
  IF v.payout_id IS NULL THEN
    RETURN 'no_payout';
  ELSIF v.version <> p_version THEN
    RETURN 'stale';
  END IF;
  v_mismatch := payout_mismatch(v, p_driver, p_fact);
  UPDATE payout SET version = version + 1, mismatch = v_mismatch, next_look_at = p_next_look_at WHERE payout_id = p_payout;
  IF v_mismatch IS NOT NULL THEN
    RETURN 'mismatch';
  END IF;
  IF p_fact->>'state' = 'paid' THEN
    v_net := v.amount_nanos - least(coalesce((p_fact->>'reversed_minor')::bigint, 0) * nanos_per_cent(), v.amount_nanos);
    v_state := CASE WHEN v_net = 0 THEN 'returned' ELSE 'paid' END;
  ELSIF p_fact->>'state' = 'failed' AND v.state IN ('sending', 'paid') THEN
    v_net := 0;
    v_state := CASE WHEN v.state = 'paid' THEN 'returned' ELSE 'failed' END;
  ELSE
    RETURN 'unchanged';
  END IF;
  v_is_moved := move_payout(p_payout, v_net, v_net, 'payout ' || v.reference || CASE WHEN v_state = 'paid' THEN '' ELSE ' ' || v_state END);
  IF v_is_moved OR v_state <> v.state THEN
    UPDATE payout SET state = v_state, failure = CASE WHEN v_state = 'paid' THEN NULL ELSE coalesce(p_fact->>'failure', failure) END, ended_at = now()
      WHERE payout_id = p_payout;
    PERFORM end_payout_batch(v.batch_id);
    RETURN 'booked';
  END IF;
  RETURN 'unchanged';
END $$;

-- How a report differs from the row of the payout; NULL when it does not.
CREATE OR REPLACE FUNCTION payout_mismatch(p payout, p_driver text, p_fact jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT nullif(concat_ws('; ',
    CASE WHEN p.driver <> p_driver THEN format('driver %s, not %s', p_driver, p.driver) END,
    CASE WHEN p_fact->>'state' = 'absent' AND p.paid_nanos > 0 THEN 'no such transfer' END,
    CASE WHEN p_fact->>'state' = 'paid' AND p.state IN ('prepared', 'approved') THEN 'paid before it was sent' END,
    CASE WHEN p_fact->>'state' = 'paid' THEN nullif(concat_ws('; ',
      CASE WHEN p.payout_id::text IS DISTINCT FROM p_fact->>'payout_id' THEN format('payout %s', coalesce(p_fact->>'payout_id', 'without our id')) END,
      CASE WHEN p.amount_nanos / nanos_per_cent() IS DISTINCT FROM (p_fact->>'amount_minor')::bigint
        THEN format('amount %s, not %s', p_fact->>'amount_minor', p.amount_nanos / nanos_per_cent()) END,
      CASE WHEN p.currency IS DISTINCT FROM p_fact->>'currency' THEN format('currency %s, not %s', p_fact->>'currency', p.currency) END,
      CASE WHEN p.destination IS DISTINCT FROM p_fact->>'destination' THEN format('to %s, not %s', p_fact->>'destination', p.destination) END,
      CASE WHEN p.is_live IS DISTINCT FROM (p_fact->>'is_live')::boolean THEN format('live %s, not %s', p_fact->>'is_live', p.is_live) END), '') END
  ), '')
$$;

-- Notes an event. Returns whether it waits: false when it was handled before.
CREATE OR REPLACE FUNCTION note_payout_event(p_driver text, p_event text, p_type text, p_provider_ref text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payout_event (driver, event_id, type, provider_ref) VALUES (p_driver, p_event, p_type, p_provider_ref) ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM payout_event WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL);
END $$;

-- Notes that an event was handled. Call it in the transaction that books what the event hinted at.
CREATE OR REPLACE FUNCTION finish_payout_event(p_driver text, p_event text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payout_event SET handled_at = now() WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL
$$;
