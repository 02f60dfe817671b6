-- Freezes the payouts of a hoster, or resumes them. Returns whether something changed. Locks the hoster, then the audit log.
CREATE OR REPLACE FUNCTION set_payout_freeze(p_operator uuid, p_hoster uuid, p_is_frozen boolean, p_reason text, p_address text) RETURNS boolean
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

-- Takes earnings back, for a disputed payment or for proven fraud. The hoster may owe them then. Verdicts: 'taken'; 'duplicate':
-- this id was used before; 'above_dispute': the reversal took less, or other claw-backs have its money; 'above_earnings': the
-- hoster never earned that much; 'no_dispute'; 'no_hoster'. Locks the hoster, then the dispute, then the audit log.
CREATE OR REPLACE FUNCTION claw_back(p_operator uuid, p_clawback uuid, p_hoster uuid, p_amount bigint, p_reversal uuid, p_reason text, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_dispute payment_reversal;
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN 'no_hoster';
  ELSIF EXISTS (SELECT FROM clawback WHERE clawback_id = p_clawback) THEN
    RETURN 'duplicate';
  END IF;
  IF p_reversal IS NOT NULL THEN
    -- Claw-backs of other hosters for the same dispute come one after the other.
    SELECT * INTO v_dispute FROM payment_reversal WHERE reversal_id = p_reversal AND kind = 'dispute' FOR UPDATE;
    IF NOT FOUND THEN
      RETURN 'no_dispute';
    ELSIF p_amount > v_dispute.taken_nanos - v_dispute.returned_nanos
      - (SELECT coalesce(sum(amount_nanos), 0) FROM clawback WHERE reversal_id = p_reversal AND returned_at IS NULL) THEN
      RETURN 'above_dispute';
    END IF;
  END IF;
  IF p_amount > (SELECT coalesce(sum(hoster_share_nanos - refunded_share_nanos), 0) FROM hoster_line WHERE hoster_id = p_hoster)
    - (SELECT coalesce(sum(amount_nanos), 0) FROM clawback WHERE hoster_id = p_hoster AND returned_at IS NULL) THEN
    RETURN 'above_earnings';
  END IF;
  INSERT INTO clawback (clawback_id, hoster_id, cause, reversal_id, amount_nanos, reason, made_by)
    VALUES (p_clawback, p_hoster, CASE WHEN p_reversal IS NULL THEN 'fraud' ELSE 'dispute' END, p_reversal, p_amount, p_reason, p_operator);
  PERFORM post_hoster('clawback', p_clawback::text, p_hoster, -p_amount, 'hoster_clawback', platform_account(), p_reason);
  PERFORM add_audit_entry(p_operator, 'hoster.clawed_back', p_hoster::text, NULL, jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text,
    'cause', CASE WHEN p_reversal IS NULL THEN 'fraud' ELSE 'dispute' END, 'reversal', p_reversal, 'reason', p_reason), p_address);
  RETURN 'taken';
END $$;

-- Gives a claw-back back. Returns false when it was given back before, or does not exist. Locks the hoster, then the audit log.
CREATE OR REPLACE FUNCTION return_clawback(p_operator uuid, p_clawback uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v clawback;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM clawback WHERE clawback_id = p_clawback));
  UPDATE clawback SET returned_at = now(), return_reason = p_reason WHERE clawback_id = p_clawback AND returned_at IS NULL RETURNING * INTO v;
  IF v.clawback_id IS NULL THEN
    RETURN false;
  END IF;
  PERFORM post_hoster('clawback_returned', p_clawback::text, v.hoster_id, v.amount_nanos, 'hoster_clawback', platform_account(), p_reason);
  PERFORM add_audit_entry(p_operator, 'hoster.clawback_returned', v.hoster_id::text, NULL,
    jsonb_build_object('amount_usd', trim_scale(v.amount_nanos / 1e9)::text, 'reason', p_reason), p_address);
  RETURN true;
END $$;
