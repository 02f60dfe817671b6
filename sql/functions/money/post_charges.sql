-- Posts the charges as one transaction: customers pay hosters and the platform. Free requests post nothing. Adds to the sums of
-- hosters.
CREATE OR REPLACE FUNCTION post_charges(p_tx bigint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT p_tx, e.kind, e.account, e.amount FROM (
      SELECT 'customer' AS kind, customer AS account, -sum(cost)::bigint AS amount FROM unnest(p_sums) GROUP BY customer
      UNION ALL
      SELECT 'hoster_payable', hoster, sum(hoster_share)::bigint FROM unnest(p_sums) WHERE hoster_share > 0 GROUP BY hoster
      UNION ALL
      SELECT 'platform_revenue', platform_account(), sum(fee)::bigint FROM unnest(p_sums)
    ) e WHERE e.amount <> 0;
  IF FOUND THEN
    INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (p_tx, 'settle', gen_random_uuid()::text);
  END IF;
  INSERT INTO hoster_day_change (hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos,
      hoster_share_nanos, fee_nanos, refunded_nanos, refunded_share_nanos)
    SELECT hoster, (hour AT TIME ZONE 'UTC')::date, model, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens),
      sum(cost), sum(hoster_share), sum(fee), 0, 0
    FROM unnest(p_sums) WHERE hoster IS NOT NULL GROUP BY 1, 2, 3;
END $$;
