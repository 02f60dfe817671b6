-- Writes the usage rows of the requests that are not in `p_skipped`, each with its charge, and returns those that are new. A
-- request with a strict lease is charged at most what the lease holds. One with a bulk lease, or with the effect 'late', is
-- charged at most its hold. Any other is free.
CREATE OR REPLACE FUNCTION insert_usage_rows(
  p_tx bigint, p_asked settlement_asked[], p_ended lease[], p_bulk lease[], p_unleased unleased_settlement[], p_skipped uuid[])
RETURNS settled_request[]
LANGUAGE plpgsql AS $$
DECLARE
  v_settled settled_request[];
BEGIN
  WITH asked AS (
    SELECT i.*, coalesce(l.cap_day, b.cap_day, t.cap_day) AS cap_day, coalesce(l.key_window, t.key_window) AS key_window,
      coalesce(l.member_id, t.member) AS member, coalesce(l.member_window, t.member_window) AS member_window,
      coalesce(l.granted_nanos, i.hold) AS held,
      CASE WHEN l.lease_id IS NOT NULL OR b.lease_id IS NOT NULL OR t.request IS NOT NULL
        THEN charge_within_hold(i.cost, coalesce(l.granted_nanos, i.hold)) ELSE 0 END AS charge
    FROM unnest(p_asked) WITH ORDINALITY AS i
    LEFT JOIN unnest(p_ended) l ON l.lease_id = i.request AND l.customer_id = i.customer
    LEFT JOIN unnest(p_bulk) b ON b.lease_id = i.lease
    LEFT JOIN (SELECT * FROM unnest(p_unleased) WHERE effect = 'late') t ON t.request = i.request
  ), shared AS (
    -- A lower charge is shared in the proportion of the full one. The hoster's share is rounded down, as in splitCost.
    SELECT *, CASE WHEN charge = cost THEN hoster_share ELSE div(hoster_share::numeric * charge, cost)::bigint END AS hoster_part
    FROM asked
  ), inserted AS (
    INSERT INTO usage_event (request_id, customer_id, key_id, started_at, model_id, provider, endpoint_id, hoster_id,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_pico_per_token, output_pico_per_token, price_version,
      hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, writeoff_nanos,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing, tx_id, cap_day, key_window,
      cache_read_tokens, cache_read_pico_per_token, cache_write_tokens, cache_write_pico_per_token, reasoning_tokens, other_parts,
      label, member_id, member_window, price_group, price_group_version, upstream_cost_nanos)
    SELECT request, customer, key, to_timestamp(started_ms / 1000::float8), model, provider, endpoint, hoster,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_price, output_price, price_version,
      held, charge, hoster_part, CASE WHEN charge = cost THEN fee ELSE charge - hoster_part END, writeoff + cost - charge,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing,
      CASE WHEN charge > 0 THEN p_tx END, cap_day, key_window,
      cache_read_tokens, cache_read_price, cache_write_tokens, cache_write_price, reasoning_tokens, other_parts,
      label, member, member_window, price_group, price_group_version, upstream_cost
    FROM shared
    WHERE request <> ALL (p_skipped)
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING request_id, customer_id, key_id, started_at, model_id, provider, hoster_id, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, cap_day, cache_read_tokens, label, endpoint_id, upstream_cost_nanos
  ), lease_of AS (
    -- The first one counts when a batch holds the same request twice.
    SELECT DISTINCT ON (request) request, nullif(lease, request) AS bulk_lease FROM asked ORDER BY request, ordinality
  )
  SELECT array_agg((n.request_id, n.customer_id, l.bulk_lease, n.cap_day, n.hoster_id, n.key_id, n.model_id, n.provider, n.started_at,
      n.success, n.input_tokens, n.output_tokens, n.cost_nanos, n.hoster_share_nanos, n.fee_nanos, n.latency_ms, n.cache_read_tokens, n.label,
      n.endpoint_id, n.upstream_cost_nanos)::settled_request)
    INTO v_settled
    FROM inserted n JOIN lease_of l ON l.request = n.request_id;
  RETURN coalesce(v_settled, '{}');
END $$;

-- Adds to the sums that reports read. Concurrent calls lock their rows in the order of the keys.
CREATE OR REPLACE FUNCTION add_to_usage_sums(p_node_shard smallint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_hour AS u (customer_id, hour, node_shard, requests, successes, local_requests, hoster_requests, cloud_requests,
      input_tokens, output_tokens, cost_nanos, latency_ms_sum)
    SELECT customer, hour, p_node_shard, sum(requests), sum(successes),
      coalesce(sum(requests) FILTER (WHERE provider = 'local'), 0), coalesce(sum(requests) FILTER (WHERE provider = 'hoster'), 0),
      coalesce(sum(requests) FILTER (WHERE provider = 'cloud'), 0),
      sum(input_tokens), sum(output_tokens), sum(cost), sum(latency_ms_sum)
    FROM unnest(p_sums) GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (customer_id, hour, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      local_requests = u.local_requests + excluded.local_requests, hoster_requests = u.hoster_requests + excluded.hoster_requests,
      cloud_requests = u.cloud_requests + excluded.cloud_requests,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum;
  INSERT INTO usage_day AS u (customer_id, day, model_id, provider, node_shard, requests, successes,
      input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens, upstream_cost_nanos, costed_nanos)
    SELECT customer, (hour AT TIME ZONE 'UTC')::date, model, provider, p_node_shard, sum(requests), sum(successes),
      sum(input_tokens), sum(output_tokens), sum(cost), sum(hoster_share), sum(fee), sum(latency_ms_sum), sum(cached_tokens),
      sum(upstream_cost), sum(costed)
    FROM unnest(p_sums) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, hoster_share_nanos = u.hoster_share_nanos + excluded.hoster_share_nanos,
      fee_nanos = u.fee_nanos + excluded.fee_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum,
      cached_tokens = u.cached_tokens + excluded.cached_tokens,
      upstream_cost_nanos = u.upstream_cost_nanos + excluded.upstream_cost_nanos, costed_nanos = u.costed_nanos + excluded.costed_nanos;
  INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT customer, key, (hour AT TIME ZONE 'UTC')::date, p_node_shard, sum(requests), sum(cost)
    FROM unnest(p_sums) WHERE key IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos;
  PERFORM add_to_endpoint_days(p_node_shard, p_sums);
  PERFORM add_to_label_days(p_node_shard, p_sums);
END $$;

-- Adds to the sums of servers. Requests that no server answered are in none.
CREATE OR REPLACE FUNCTION add_to_endpoint_days(p_node_shard smallint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO endpoint_day AS d (day, endpoint_id, model_id, provider, node_shard, requests, cost_nanos, hoster_share_nanos, fee_nanos,
      upstream_cost_nanos, costed_nanos)
    SELECT (hour AT TIME ZONE 'UTC')::date, coalesce(endpoint, ''), model, provider, p_node_shard, sum(requests), sum(cost), sum(hoster_share), sum(fee),
      sum(upstream_cost), sum(costed)
    FROM unnest(p_sums) WHERE provider <> 'none' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (day, endpoint_id, model_id, provider, node_shard) DO UPDATE SET
      requests = d.requests + excluded.requests, cost_nanos = d.cost_nanos + excluded.cost_nanos,
      hoster_share_nanos = d.hoster_share_nanos + excluded.hoster_share_nanos, fee_nanos = d.fee_nanos + excluded.fee_nanos,
      upstream_cost_nanos = d.upstream_cost_nanos + excluded.upstream_cost_nanos, costed_nanos = d.costed_nanos + excluded.costed_nanos;
END $$;

-- Adds to the sums of labels. The first 200 labels of a customer, a day and a shard have a row each.
CREATE OR REPLACE FUNCTION add_to_label_days(p_node_shard smallint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM unnest(p_sums) WHERE label IS NOT NULL) THEN
    RETURN;
  END IF;
  INSERT INTO usage_label_day AS u (customer_id, label, day, node_shard, requests, cost_nanos)
    SELECT s.customer, CASE WHEN s.is_known OR s.number <= 200 THEN s.label ELSE '' END, s.day, p_node_shard, sum(s.requests), sum(s.cost)
    FROM (
      SELECT g.*, k.label IS NOT NULL AS is_known,
        (SELECT count(*) FROM usage_label_day d WHERE d.customer_id = g.customer AND d.day = g.day AND d.node_shard = p_node_shard)
          + count(*) FILTER (WHERE k.label IS NULL) OVER (PARTITION BY g.customer, g.day ORDER BY g.label) AS number
      FROM (
        SELECT customer, label, (hour AT TIME ZONE 'UTC')::date AS day, sum(requests) AS requests, sum(cost) AS cost
        FROM unnest(p_sums) WHERE label IS NOT NULL GROUP BY 1, 2, 3
      ) g
      LEFT JOIN usage_label_day k ON k.customer_id = g.customer AND k.day = g.day AND k.label = g.label AND k.node_shard = p_node_shard
    ) s
    GROUP BY 1, 2, 3 ORDER BY 1, 3, 2
    ON CONFLICT (customer_id, day, label, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos;
END $$;
