-- Books the difference between what the provider reports and what the books say. The order of reports does not matter, nor
-- whether some are doubled or lost. `p_fact` has these fields:
--   state              'open', 'processing', 'paid', 'failed', 'expired' or 'cancelled'
--   payment_id         our id, as the provider stores it
--   amount_minor, currency, is_live   must be those of the row
--   total_minor        what the payer paid, with taxes; required with reversals
--   failure, receipt_url, invoice_url
--   fee_nanos          the fees so far; NULL: unknown
--   reversals          [{ref, kind, minor, reversal_id, reason}]: what went back to the payer and did not
--                      return; `reversal_id` for refunds of ours
-- Results: 'booked', 'unchanged', 'mismatch' (nothing is booked, operators see why), 'stale' (another report was booked since the
-- provider was asked; ask again), 'no_payment'. Locks the balance, then the payment, then for each reversal: its row, the bulk
-- leases of a customer that it leaves with a debt, and, for a dispute, the settings in auto_top_up.
CREATE OR REPLACE FUNCTION book_payment_report(p_payment uuid, p_driver text, p_version bigint, p_fact jsonb, p_next_look_at timestamptz)
RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
  v_mismatch text;
  v_is_changed boolean := false;
BEGIN
  IF v.payment_id IS NULL THEN
    RETURN 'no_payment';
  ELSIF v.version <> p_version THEN
    RETURN 'stale';
  END IF;
  v_mismatch := payment_mismatch(v, p_driver, p_fact);
  UPDATE payment SET version = version + 1, mismatch = v_mismatch, next_look_at = p_next_look_at WHERE payment_id = p_payment;
  IF v_mismatch IS NOT NULL THEN
    RETURN 'mismatch';
  END IF;
  IF v.tx_id IS NULL AND p_fact->>'state' = 'paid' THEN
    PERFORM give_payment_credit(v, 'payment', v.payment_id::text, 'payment ' || v.reference);
    v_is_changed := true;
  ELSIF v.tx_id IS NULL AND (v.state <> p_fact->>'state' OR v.failure IS DISTINCT FROM p_fact->>'failure') THEN
    UPDATE payment SET state = p_fact->>'state', failure = p_fact->>'failure',
        redirect_url = CASE WHEN p_fact->>'state' = 'open' THEN redirect_url END
      WHERE payment_id = p_payment;
    v_is_changed := true;
  END IF;
  UPDATE payment SET receipt_url = coalesce(p_fact->>'receipt_url', receipt_url), invoice_url = coalesce(p_fact->>'invoice_url', invoice_url)
    WHERE payment_id = p_payment;
  IF v.tx_id IS NOT NULL OR p_fact->>'state' = 'paid' THEN
    v_is_changed := book_reported_reversals(v, p_fact) OR v_is_changed;
    IF (p_fact->>'fee_nanos')::bigint <> v.fee_nanos THEN
      PERFORM post_processor_fee(p_payment, (p_fact->>'fee_nanos')::bigint);
      v_is_changed := true;
    END IF;
  END IF;
  RETURN CASE WHEN v_is_changed THEN 'booked' ELSE 'unchanged' END;
END $$;

-- How a report differs from the row of the payment; NULL when it does not. The row decides how much credit a payment is worth.
CREATE OR REPLACE FUNCTION payment_mismatch(p payment, p_driver text, p_fact jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT nullif(concat_ws('; ',
    CASE WHEN p.driver <> p_driver THEN format('driver %s, not %s', p_driver, p.driver) END,
    CASE WHEN p.payment_id::text IS DISTINCT FROM p_fact->>'payment_id' THEN format('payment %s', coalesce(p_fact->>'payment_id', 'without our id')) END,
    CASE WHEN p.amount_minor IS DISTINCT FROM (p_fact->>'amount_minor')::bigint THEN format('amount %s, not %s', p_fact->>'amount_minor', p.amount_minor) END,
    CASE WHEN p.currency IS DISTINCT FROM p_fact->>'currency' THEN format('currency %s, not %s', p_fact->>'currency', p.currency) END,
    CASE WHEN p.is_live IS DISTINCT FROM (p_fact->>'is_live')::boolean THEN format('live %s, not %s', p_fact->>'is_live', p.is_live) END,
    -- What a reversal takes is a share of the total.
    CASE WHEN jsonb_array_length(coalesce(p_fact->'reversals', '[]')) > 0 AND coalesce((p_fact->>'total_minor')::bigint, 0) <= 0
      THEN format('total %s', coalesce(p_fact->>'total_minor', 'missing')) END
  ), '')
$$;

-- Books the reversals of a report. Returns whether something changed. A reversal takes at most what the payment gave and
-- others have not taken. Call it with the payment locked. Locks for each reversal: its row, the bulk leases of a customer that it
-- leaves with a debt, and, for a dispute, the settings in auto_top_up.
CREATE OR REPLACE FUNCTION book_reported_reversals(p payment, p_fact jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v payment_reversal;
  v_target bigint;
  v_moved bigint;
  v_is_new boolean;
  v_is_changed boolean := false;
BEGIN
  FOR r IN
    SELECT * FROM jsonb_to_recordset(coalesce(p_fact->'reversals', '[]')) AS f(ref text, kind text, minor bigint, reversal_id uuid, reason text)
    -- Those that give back come first, so that others can take it.
    ORDER BY minor, ref
  LOOP
    SELECT * INTO v FROM payment_reversal o
      WHERE o.payment_id = p.payment_id AND (o.provider_ref = r.ref OR (o.provider_ref IS NULL AND o.reversal_id = r.reversal_id)) FOR UPDATE;
    v_is_new := NOT FOUND;
    IF v_is_new THEN
      CONTINUE WHEN r.minor = 0;
      v.reversal_id := gen_random_uuid();
      INSERT INTO payment_reversal (reversal_id, payment_id, customer_id, kind, state, provider_ref, taken_nanos, reason)
        VALUES (v.reversal_id, p.payment_id, p.customer_id, r.kind, 'done', r.ref, 0, r.reason);
      v.asked_minor := NULL;
      v.taken_nanos := 0;
      v.returned_nanos := 0;
      v_is_changed := true;
    END IF;
    v_target := CASE
      WHEN r.minor = 0 THEN 0
      -- What an operator asked to refund was taken then.
      WHEN r.minor = v.asked_minor AND v.returned_nanos = 0 THEN v.taken_nanos
      -- The credit's part of what went back, rounded down to the nano-USD: a reversal takes no more than its share. The rest is
      -- its part of the taxes.
      ELSE div(p.amount_nanos::numeric * least(r.minor, (p_fact->>'total_minor')::bigint), (p_fact->>'total_minor')::bigint)::bigint END;
    v_target := least(v_target, p.amount_nanos - (reversed_nanos(p.payment_id) - (v.taken_nanos - v.returned_nanos)));
    v_moved := move_reversal(v.reversal_id, v_target);
    v_is_changed := v_moved <> 0 OR v_is_changed;
    UPDATE payment_reversal o SET provider_ref = r.ref, state = CASE WHEN r.minor = 0 AND o.kind = 'refund' THEN 'refused' ELSE 'done' END,
        updated_at = now()
      WHERE o.reversal_id = v.reversal_id AND (o.provider_ref IS NULL OR o.state = 'asked' OR (r.minor = 0 AND o.kind = 'refund' AND o.state <> 'refused'));
    -- The refund of an operator has moved its money before: only its state changes.
    v_is_changed := FOUND OR v_is_changed;
    -- A later report of the same dispute is none: a person may have turned the top-ups on again since.
    IF r.kind = 'dispute' AND (v_is_new OR v_moved > 0) THEN
      PERFORM pause_auto_top_up(p.customer_id, 'A payment was disputed.');
    END IF;
  END LOOP;
  RETURN v_is_changed;
END $$;

-- Books that the provider's fees are this much now. They are the platform's cost and never change a balance. Call it with the
-- payment locked.
CREATE OR REPLACE FUNCTION post_processor_fee(p_payment uuid, p_total bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v payment;
  v_tx bigint;
BEGIN
  SELECT * INTO STRICT v FROM payment WHERE payment_id = p_payment;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('processor_fee', p_payment || ':' || v.version, 'fees of the payment provider')
    RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'processor_fee', platform_account(), v.fee_nanos - p_total),
    (v_tx, 'cash', platform_account(), p_total - v.fee_nanos);
  UPDATE payment SET fee_nanos = p_total WHERE payment_id = p_payment;
END $$;

-- Notes an event. Returns whether it waits: false when it was handled before.
CREATE OR REPLACE FUNCTION note_payment_event(p_driver text, p_event text, p_type text, p_provider_ref text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payment_event (driver, event_id, type, provider_ref) VALUES (p_driver, p_event, p_type, p_provider_ref) ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM payment_event WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL);
END $$;

-- Notes that an event was handled. Call it in the transaction that books what the event hinted at.
CREATE OR REPLACE FUNCTION finish_payment_event(p_driver text, p_event text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment_event SET handled_at = now() WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL
$$;
