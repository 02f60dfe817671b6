-- Ends the leases that one customer has with dead nodes: folds them, releases their money, and writes a free usage row
-- `node_died` for each strict lease. Only the dead node knew the requests of its bulk leases, so their slots stay counted. A node
-- without a row counts as dead. Returns the number of leases. Locks the balance, then the leases in the order of lease_id.
CREATE OR REPLACE FUNCTION reclaim_leases(p_customer uuid, p_node_shard smallint) RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_leases uuid[];
  v_ended lease[];
  v_died settled_sum[];
BEGIN
  PERFORM lock_balances(ARRAY[p_customer]);
  v_leases := ARRAY(
    SELECT l.lease_id FROM lease l
    WHERE l.customer_id = p_customer AND NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')
    ORDER BY l.lease_id FOR UPDATE);
  WITH ended AS (
    DELETE FROM lease l WHERE l.lease_id = ANY (v_leases) RETURNING l
  )
  SELECT coalesce(array_agg(l), '{}') INTO v_ended FROM ended;
  WITH inserted AS (
    INSERT INTO usage_event (customer_id, request_id, key_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
      input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome, cap_day, key_window,
      member_id, member_window)
    SELECT customer_id, lease_id, key_id, granted_at, coalesce(model_id, ''), 'none', 0, 0, 'none',
      0, 0, granted_nanos, 0, 0, 0, 0, false, 'node_died', cap_day, key_window,
      member_id, member_window
    FROM unnest(v_ended) WHERE slots IS NULL
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING key_id, started_at, model_id
  )
  SELECT array_agg(sum_presumed(p_customer, key_id, model_id, started_at, NULL, 1)) INTO v_died FROM inserted;
  PERFORM move_balances(ARRAY(SELECT (customer_id, cap_day, settled_nanos, granted_nanos)::balance_move FROM unnest(v_ended)));
  PERFORM charge_spend_limits(v_ended, '{}');
  PERFORM add_to_usage_sums(p_node_shard, v_died);
  RETURN cardinality(v_ended);
END $$;

-- Removes the row of a request that presumes its end: `node_died` of the reaper, or `superseded` of a node that runs the request
-- again. It may be subtracted from another shard of the sums than it was added to: only the sum over all shards has a meaning.
CREATE OR REPLACE FUNCTION withdraw_presumed_end(p_customer uuid, p_request uuid, p_node_shard smallint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_sums settled_sum[];
BEGIN
  WITH withdrawn AS (
    DELETE FROM usage_event WHERE customer_id = p_customer AND request_id = p_request AND outcome IN ('node_died', 'superseded')
    RETURNING key_id, started_at, model_id, label
  )
  SELECT array_agg(sum_presumed(p_customer, key_id, model_id, started_at, label, -1)) INTO v_sums FROM withdrawn;
  PERFORM add_to_usage_sums(p_node_shard, v_sums);
END $$;

-- Sums of `p_requests` rows that only presume how a request ended: with -1 the sum of a row that is withdrawn.
CREATE OR REPLACE FUNCTION sum_presumed(p_customer uuid, p_key uuid, p_model text, p_started_at timestamptz, p_label text, p_requests bigint)
RETURNS settled_sum
LANGUAGE sql STABLE AS $$
  SELECT (p_customer, NULL, NULL, NULL, p_key, p_model, 'none', date_trunc('hour', p_started_at, 'UTC'), p_requests, 0, 0, 0, 0, 0, 0, 0, 0,
    p_label, NULL, 0, 0)::settled_sum
$$;
