-- Paying a frozen hoster again and giving a claw-back back need a reason, for the hoster and the audit log, as the freeze and the
-- claw-back do.
ALTER TABLE clawback ADD COLUMN return_reason text;

DROP FUNCTION freeze_payouts_by_operator(uuid, uuid, text, text);
DROP FUNCTION freeze_payouts(uuid, uuid, text, text);
DROP FUNCTION return_clawback_by_operator(uuid, uuid, text);
DROP FUNCTION return_clawback(uuid, uuid, text);

-- Freezes the payouts of a hoster, or pays it again. Returns whether something changed.
CREATE FUNCTION freeze_payouts(p_operator uuid, p_hoster uuid, p_is_frozen boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE hoster SET payout_frozen_at = CASE WHEN p_is_frozen THEN now() END, payout_freeze_reason = CASE WHEN p_is_frozen THEN p_reason END
    WHERE hoster_id = p_hoster AND (payout_frozen_at IS NULL) = p_is_frozen;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(p_operator, CASE WHEN p_is_frozen THEN 'hoster.payouts_frozen' ELSE 'hoster.payouts_released' END, p_hoster::text, NULL,
    jsonb_build_object('reason', p_reason), p_address);
  RETURN true;
END $$;

-- Gives a claw-back back. Returns whether it was not given back before.
CREATE FUNCTION return_clawback(p_operator uuid, p_clawback uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v clawback;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM clawback WHERE clawback_id = p_clawback));
  UPDATE clawback SET returned_at = now(), return_reason = p_reason WHERE clawback_id = p_clawback AND returned_at IS NULL RETURNING * INTO v;
  IF v.clawback_id IS NULL THEN
    RETURN false;
  END IF;
  PERFORM post_hoster('clawback_returned', p_clawback::text, v.hoster_id, v.amount_nanos, 'hoster_clawback', '00000000-0000-0000-0000-000000000000', p_reason);
  PERFORM add_audit_entry(p_operator, 'hoster.clawback_returned', v.hoster_id::text, NULL,
    jsonb_build_object('amount_usd', trim_scale(v.amount_nanos / 1e9)::text, 'reason', p_reason), p_address);
  RETURN true;
END $$;

-- The lists of rights in 0021 name these two.
CREATE FUNCTION freeze_payouts_by_operator(p_operator uuid, p_hoster uuid, p_is_frozen boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN freeze_payouts(p_operator, p_hoster, p_is_frozen, p_reason, p_address);
END $$;

CREATE FUNCTION return_clawback_by_operator(p_operator uuid, p_clawback uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN return_clawback(p_operator, p_clawback, p_reason, p_address);
END $$;
