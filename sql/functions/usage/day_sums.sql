-- Sums the days from `p_from` on. Days before it stay as they are. Vouchers that nobody paid for are granted, less what was taken
-- back of them. Locks the sums against another call, which would insert the same days.
CREATE OR REPLACE FUNCTION sum_platform_days(p_from date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from timestamptz := p_from::timestamp AT TIME ZONE 'UTC';
BEGIN
  PERFORM pg_advisory_xact_lock(x'73797064'::int);  -- "sypd" in ASCII
  DELETE FROM platform_day WHERE day >= p_from;
  INSERT INTO platform_day (day, model_id, provider, requests, successes, input_tokens, output_tokens, cached_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, upstream_cost_nanos, costed_nanos)
    SELECT day, model_id, provider, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), sum(latency_ms_sum), sum(upstream_cost_nanos), sum(costed_nanos)
    FROM usage_day WHERE day >= p_from GROUP BY day, model_id, provider HAVING sum(requests) <> 0;
  DELETE FROM platform_money_day WHERE day >= p_from;
  INSERT INTO platform_money_day (day, granted_nanos, signup_credit_nanos, refunded_nanos, refunded_share_nanos, writeoff_nanos, paid_nanos, reversed_nanos)
    SELECT day, coalesce(sum(granted), 0), coalesce(sum(signup), 0), coalesce(sum(refunded), 0), coalesce(sum(share), 0), coalesce(sum(writeoff), 0),
      coalesce(sum(paid), 0), coalesce(sum(reversed), 0)
    FROM (
      SELECT (t.at AT TIME ZONE 'UTC')::date AS day,
        CASE WHEN t.kind = 'credit' OR (e.account_kind = 'platform_promo' AND t.kind IN ('voucher', 'reversal', 'reversal_returned'))
          THEN -e.amount_nanos END AS granted,
        CASE WHEN t.kind = 'signup_credit' THEN -e.amount_nanos END AS signup,
        NULL::bigint AS refunded, NULL::bigint AS share, NULL::bigint AS writeoff,
        CASE WHEN e.account_kind = 'cash' AND t.kind IN ('payment', 'voucher') THEN -e.amount_nanos END AS paid,
        CASE WHEN e.account_kind = 'cash' AND t.kind IN ('reversal', 'reversal_returned') THEN e.amount_nanos END AS reversed
      FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      -- The condition of the index ledger_tx_given.
      WHERE t.kind <> 'settle' AND t.at >= v_from AND e.account_kind IN ('cash', 'platform_promo')
      UNION ALL
      SELECT (at AT TIME ZONE 'UTC')::date, NULL, NULL, amount_nanos, hoster_share_nanos, NULL, NULL, NULL FROM refund WHERE at >= v_from
      UNION ALL
      SELECT (started_at AT TIME ZONE 'UTC')::date, NULL, NULL, NULL, NULL, writeoff_nanos, NULL, NULL FROM usage_event
      WHERE writeoff_nanos > 0 AND started_at >= v_from
    ) AS changes
    GROUP BY day;
END $$;

-- Sums the days of each customer from `p_from` on. Writes only what changed: most customers make no request in a minute.
CREATE OR REPLACE FUNCTION sum_customer_days(p_from date) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO platform_customer_day AS p (day, customer_id, requests, cost_nanos)
    SELECT day, customer_id, sum(requests), sum(cost_nanos) FROM usage_day WHERE day >= p_from GROUP BY day, customer_id
    ORDER BY day, customer_id  -- so that a span is in few pages
    ON CONFLICT (day, customer_id) DO UPDATE SET requests = excluded.requests, cost_nanos = excluded.cost_nanos
      WHERE (p.requests, p.cost_nanos) IS DISTINCT FROM (excluded.requests, excluded.cost_nanos)
$$;
