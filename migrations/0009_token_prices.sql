-- Prices of tokens by kind: what prompt caches read and wrote, media, and a price for each request. Every new column is
-- NULL for requests without such tokens, so that their rows do not grow.

-- ---------------------------------------------------------------- prices of hosters

ALTER TABLE hoster_price
  -- NULL: cached tokens cost the input price. Never above it, because cached tokens that a hoster reports only lower a
  -- bill.
  ADD COLUMN cache_read_pico_per_token bigint CHECK (cache_read_pico_per_token BETWEEN 0 AND input_pico_per_token),
  ADD COLUMN cache_write_pico_per_token bigint CHECK (cache_write_pico_per_token BETWEEN 0 AND input_pico_per_token);

-- ---------------------------------------------------------------- usage rows

-- The view is made again with the new columns.
DROP VIEW usage_row;

-- `input_pico_per_token` and `output_pico_per_token` are the prices of the tokens that these columns do not name. Without
-- CHECKs, which would read every row of the table.
ALTER TABLE usage_event
  ADD COLUMN cache_read_pico_per_token bigint,
  ADD COLUMN cache_write_pico_per_token bigint,
  -- Inside input_tokens.
  ADD COLUMN cache_read_tokens integer,
  ADD COLUMN cache_write_tokens integer,
  -- Inside output_tokens, at their price.
  ADD COLUMN reasoning_tokens integer,
  -- Rarer parts, as a list of {"kind", "tokens", "pico_per_token"}. Kinds: cache_write_long, input_audio and input_image
  -- (inside input_tokens), output_audio and output_image (inside output_tokens), and request, the price of a request.
  ADD COLUMN other_parts json;

ALTER TABLE usage_frozen
  ADD COLUMN cache_read_pico_per_token bigint,
  ADD COLUMN cache_write_pico_per_token bigint,
  ADD COLUMN cache_read_tokens integer,
  ADD COLUMN cache_write_tokens integer,
  ADD COLUMN reasoning_tokens integer,
  ADD COLUMN other_parts json;

CREATE VIEW usage_row AS SELECT * FROM usage_event UNION ALL SELECT * FROM usage_frozen;

-- What `other_parts` of a usage row cost beyond its input and output price, in picodollars. For the audit.
CREATE FUNCTION other_parts_picos(p_parts json, p_input_price bigint, p_output_price bigint) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT coalesce(sum(p.tokens::numeric * (p.pico_per_token - CASE
    WHEN p.kind = 'request' THEN 0
    WHEN p.kind IN ('output_audio', 'output_image') THEN p_output_price
    ELSE p_input_price END)), 0)
  FROM json_to_recordset(p_parts) AS p(kind text, tokens bigint, pico_per_token bigint)
$$;

-- ---------------------------------------------------------------- sums

-- The tokens that caches read, for reports. They are inside input_tokens.
ALTER TABLE usage_day ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE usage_closing ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;

ALTER TYPE settlement_asked
  ADD ATTRIBUTE cache_read_tokens integer,
  ADD ATTRIBUTE cache_read_price bigint,
  ADD ATTRIBUTE cache_write_tokens integer,
  ADD ATTRIBUTE cache_write_price bigint,
  ADD ATTRIBUTE reasoning_tokens integer,
  ADD ATTRIBUTE other_parts json;
ALTER TYPE settled_request ADD ATTRIBUTE cached_tokens integer;
ALTER TYPE settled_sum ADD ATTRIBUTE cached_tokens bigint;

-- ---------------------------------------------------------------- functions of 0002 and 0008 with the new columns

-- Writes the usage rows of the requests that are not in `p_skipped`, each with its charge, and returns those
-- that are new. A request with a strict lease is charged at most what the lease holds. One with a bulk lease,
-- or with the effect 'late', is charged at most its hold. Any other is free.
CREATE OR REPLACE FUNCTION insert_usage_rows(
  p_tx bigint, p_asked settlement_asked[], p_ended lease[], p_bulk lease[], p_unleased unleased_settlement[], p_skipped uuid[])
RETURNS settled_request[]
LANGUAGE plpgsql AS $$
DECLARE
  v_settled settled_request[];
BEGIN
  WITH asked AS (
    SELECT i.*, coalesce(l.cap_day, b.cap_day, t.cap_day) AS cap_day, coalesce(l.key_window, t.key_window) AS key_window,
      coalesce(l.granted_nanos, i.hold) AS held,
      CASE WHEN l.lease_id IS NOT NULL OR b.lease_id IS NOT NULL OR t.request IS NOT NULL
        THEN charge_within_hold(i.cost, coalesce(l.granted_nanos, i.hold)) ELSE 0 END AS charge
    FROM unnest(p_asked) WITH ORDINALITY AS i
    LEFT JOIN unnest(p_ended) l ON l.lease_id = i.request AND l.customer_id = i.customer
    LEFT JOIN unnest(p_bulk) b ON b.lease_id = i.lease
    LEFT JOIN (SELECT * FROM unnest(p_unleased) WHERE effect = 'late') t ON t.request = i.request
  ), shared AS (
    -- A lower charge is shared in the proportion of the full one. The hoster's share is rounded down, as in
    -- splitCost.
    SELECT *, CASE WHEN charge = cost THEN hoster_share ELSE div(hoster_share::numeric * charge, cost)::bigint END AS hoster_part
    FROM asked
  ), inserted AS (
    INSERT INTO usage_event (request_id, customer_id, key_id, started_at, model_id, provider, endpoint_id, hoster_id,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_pico_per_token, output_pico_per_token, price_version,
      hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, writeoff_nanos,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing, tx_id, cap_day, key_window,
      cache_read_tokens, cache_read_pico_per_token, cache_write_tokens, cache_write_pico_per_token, reasoning_tokens, other_parts)
    SELECT request, customer, key, to_timestamp(started_ms / 1000::float8), model, provider, endpoint, hoster,
      input_tokens, output_tokens, reported_input_tokens, reported_output_tokens,
      counted_input_tokens, counted_output_tokens, usage_source, input_price, output_price, price_version,
      held, charge, hoster_part, CASE WHEN charge = cost THEN fee ELSE charge - hoster_part END, writeoff + cost - charge,
      latency_ms, first_token_ms, success, outcome, finish_reason, attempts, routing,
      CASE WHEN charge > 0 THEN p_tx END, cap_day, key_window,
      cache_read_tokens, cache_read_price, cache_write_tokens, cache_write_price, reasoning_tokens, other_parts
    FROM shared
    WHERE request <> ALL (p_skipped)
    ON CONFLICT (customer_id, request_id) DO NOTHING
    RETURNING request_id, customer_id, key_id, started_at, model_id, provider, hoster_id, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, cap_day, cache_read_tokens
  ), lease_of AS (
    -- The first one counts when a batch holds the same request twice.
    SELECT DISTINCT ON (request) request, nullif(lease, request) AS bulk_lease FROM asked ORDER BY request, ordinality
  )
  SELECT array_agg((n.request_id, n.customer_id, l.bulk_lease, n.cap_day, n.hoster_id, n.key_id, n.model_id, n.provider, n.started_at,
      n.success, n.input_tokens, n.output_tokens, n.cost_nanos, n.hoster_share_nanos, n.fee_nanos, n.latency_ms, n.cache_read_tokens)::settled_request)
    INTO v_settled
    FROM inserted n JOIN lease_of l ON l.request = n.request_id;
  RETURN coalesce(v_settled, '{}');
END $$;

-- Groups the settled requests once, so that each table below reads a few sums instead of all requests.
CREATE OR REPLACE FUNCTION sum_settled(p_settled settled_request[]) RETURNS settled_sum[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT (customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'),
      count(*), count(*) FILTER (WHERE success), sum(input_tokens), sum(output_tokens),
      sum(cost)::bigint, sum(hoster_share)::bigint, sum(fee)::bigint, coalesce(sum(latency_ms) FILTER (WHERE success), 0),
      coalesce(sum(cached_tokens), 0))::settled_sum
    FROM unnest(p_settled)
    GROUP BY customer, bulk_lease, cap_day, hoster, key, model, provider, date_trunc('hour', started_at, 'UTC'));
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
      input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens)
    SELECT customer, (hour AT TIME ZONE 'UTC')::date, model, provider, p_node_shard, sum(requests), sum(successes),
      sum(input_tokens), sum(output_tokens), sum(cost), sum(hoster_share), sum(fee), sum(latency_ms_sum), sum(cached_tokens)
    FROM unnest(p_sums) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (customer_id, day, model_id, provider, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, successes = u.successes + excluded.successes,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost_nanos = u.cost_nanos + excluded.cost_nanos, hoster_share_nanos = u.hoster_share_nanos + excluded.hoster_share_nanos,
      fee_nanos = u.fee_nanos + excluded.fee_nanos, latency_ms_sum = u.latency_ms_sum + excluded.latency_ms_sum,
      cached_tokens = u.cached_tokens + excluded.cached_tokens;
  INSERT INTO usage_key_day AS u (customer_id, key_id, day, node_shard, requests, cost_nanos)
    SELECT customer, key, (hour AT TIME ZONE 'UTC')::date, p_node_shard, sum(requests), sum(cost)
    FROM unnest(p_sums) WHERE key IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (customer_id, key_id, day, node_shard) DO UPDATE SET
      requests = u.requests + excluded.requests, cost_nanos = u.cost_nanos + excluded.cost_nanos;
END $$;

-- Sums of `p_requests` rows that only presume how a request ended: with -1 the sum of a row that is withdrawn.
CREATE OR REPLACE FUNCTION sum_presumed(p_customer uuid, p_key uuid, p_model text, p_started_at timestamptz, p_requests bigint) RETURNS settled_sum
LANGUAGE sql STABLE AS $$
  SELECT (p_customer, NULL, NULL, NULL, p_key, p_model, 'none', date_trunc('hour', p_started_at, 'UTC'), p_requests, 0, 0, 0, 0, 0, 0, 0, 0)::settled_sum
$$;

-- Writes the sums of a frozen month, keeps its refunded rows in usage_event and drops the others. The rows were
-- written to the file with these totals. Raises SY003 when the totals differ from the rows. Does nothing when the month
-- is archived already.
CREATE OR REPLACE FUNCTION finish_usage_archive(p_month date, p_requests bigint, p_cost bigint, p_file_name text, p_file_sha256 text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v usage_archive;
  v_kept bigint;
  v_requests bigint;
  v_cost bigint;
BEGIN
  SELECT * INTO STRICT v FROM usage_archive WHERE month = p_month FOR UPDATE;
  IF v.archived_at IS NOT NULL THEN
    RETURN;
  END IF;
  SELECT count(*), coalesce(sum(cost_nanos), 0) INTO v_requests, v_cost FROM usage_frozen WHERE request_id >= v.from_id AND request_id < v.to_id;
  IF (v_requests, v_cost) IS DISTINCT FROM (p_requests, p_cost) THEN
    RAISE EXCEPTION 'the file of % has % rows that cost % nano-USD, the database % that cost %',
      to_char(p_month, 'YYYY-MM'), p_requests, p_cost, v_requests, v_cost USING ERRCODE = 'SY003';
  END IF;

  -- A refund refers to its usage row.
  INSERT INTO usage_event
    SELECT f.* FROM usage_frozen f
    WHERE f.request_id >= v.from_id AND f.request_id < v.to_id
      AND EXISTS (SELECT FROM refund r WHERE r.customer_id = f.customer_id AND r.request_id = f.request_id);
  GET DIAGNOSTICS v_kept = ROW_COUNT;
  INSERT INTO usage_closing (month, customer_id, day, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_block,
      requests, successes, local_requests, hoster_requests, cloud_requests, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens)
    SELECT p_month, customer_id, (started_at AT TIME ZONE 'UTC')::date, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_id >> 16,
      count(*), count(*) FILTER (WHERE success), count(*) FILTER (WHERE provider = 'local'), count(*) FILTER (WHERE provider = 'hoster'),
      count(*) FILTER (WHERE provider = 'cloud'), sum(input_tokens), sum(output_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), coalesce(sum(latency_ms) FILTER (WHERE success), 0),
      coalesce(sum(cache_read_tokens), 0)
    FROM usage_frozen f
    WHERE request_id >= v.from_id AND request_id < v.to_id
      AND NOT EXISTS (SELECT FROM refund r WHERE r.customer_id = f.customer_id AND r.request_id = f.request_id)
    GROUP BY customer_id, (started_at AT TIME ZONE 'UTC')::date, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_id >> 16;
  UPDATE usage_archive
    SET archived_at = now(), requests = p_requests, kept_requests = v_kept, cost_nanos = p_cost, file_name = p_file_name, file_sha256 = p_file_sha256
    WHERE month = p_month;

  -- Last, since only then an audit has to wait. One that runs has read the rows, or will read the sums.
  PERFORM lock_exclusively(ARRAY['usage_frozen', frozen_partition_name(p_month)]);
  EXECUTE format('DROP TABLE %I', frozen_partition_name(p_month));
END $$;
