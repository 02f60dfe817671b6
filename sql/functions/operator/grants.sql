-- Gives credit for an operator, or asks for a second one, and writes the audit log. For the owner: the desk calls
-- request_grant_by_operator, and neither role calls grant_credit. So the desk gives no credit without an entry in the log that it
-- cannot remove. Locks the balance, then the audit log.
--
-- Values of the result:
-- 'granted'
-- 'waiting'       a second operator must approve it
-- 'duplicate'     the same credit was granted with this ref before; nothing changes
-- 'ref_taken'     the ref was used for another customer or amount, or was rejected; nothing changes
-- 'no_account'    the customer has no account; nothing changes
-- 'not_operator'  the person is no operator; nothing changes
CREATE OR REPLACE FUNCTION request_grant(p_operator uuid, p_grant uuid, p_customer uuid, p_amount bigint, p_ref text, p_reason text, p_is_promotion boolean,
  p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_before grant_request;
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
  IF credit_given_alone(p_operator, p_customer) + p_amount > grant_alone_max_nanos() AND has_other_operator(p_operator) THEN
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

-- What an operator gave a customer in 24 hours: grants, manual payments that the operator confirmed, and vouchers of the operator
-- that the customer redeemed. One sum, so that nobody gives more alone by using several. Grants and payments that a second
-- operator approved count as well: a payment does not keep who confirmed it second. Callers hold the lock of the balance.
CREATE OR REPLACE FUNCTION credit_given_alone(p_operator uuid, p_customer uuid) RETURNS numeric
LANGUAGE sql STABLE AS $$
  SELECT (SELECT coalesce(sum(g.amount_nanos), 0) FROM grant_request g
      WHERE g.customer_id = p_customer AND g.requested_by = p_operator AND g.state = 'granted' AND g.requested_at > now() - interval '24 hours')
    + (SELECT coalesce(sum(p.amount_nanos), 0) FROM payment p LEFT JOIN voucher v USING (payment_id)
      WHERE p.customer_id = p_customer AND p_operator IN (p.confirmed_by, v.made_by) AND p.paid_at > now() - interval '24 hours')
$$;

-- Above this sum in 24 hours, the credit that one operator gives one customer needs a second operator. 100 USD.
CREATE OR REPLACE FUNCTION grant_alone_max_nanos() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 100000000000::bigint $$;

-- Approves or rejects a waiting grant and writes the audit log. The operator who asked for it may reject it, but not approve it.
-- Locks the grant, then the balance, then the audit log: no function locks a grant while it holds a balance.
--
-- Values of the result: 'granted', 'rejected', and without a change 'own_request', 'decided_before', 'ref_taken' (the ref was
-- granted elsewhere in the time between), 'no_grant' and 'not_operator'.
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
    IF v_credit.applied IS NOT TRUE THEN
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

-- What the audit log keeps of a grant.
CREATE OR REPLACE FUNCTION grant_detail(p_amount bigint, p_ref text, p_reason text, p_is_promotion boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text, 'ref', p_ref, 'reason', p_reason, 'is_promotion', p_is_promotion)
$$;
