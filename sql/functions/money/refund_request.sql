-- Refunds `p_amount` of the charge of a settled request, or all of it when that is NULL, once. The hoster gives back the
-- proportion of its share, rounded down as in splitCost, and the platform gives the rest. So a full refund takes back exactly the
-- share and the fee, and no refund takes more of either. The hoster's account may go below zero: then the hoster owes the
-- platform. The day's spend does not change: the cap limits what a customer can start in a day, and the refunded request was
-- started. Locks the balance. Raises check_violation for an amount of zero or less.
--
-- Values of `verdict`:
-- 'refunded'
-- 'duplicate'        the same amount was refunded before; nothing changes
-- 'refunded_before'  another amount was refunded before; nothing changes
-- 'above_charge'     the amount is above the charge
-- 'free'             nothing was charged
-- 'no_request'       no usage row: the request is unknown, not settled yet, or archived
CREATE OR REPLACE FUNCTION refund_request(p_customer uuid, p_request uuid, p_amount bigint, p_reason text)
RETURNS TABLE (verdict text, charged bigint, amount bigint, hoster_share bigint, fee bigint, reason text, at timestamptz)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '2s' AS $$
DECLARE
  v_charge record;
  v_earlier record;
  v_tx bigint;
BEGIN
  PERFORM 1 FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  SELECT u.cost_nanos, u.hoster_share_nanos, u.hoster_id, u.started_at INTO v_charge
    FROM usage_event u WHERE u.customer_id = p_customer AND u.request_id = p_request;
  IF NOT FOUND THEN
    verdict := 'no_request';
    RETURN NEXT;
    RETURN;
  END IF;
  charged := v_charge.cost_nanos;
  amount := coalesce(p_amount, charged);
  IF charged = 0 THEN
    verdict := 'free';
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT r.amount_nanos, r.hoster_share_nanos, r.fee_nanos, r.reason, r.at INTO v_earlier
    FROM refund r WHERE r.customer_id = p_customer AND r.request_id = p_request;
  IF FOUND THEN
    verdict := CASE WHEN v_earlier.amount_nanos = amount THEN 'duplicate' ELSE 'refunded_before' END;
    amount := v_earlier.amount_nanos;
    hoster_share := v_earlier.hoster_share_nanos;
    fee := v_earlier.fee_nanos;
    reason := v_earlier.reason;
    at := v_earlier.at;
    RETURN NEXT;
    RETURN;
  END IF;
  IF amount > charged THEN
    verdict := 'above_charge';
    RETURN NEXT;
    RETURN;
  END IF;
  verdict := 'refunded';
  hoster_share := div(v_charge.hoster_share_nanos::numeric * amount, charged)::bigint;
  fee := amount - hoster_share;
  reason := p_reason;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('refund', p_request::text, p_reason) RETURNING ledger_tx.tx_id, ledger_tx.at INTO v_tx, at;
  INSERT INTO refund (customer_id, request_id, started_at, amount_nanos, hoster_share_nanos, fee_nanos, reason, at, tx_id)
    VALUES (p_customer, p_request, v_charge.started_at, amount, hoster_share, fee, p_reason, at, v_tx);
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT v_tx, e.kind, e.account, e.amount FROM (VALUES
      ('customer', p_customer, amount),
      ('hoster_payable', v_charge.hoster_id, -hoster_share),
      ('platform_revenue', platform_account(), -fee)
    ) AS e(kind, account, amount) WHERE e.amount <> 0;
  UPDATE balance SET posted_nanos = posted_nanos + amount WHERE customer_id = p_customer;
  RETURN NEXT;
END $$;

-- Like refund_request, for an operator in the console: writes the audit log. Another verdict: 'not_operator'. Locks the balance,
-- then the audit log.
CREATE OR REPLACE FUNCTION refund_as(p_operator uuid, p_customer uuid, p_request uuid, p_amount bigint, p_reason text, p_address text)
RETURNS TABLE (verdict text, charged bigint, amount bigint, hoster_share bigint, fee bigint, reason text, at timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    verdict := 'not_operator';
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT r.* INTO verdict, charged, amount, hoster_share, fee, reason, at
    FROM refund_request(p_customer, p_request, p_amount, p_reason) r;
  IF verdict = 'refunded' THEN
    PERFORM add_audit_entry(p_operator, 'request.refunded', p_request::text, p_customer,
      jsonb_build_object('amount_usd', trim_scale(amount / 1e9)::text, 'reason', p_reason), p_address);
  END IF;
  RETURN NEXT;
END $$;
