-- Makes sure that p_today and the next p_ahead days each have a partition of request_content, and drops those that ended before
-- p_keep_from, with what lies before it in the default partition. Returns the names of those that were dropped. Locks
-- request_content exclusively, for milliseconds, if there is something to do; raises lock_not_available or deadlock_detected:
-- see lock_exclusively.
CREATE OR REPLACE FUNCTION keep_content_days(p_today date, p_ahead integer, p_keep_from date) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  v_days date[] := ARRAY(SELECT p_today + n FROM generate_series(0, p_ahead) AS n
    WHERE to_regclass(content_partition_name(p_today + n)) IS NULL);
  v_old text[] := ARRAY(SELECT relname::text FROM pg_inherits JOIN pg_class ON oid = inhrelid
    WHERE inhparent = 'request_content'::regclass AND relname ~ '^request_content_\d{4}_\d\d_\d\d$'
      AND relname < content_partition_name(p_keep_from) ORDER BY relname);
  v_day date;
  v_name text;
BEGIN
  DELETE FROM request_content_default WHERE request_id < lowest_uuid_of(p_keep_from);
  IF v_days = '{}' AND v_old = '{}' THEN
    RETURN v_old;
  END IF;
  PERFORM lock_exclusively(ARRAY['request_content', 'request_content_default']);
  FOREACH v_name IN ARRAY v_old LOOP
    EXECUTE format('DROP TABLE %I', v_name);
  END LOOP;
  FOREACH v_day IN ARRAY v_days LOOP
    PERFORM add_content_day(v_day);
  END LOOP;
  RETURN v_old;
END $$;

-- Adds the partition of a day, and moves its rows out of the default partition. Locks request_content exclusively.
CREATE OR REPLACE FUNCTION add_content_day(p_day date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_name text := content_partition_name(p_day);
  v_from uuid := lowest_uuid_of(p_day);
  v_to uuid := lowest_uuid_of(p_day + 1);
BEGIN
  EXECUTE format('CREATE TABLE %I (LIKE request_content INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', v_name);
  EXECUTE format(
    'WITH moved AS (DELETE FROM request_content_default WHERE request_id >= %L AND request_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    v_from, v_to, v_name);
  EXECUTE format('ALTER TABLE request_content ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', v_name, v_from, v_to);
END $$;

-- The name of the partition of request_content for a day.
CREATE OR REPLACE FUNCTION content_partition_name(p_day date) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'request_content_' || to_char(p_day, 'YYYY_MM_DD') $$;

-- The lowest UUIDv7 of a day (UTC).
CREATE OR REPLACE FUNCTION lowest_uuid_of(p_day date) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((p_day - date '1970-01-01')::bigint * 86400000), 12, '0') || repeat('0', 20))::uuid
$$;
