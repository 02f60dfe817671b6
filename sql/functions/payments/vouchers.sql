-- Stores a voucher. For the owner of the tables: the gateway role calls make_voucher_by_operator.
CREATE OR REPLACE FUNCTION make_voucher(p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text, p_is_promotion boolean, p_person uuid,
  p_expires_at timestamptz)
RETURNS void
LANGUAGE sql AS $$
  INSERT INTO voucher (voucher_id, code_hash, hint, amount_nanos, note, is_promotion, made_by, expires_at)
    VALUES (p_voucher, p_code_hash, p_hint, p_amount, p_note, p_is_promotion, p_person, p_expires_at)
$$;

-- Like make_voucher, for an operator, with an entry in the audit log. A voucher is worth money, so the limit of grants holds:
-- where there is another operator, one alone makes at most grant_alone_max_nanos in 24 hours. Verdicts: 'made', 'above_limit',
-- 'not_operator'. Locks the person of the operator, so that vouchers of one are made one after the other, then the audit log.
CREATE OR REPLACE FUNCTION make_voucher_as(p_operator uuid, p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text, p_is_promotion boolean,
  p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
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

-- Revokes a voucher. Returns whether it could still be redeemed until now.
CREATE OR REPLACE FUNCTION revoke_voucher(p_voucher uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE voucher SET revoked_at = now() WHERE voucher_id = p_voucher AND revoked_at IS NULL AND redeemed_at IS NULL;
  RETURN FOUND;
END $$;

-- Like revoke_voucher, for an operator, with an entry in the audit log. Locks the voucher, then the audit log.
CREATE OR REPLACE FUNCTION revoke_voucher_as(p_operator uuid, p_voucher uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) OR NOT revoke_voucher(p_voucher) THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(p_operator, 'voucher.revoked', p_voucher::text, NULL, jsonb_build_object('hint', hint), p_address)
    FROM voucher WHERE voucher_id = p_voucher;
  RETURN true;
END $$;

-- Redeems a voucher. The payment is promotion if the voucher is. Verdicts: 'redeemed'; 'duplicate': this customer redeemed it
-- before; 'used', 'expired', 'revoked'; 'unknown'; 'no_account'. Locks the balance, then the voucher.
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
