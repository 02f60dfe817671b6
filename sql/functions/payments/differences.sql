-- Notes a difference. Returns whether it is new, open again, or has another problem. One that an operator accepted stays ended.
CREATE OR REPLACE FUNCTION note_payment_difference(p_driver text, p_ref text, p_kind text, p_problem text, p_payment uuid, p_charge_ref text, p_amount_minor bigint,
  p_currency text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payment_difference AS d (driver, ref, kind, problem, payment_id, charge_ref, amount_minor, currency, at)
    VALUES (p_driver, p_ref, p_kind, p_problem, p_payment, p_charge_ref, p_amount_minor, p_currency, p_at)
    ON CONFLICT (driver, ref) DO UPDATE SET problem = excluded.problem, payment_id = excluded.payment_id, ended_at = NULL, outcome = NULL
      WHERE d.outcome IN ('agreed', 'returned') OR (d.ended_at IS NULL AND d.problem <> excluded.problem);
  RETURN FOUND;
END $$;

-- Ends a difference that is gone: the charge was returned, or the books agree.
CREATE OR REPLACE FUNCTION end_payment_difference(p_driver text, p_ref text, p_is_returned boolean) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment_difference SET ended_at = now(), outcome = CASE WHEN p_is_returned THEN 'returned' ELSE 'agreed' END
    WHERE driver = p_driver AND ref = p_ref AND ended_at IS NULL
$$;

-- Ends a difference that an operator has dealt with outside of the books. Returns whether it was open. For the owner of the
-- tables: a gateway that hides a difference hides a theft. Locks the difference, then the audit log.
CREATE OR REPLACE FUNCTION accept_payment_difference(p_driver text, p_ref text, p_note text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payment_difference SET ended_at = now(), outcome = 'accepted', note = p_note
    WHERE driver = p_driver AND ref = p_ref AND ended_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(NULL, 'payment.difference_accepted', p_ref, NULL, jsonb_build_object('driver', p_driver, 'note', p_note), NULL);
  RETURN true;
END $$;
