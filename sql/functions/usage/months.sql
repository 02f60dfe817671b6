-- The rows of all months that are in the database.
CREATE OR REPLACE VIEW usage_row AS SELECT * FROM usage_event UNION ALL SELECT * FROM usage_frozen;

-- Freezes a month as freeze_usage_rows does, after a last search for promotional earnings: it reads the rows of the month, and
-- settlements may be weeks late. Locks the search, then what freeze_usage_rows locks. Raises SY003, lock_not_available or
-- deadlock_detected: see there.
CREATE OR REPLACE FUNCTION freeze_usage_month(p_month date, p_from uuid, p_to uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM find_promotion_shares_of(p_month, (p_month + interval '1 month')::date - 1);
  RETURN freeze_usage_rows(p_month, p_from, p_to);
END $$;

-- Moves the partition of a month with the ids [p_from, p_to) to usage_frozen and puts an empty one in its place. Returns false
-- when the month is frozen or archived already. From the commit on, settlements do not add late rows of the month (see
-- is_archived), and nobody changes its rows. Locks exclusively the partition, then usage_event, then its default partition.
-- Raises SY003 when requests of the month may still be settled or refunded, and lock_not_available or deadlock_detected: see
-- lock_exclusively.
CREATE OR REPLACE FUNCTION freeze_usage_rows(p_month date, p_from uuid, p_to uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_live text := usage_partition_name(p_month);
  v_frozen text := frozen_partition_name(p_month);
  v_open bigint;
BEGIN
  IF p_month >= archivable_before() THEN
    RAISE EXCEPTION 'requests of % can still be refunded', to_char(p_month, 'YYYY-MM') USING ERRCODE = 'SY003';
  END IF;
  -- The partition comes first: autovacuum may hold it, and settlements of today do not need it.
  PERFORM lock_exclusively(ARRAY[v_live, 'usage_event', 'usage_event_default']);
  IF EXISTS (SELECT FROM usage_archive WHERE month = p_month) THEN
    RETURN false;
  END IF;
  SELECT count(*) INTO v_open FROM lease
    WHERE (lease_id >= p_from AND lease_id < p_to) OR granted_at < (p_month + interval '1 month') AT TIME ZONE 'UTC';
  IF v_open > 0 THEN
    RAISE EXCEPTION '% leases of requests up to % are open', v_open, to_char(p_month, 'YYYY-MM') USING ERRCODE = 'SY003';
  END IF;
  EXECUTE format('ALTER TABLE usage_event DETACH PARTITION %I', v_live);
  EXECUTE format('ALTER TABLE %I RENAME TO %I', v_live, v_frozen);
  -- Reads no row: the partition has a constraint with the same bounds.
  EXECUTE format('ALTER TABLE usage_frozen ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', v_frozen, p_from, p_to);
  INSERT INTO usage_archive (month, from_id, to_id) VALUES (p_month, p_from, p_to);
  PERFORM add_usage_partition(v_live, p_from, p_to);
  RETURN true;
END $$;

-- The name of the partition of usage_event for a month.
CREATE OR REPLACE FUNCTION usage_partition_name(p_month date) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'usage_event_' || to_char(p_month, 'YYYY_MM') $$;

-- The months before this one may be archived. A request can be refunded for at least 30 days after its month.
CREATE OR REPLACE FUNCTION archivable_before() RETURNS date
LANGUAGE sql STABLE AS $$ SELECT date_trunc('month', (now() - interval '30 days') AT TIME ZONE 'UTC')::date $$;

-- Adds the partition `p_name` for request ids in [p_from, p_to), which is a span of time. Moves rows that arrived before their
-- partition out of the default partition. Returns false when the partition exists. Locks the default partition exclusively.
CREATE OR REPLACE FUNCTION add_usage_partition(p_name text, p_from uuid, p_to uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF to_regclass(p_name) IS NOT NULL THEN
    RETURN false;
  END IF;
  LOCK TABLE usage_event_default IN ACCESS EXCLUSIVE MODE;
  IF to_regclass(p_name) IS NOT NULL THEN
    RETURN false;
  END IF;
  -- With this constraint, freeze_usage_month can attach the table elsewhere without reading it.
  EXECUTE format(
    'CREATE TABLE %I (LIKE usage_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS, CONSTRAINT ids_of_month CHECK (request_id >= %L AND request_id < %L))',
    p_name, p_from, p_to);
  EXECUTE format(
    'WITH moved AS (DELETE FROM usage_event_default WHERE request_id >= %L AND request_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    p_from, p_to, p_name);
  -- The table is created first and then attached. That locks nothing a settlement needs except the default partition.
  EXECUTE format('ALTER TABLE usage_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', p_name, p_from, p_to);
  RETURN true;
END $$;

-- Writes the sums of a frozen month, keeps its refunded rows in usage_event and drops the others. The rows were written to the
-- file with these totals. Does nothing when the month is archived already. Locks the archive of the month, then, exclusively,
-- usage_frozen and its partition. Raises SY003 when the totals differ from the rows, and lock_not_available or deadlock_detected:
-- see lock_exclusively.
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
  -- `tx_id >> 16`: one row for 65,536 transactions. With single ones, there would be as many rows as the ledger has entries.
  INSERT INTO usage_closing (month, customer_id, day, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_block,
      requests, successes, local_requests, hoster_requests, cloud_requests, input_tokens, output_tokens,
      cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens,
      label, member_id, member_window, upstream_cost_nanos, costed_nanos)
    SELECT p_month, customer_id, (started_at AT TIME ZONE 'UTC')::date, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_id >> 16,
      count(*), count(*) FILTER (WHERE success), count(*) FILTER (WHERE provider = 'local'), count(*) FILTER (WHERE provider = 'hoster'),
      count(*) FILTER (WHERE provider = 'cloud'), sum(input_tokens), sum(output_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), coalesce(sum(latency_ms) FILTER (WHERE success), 0),
      coalesce(sum(cache_read_tokens), 0), label, member_id, member_window,
      coalesce(sum(upstream_cost_nanos), 0), coalesce(sum(cost_nanos) FILTER (WHERE upstream_cost_nanos IS NOT NULL), 0)
    FROM usage_frozen f
    WHERE request_id >= v.from_id AND request_id < v.to_id
      AND NOT EXISTS (SELECT FROM refund r WHERE r.customer_id = f.customer_id AND r.request_id = f.request_id)
    GROUP BY customer_id, (started_at AT TIME ZONE 'UTC')::date, key_id, model_id, provider, hoster_id, cap_day, key_window, tx_id >> 16,
      label, member_id, member_window;
  UPDATE usage_archive
    SET archived_at = now(), requests = p_requests, kept_requests = v_kept, cost_nanos = p_cost, file_name = p_file_name, file_sha256 = p_file_sha256
    WHERE month = p_month;

  -- Last, since only then an audit has to wait. One that runs has read the rows, or will read the sums.
  PERFORM lock_exclusively(ARRAY['usage_frozen', frozen_partition_name(p_month)]);
  EXECUTE format('DROP TABLE %I', frozen_partition_name(p_month));
END $$;

-- Locks tables exclusively, in the order given. Waits a short time only and then tries again, because every statement that wants
-- one of the tables waits behind this one. Raises lock_not_available or deadlock_detected after ten minutes: a long transaction,
-- such as a dump, reads one of them.
CREATE OR REPLACE FUNCTION lock_exclusively(p_tables text[]) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
DECLARE
  v_table text;
BEGIN
  FOR v_attempt IN 1..600 LOOP
    BEGIN
      FOREACH v_table IN ARRAY p_tables LOOP
        EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', v_table);
      END LOOP;
      RETURN;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      -- This has released the locks of the attempt.
      IF v_attempt = 600 THEN
        RAISE;
      END IF;
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END $$;

-- The name of the partition of usage_frozen for a month.
CREATE OR REPLACE FUNCTION frozen_partition_name(p_month date) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'usage_frozen_' || to_char(p_month, 'YYYY_MM') $$;

-- Whether the rows of this request's month are frozen or archived. A transaction that depends on it reads usage_event first: then
-- no month is frozen before it ends.
CREATE OR REPLACE FUNCTION is_archived(p_request uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM usage_archive a WHERE p_request >= a.from_id AND p_request < a.to_id);
END $$;
