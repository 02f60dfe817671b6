-- What these customers have spent of what they paid. Promotion credit and moved earnings are spent first, so it is what they paid
-- less what is left. What is from `cash` is paid, unless a payment of the test mode of its provider brought it.
CREATE OR REPLACE FUNCTION own_money_spent(p_customers uuid[]) RETURNS TABLE (customer_id uuid, spent_nanos bigint)
LANGUAGE sql STABLE AS $$
  SELECT b.customer_id, greatest(paid.nanos + moved.nanos - reversed.nanos - b.posted_nanos, 0)::bigint
    FROM balance b
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(e.amount_nanos), 0) AS nanos FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
       WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = b.customer_id
         AND (t.kind = 'opening_balance'
           OR (t.kind IN ('payment', 'voucher', 'credit') AND EXISTS (SELECT FROM ledger_entry c WHERE c.tx_id = e.tx_id AND c.account_kind = 'cash')))
         AND NOT EXISTS (SELECT FROM payment p WHERE p.tx_id = e.tx_id AND NOT p.is_live)
    ) AS paid
    -- From other cells, less what went there.
    CROSS JOIN LATERAL (
      SELECT coalesce(-sum(e.amount_nanos), 0) AS nanos FROM ledger_entry e WHERE e.account_kind = 'cell_clearing' AND e.account_id = b.customer_id
    ) AS moved
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(r.taken_nanos - r.returned_nanos), 0) AS nanos FROM payment_reversal r JOIN payment p USING (payment_id)
       WHERE r.customer_id = b.customer_id AND NOT p.is_promotion AND p.is_live
    ) AS reversed
   WHERE b.customer_id = ANY (p_customers)
$$;
