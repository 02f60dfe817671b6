-- Starts an automatic top-up if one is due: it is not paused and has a saved method, the customer is enabled and has no debt, the
-- balance is below the threshold, none is open, and the ceiling of the UTC month has room for it. Returns whether it started. Its
-- id is the idempotency key of the charge. Locks the balance, then the settings in auto_top_up, so that the ceiling is exact.
CREATE OR REPLACE FUNCTION start_auto_top_up(p_payment uuid, p_customer uuid, p_is_live boolean, p_reference text,
  p_next_look_at timestamptz, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_balance balance;
  v_settings auto_top_up;
  v_method payment_method;
  -- Charges of bulk leases that are not folded yet.
  v_unfolded bigint;
  -- What automatic top-ups have paid in this UTC month.
  v_paid bigint;
BEGIN
  SELECT * INTO v_balance FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  SELECT * INTO v_settings FROM auto_top_up WHERE customer_id = p_customer FOR UPDATE;
  SELECT * INTO v_method FROM payment_method WHERE method_id = v_settings.method_id AND removed_at IS NULL;
  IF v_settings.customer_id IS NULL OR v_settings.paused_at IS NOT NULL OR v_method.method_id IS NULL OR v_balance.debt_nanos > 0
    OR EXISTS (SELECT FROM customer WHERE customer_id = p_customer AND disabled_at IS NOT NULL)
    OR EXISTS (SELECT FROM payment WHERE customer_id = p_customer AND purpose = 'auto_top_up' AND state IN ('open', 'processing')) THEN
    RETURN false;
  END IF;
  SELECT coalesce(sum(settled_nanos), 0) INTO v_unfolded FROM lease WHERE customer_id = p_customer AND slots IS NOT NULL;
  IF v_balance.posted_nanos - v_unfolded >= v_settings.threshold_nanos THEN
    RETURN false;
  END IF;
  SELECT coalesce(sum(amount_nanos), 0) INTO v_paid FROM payment
    WHERE customer_id = p_customer AND purpose = 'auto_top_up' AND state = 'paid' AND created_at >= date_trunc('month', p_now, 'UTC');
  IF v_settings.amount_nanos > v_settings.monthly_max_nanos - v_paid THEN
    RETURN false;
  END IF;
  INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference,
      method_id, next_look_at, created_at)
    VALUES (p_payment, p_customer, v_method.driver, 'auto_top_up', v_settings.amount_nanos, v_settings.amount_nanos / nanos_per_cent(), 'usd',
      p_is_live, p_reference, v_settings.method_id, p_next_look_at, p_now);
  RETURN true;
END $$;

-- Pauses the automatic top-ups of a customer. Returns whether they were on.
CREATE OR REPLACE FUNCTION pause_auto_top_up(p_customer uuid, p_reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE auto_top_up SET paused_at = now(), pause_reason = p_reason WHERE customer_id = p_customer AND paused_at IS NULL;
  RETURN FOUND;
END $$;
