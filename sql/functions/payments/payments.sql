-- Starts a top-up, once for each idempotency key of a customer. Verdicts: 'started'; 'existing', with the earlier payment;
-- 'key_reused': the key was used for another amount or driver; 'too_many': 20 are open; 'no_account'. Locks the balance: top-ups
-- of one customer start one after the other.
CREATE OR REPLACE FUNCTION start_payment(p_payment uuid, p_customer uuid, p_driver text, p_amount bigint, p_amount_minor bigint, p_currency text,
  p_is_live boolean, p_reference text, p_idempotency_key text, p_person uuid, p_expires_at timestamptz, p_next_look_at timestamptz)
RETURNS TABLE (verdict text, payment uuid)
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment;
BEGIN
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'no_account', NULL::uuid;
    RETURN;
  END IF;
  SELECT * INTO v FROM payment p WHERE p.customer_id = p_customer AND p.idempotency_key = p_idempotency_key;
  IF FOUND THEN
    RETURN QUERY SELECT CASE WHEN v.amount_nanos = p_amount AND v.driver = p_driver THEN 'existing' ELSE 'key_reused' END, v.payment_id;
    RETURN;
  END IF;
  IF (SELECT count(*) FROM payment p WHERE p.customer_id = p_customer AND p.state IN ('open', 'processing')) >= 20 THEN
    RETURN QUERY SELECT 'too_many', NULL::uuid;
    RETURN;
  END IF;
  INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference,
      idempotency_key, person_id, expires_at, next_look_at)
    VALUES (p_payment, p_customer, p_driver, 'top_up', p_amount, p_amount_minor, p_currency, p_is_live, p_reference,
      p_idempotency_key, p_person, p_expires_at, p_next_look_at);
  RETURN QUERY SELECT 'started', p_payment;
END $$;

-- Notes how the provider names a payment, and where the payer pays. A second answer changes nothing. Locks the payment.
CREATE OR REPLACE FUNCTION note_payment_started(p_payment uuid, p_provider_ref text, p_redirect_url text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment SET provider_ref = p_provider_ref, redirect_url = CASE WHEN state = 'open' THEN p_redirect_url END
    WHERE payment_id = p_payment AND provider_ref IS NULL
$$;

-- Closes a payment that waits for its payer: as 'failed', 'expired' or 'cancelled'. Returns whether it was open. Money that
-- arrives later is still booked: while the provider's name of the payment is not stored, the next look for it is in six hours,
-- until it is three days old. Locks the payment. Raises invalid_parameter_value for another state.
CREATE OR REPLACE FUNCTION close_payment(p_payment uuid, p_state text, p_failure text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF p_state NOT IN ('failed', 'expired', 'cancelled') THEN
    RAISE EXCEPTION 'a payment is not closed as %', p_state USING ERRCODE = 'invalid_parameter_value';
  END IF;
  UPDATE payment SET next_look_at = CASE WHEN created_at > now() - interval '3 days' THEN now() + interval '6 hours' END
    WHERE payment_id = p_payment AND next_look_at IS NOT NULL AND provider_ref IS NULL AND tx_id IS NULL;
  UPDATE payment SET state = p_state, failure = p_failure, redirect_url = NULL
    WHERE payment_id = p_payment AND state = 'open';
  RETURN FOUND;
END $$;

-- Like book_manual_payment, for an operator, with an entry in the audit log. As with request_grant, a second operator must
-- confirm as well when one operator gives one customer more than grant_alone_max_nanos in 24 hours. Other verdicts: 'waiting',
-- 'not_operator'. Locks the balance, then the payment, then the audit log.
CREATE OR REPLACE FUNCTION confirm_payment(p_operator uuid, p_payment uuid, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
  v_verdict text;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  ELSIF v.driver = 'manual' AND v.tx_id IS NULL AND coalesce(v.confirmed_by, p_operator) = p_operator AND has_other_operator(p_operator) THEN
    IF credit_given_alone(p_operator, v.customer_id) + v.amount_nanos > grant_alone_max_nanos() THEN
      IF v.confirmed_by IS NULL THEN
        UPDATE payment SET confirmed_by = p_operator WHERE payment_id = p_payment;
        PERFORM add_audit_entry(p_operator, 'payment.first_confirmation', p_payment::text, v.customer_id, payment_detail(v), p_address);
      END IF;
      RETURN 'waiting';
    END IF;
  END IF;
  v_verdict := book_manual_payment(p_payment);
  IF v_verdict = 'paid' THEN
    UPDATE payment SET confirmed_by = p_operator WHERE payment_id = p_payment AND confirmed_by IS NULL;
    PERFORM add_audit_entry(p_operator, 'payment.confirmed', p_payment::text, v.customer_id, payment_detail(v), p_address);
  END IF;
  RETURN v_verdict;
END $$;

-- What the audit log keeps of a payment.
CREATE OR REPLACE FUNCTION payment_detail(p payment) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('amount_usd', trim_scale(p.amount_nanos / 1e9)::text, 'reference', p.reference)
$$;

-- Books that the money of a manual payment arrived. Verdicts: 'paid', 'paid_before', 'not_manual', 'no_payment'. For the owner of
-- the tables: the gateway role calls confirm_payment_by_operator. Locks the balance, then the payment.
CREATE OR REPLACE FUNCTION book_manual_payment(p_payment uuid) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
BEGIN
  IF v.payment_id IS NULL THEN
    RETURN 'no_payment';
  ELSIF v.driver <> 'manual' THEN
    RETURN 'not_manual';
  ELSIF v.tx_id IS NOT NULL THEN
    RETURN 'paid_before';
  END IF;
  PERFORM give_payment_credit(v, 'payment', v.payment_id::text, 'payment ' || v.reference);
  RETURN 'paid';
END $$;

-- Locks the balance of a payment's customer, then the payment. A row of NULLs when there is no such payment.
CREATE OR REPLACE FUNCTION lock_payment(p_payment uuid) RETURNS payment
LANGUAGE plpgsql AS $$
DECLARE
  v payment;
BEGIN
  -- The customer of a payment never changes.
  PERFORM FROM balance WHERE customer_id = (SELECT customer_id FROM payment WHERE payment_id = p_payment) FOR NO KEY UPDATE;
  SELECT * INTO v FROM payment WHERE payment_id = p_payment FOR UPDATE;
  RETURN v;
END $$;

-- Gives the credit of a locked payment that has none yet. Raises unique_violation for a second credit: its transaction has the
-- kind and the ref of the first.
CREATE OR REPLACE FUNCTION give_payment_credit(p payment, p_kind text, p_ref text, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payment SET state = 'paid', paid_at = now(), failure = NULL, redirect_url = NULL,
      tx_id = post_credit(p_kind, p_ref, p.customer_id, p.amount_nanos, p.is_promotion, p_reason)
    WHERE payment_id = p.payment_id;
END $$;

-- Moves money from its source to a locked balance. Returns the transaction.
CREATE OR REPLACE FUNCTION post_credit(p_kind text, p_ref text, p_customer uuid, p_amount bigint, p_is_promotion boolean, p_reason text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES (p_kind, p_ref, p_reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', p_customer, p_amount),
    (v_tx, credit_source(p_is_promotion), platform_account(), -p_amount);
  UPDATE balance SET posted_nanos = posted_nanos + p_amount WHERE customer_id = p_customer;
  RETURN v_tx;
END $$;

-- Lets a payment without a credit follow another charge of its own, such as one that appeared late. A report that was read before
-- is stale then. Locks the payment.
CREATE OR REPLACE FUNCTION adopt_charge(p_payment uuid, p_provider_ref text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment SET provider_ref = p_provider_ref, version = version + 1
    WHERE payment_id = p_payment AND tx_id IS NULL AND provider_ref IS DISTINCT FROM p_provider_ref
$$;

-- Notes the charge behind a credit. Call it in the transaction that books the report. Locks the payment.
CREATE OR REPLACE FUNCTION note_payment_charge(p_payment uuid, p_charge_ref text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment SET charge_ref = p_charge_ref WHERE payment_id = p_payment AND tx_id IS NOT NULL AND charge_ref IS NULL
$$;
