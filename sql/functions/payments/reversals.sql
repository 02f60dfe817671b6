-- Takes credit back for a refund of unspent credit, before the provider is asked to pay. With `p_is_dispute`, for a chargeback of
-- a manual payment: it may leave a debt. For the owner of the tables: the gateway role calls reverse_payment_by_operator.
-- Verdicts: 'taken'; 'duplicate': this id was used before; 'not_paid'; 'above_payment'; 'spent': less is free; 'not_manual': a
-- dispute of another payment is its provider's to report; 'no_payment'. Locks the balance, then the payment, then, for a dispute,
-- the settings in auto_top_up and, when a debt remains, the bulk leases of the customer.
CREATE OR REPLACE FUNCTION reverse_payment(p_reversal uuid, p_payment uuid, p_amount bigint, p_asked_minor bigint, p_is_dispute boolean, p_reason text)
RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
BEGIN
  IF v.payment_id IS NULL THEN
    RETURN 'no_payment';
  ELSIF EXISTS (SELECT FROM payment_reversal WHERE reversal_id = p_reversal) THEN
    RETURN 'duplicate';
  ELSIF v.tx_id IS NULL THEN
    RETURN 'not_paid';
  ELSIF p_is_dispute AND v.has_provider THEN
    RETURN 'not_manual';
  ELSIF p_amount > v.amount_nanos - reversed_nanos(p_payment) THEN
    RETURN 'above_payment';
  ELSIF NOT p_is_dispute AND p_amount > (SELECT posted_nanos - leased_nanos FROM balance WHERE customer_id = v.customer_id) THEN
    RETURN 'spent';
  END IF;
  INSERT INTO payment_reversal (reversal_id, payment_id, customer_id, kind, state, asked_minor, taken_nanos, reason)
    VALUES (p_reversal, p_payment, v.customer_id, CASE WHEN p_is_dispute THEN 'dispute' ELSE 'refund' END,
      CASE WHEN v.has_provider THEN 'asked' ELSE 'done' END, p_asked_minor, 0, p_reason);
  PERFORM move_reversal(p_reversal, p_amount);
  IF p_is_dispute THEN
    PERFORM pause_auto_top_up(v.customer_id, 'A payment was disputed.');
  END IF;
  RETURN 'taken';
END $$;

-- What reversals have taken from a payment and not given back.
CREATE OR REPLACE FUNCTION reversed_nanos(p_payment uuid) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(taken_nanos - returned_nanos), 0)::bigint FROM payment_reversal WHERE payment_id = p_payment
$$;

-- Like reverse_payment, for an operator, with an entry in the audit log. Another verdict: 'not_operator'. Locks what
-- reverse_payment locks, then the audit log.
CREATE OR REPLACE FUNCTION reverse_payment_as(p_operator uuid, p_reversal uuid, p_payment uuid, p_amount bigint, p_asked_minor bigint,
  p_is_dispute boolean, p_reason text, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_verdict text;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  v_verdict := reverse_payment(p_reversal, p_payment, p_amount, p_asked_minor, p_is_dispute, p_reason);
  IF v_verdict = 'taken' THEN
    PERFORM add_audit_entry(p_operator, CASE WHEN p_is_dispute THEN 'payment.disputed' ELSE 'payment.refunded' END, p_payment::text, customer_id,
        jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text, 'reference', reference, 'reason', p_reason), p_address)
      FROM payment WHERE payment_id = p_payment;
  END IF;
  RETURN v_verdict;
END $$;

-- Like return_reversal, for an operator, with an entry in the audit log, for manual payments and vouchers. Locks the balance,
-- then the payment, then the reversal, then the audit log.
CREATE OR REPLACE FUNCTION return_reversal_as(p_operator uuid, p_reversal uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) OR NOT EXISTS (
      SELECT FROM payment_reversal r JOIN payment USING (payment_id) WHERE r.reversal_id = p_reversal AND NOT has_provider)
    OR NOT return_reversal(p_reversal) THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(p_operator, 'payment.reversal_returned', payment_id::text, customer_id,
      jsonb_build_object('amount_usd', trim_scale(returned_nanos / 1e9)::text, 'reason', reason), p_address)
    FROM payment_reversal WHERE reversal_id = p_reversal;
  RETURN true;
END $$;

-- Gives the credit of a refund back that was asked for and that the provider refused. A refund that was paid stays paid. Returns
-- whether something was given back. Locks the balance, then the payment, then the reversal.
CREATE OR REPLACE FUNCTION refuse_refund(p_reversal uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_payment((SELECT payment_id FROM payment_reversal WHERE reversal_id = p_reversal));
  RETURN EXISTS (SELECT FROM payment_reversal WHERE reversal_id = p_reversal AND state = 'asked') AND return_reversal(p_reversal);
END $$;

-- Gives back what a reversal took: the provider refused the refund, or a dispute of a manual payment was won. Returns whether
-- something was given back. Locks the balance, then the payment, then the reversal.
CREATE OR REPLACE FUNCTION return_reversal(p_reversal uuid) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment;
  v_is_returned boolean;
BEGIN
  v := lock_payment((SELECT payment_id FROM payment_reversal WHERE reversal_id = p_reversal));
  IF v.payment_id IS NULL THEN
    RETURN false;
  END IF;
  v_is_returned := move_reversal(p_reversal, 0) <> 0;
  UPDATE payment_reversal SET state = 'refused' WHERE reversal_id = p_reversal AND kind = 'refund';
  RETURN v_is_returned;
END $$;

-- Moves what a reversal has taken, less what it has returned, to `p_target`. Takes what is free from the locked balance and the
-- rest as debt. Returns how much more was taken; negative when something was given back. Locks the reversal, then, when a debt
-- remains, the bulk leases of the customer, to recall them.
CREATE OR REPLACE FUNCTION move_reversal(p_reversal uuid, p_target bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  -- Of no node: all nodes hand back their leases.
  no_node constant uuid := '00000000-0000-0000-0000-000000000000';
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
      (credit_source(v_is_promotion), platform_account(), v_taken)
    ) AS e(kind, account, amount) WHERE e.amount <> 0;
  IF v_free > 0 THEN
    INSERT INTO credit_taken (customer_id, tx_id, amount_nanos) VALUES (v.customer_id, v_tx, v_free);
  END IF;
  UPDATE balance SET posted_nanos = posted_nanos - v_free, debt_nanos = debt_nanos + v_taken - v_free WHERE customer_id = v.customer_id;
  UPDATE payment_reversal SET taken_nanos = taken_nanos + v_taken, updated_at = now() WHERE reversal_id = p_reversal;
  IF v_taken > v_free THEN
    -- Nodes admit no more requests from leases that they hold.
    PERFORM recall_bulk_leases(ARRAY[v.customer_id], no_node, false);
  END IF;
  RETURN v_taken;
END $$;
