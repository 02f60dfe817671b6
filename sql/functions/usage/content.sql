-- Makes sure that each day from p_from to p_until has a partition of request_content. Returns the names of those that were added.
-- Locks request_content against other changes of its partitions. Readers and writers do not wait, nor does this wait for them: it
-- works while a dump runs.
CREATE OR REPLACE FUNCTION add_content_days(p_from date, p_until date) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  v_added text[] := '{}';
  v_day date;
  v_name text;
BEGIN
  FOR v_day IN SELECT p_from + n FROM generate_series(0, p_until - p_from) AS n LOOP
    v_name := content_partition_name(v_day);
    IF to_regclass(v_name) IS NULL THEN
      LOCK TABLE ONLY request_content IN SHARE UPDATE EXCLUSIVE MODE;
      -- Another node may have added it before this one got the lock.
      IF to_regclass(v_name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE request_content INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', v_name);
        EXECUTE format('ALTER TABLE request_content ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
          v_name, lowest_uuid_of(v_day), lowest_uuid_of(v_day + 1));
        v_added := v_added || v_name;
      END IF;
    END IF;
  END LOOP;
  RETURN v_added;
END $$;

-- Drops the partitions of request_content of the days before p_keep_from. Returns their names. Locks request_content and its
-- partitions exclusively if there is one. Raises lock_not_available after 100 ms while a long transaction, such as a dump, reads
-- it: every other statement on the table waits behind this one.
CREATE OR REPLACE FUNCTION drop_content_days(p_keep_from date) RETURNS text[]
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
DECLARE
  v_old text[];
  v_name text;
BEGIN
  IF NOT EXISTS (SELECT FROM content_partitions_before(p_keep_from)) THEN
    RETURN '{}';
  END IF;
  LOCK TABLE request_content IN ACCESS EXCLUSIVE MODE;
  -- Another node may have dropped some before this one got the lock.
  v_old := ARRAY(SELECT content_partitions_before(p_keep_from));
  FOREACH v_name IN ARRAY v_old LOOP
    EXECUTE format('DROP TABLE %I', v_name);
  END LOOP;
  RETURN v_old;
END $$;

-- The names of the partitions of request_content of the days before p_day.
CREATE OR REPLACE FUNCTION content_partitions_before(p_day date) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
  SELECT relname::text FROM pg_inherits JOIN pg_class ON oid = inhrelid
   WHERE inhparent = 'request_content'::regclass AND relname ~ '^request_content_\d{4}_\d\d_\d\d$'
     AND relname < content_partition_name(p_day) ORDER BY relname
$$;

-- The name of the partition of request_content for a day.
CREATE OR REPLACE FUNCTION content_partition_name(p_day date) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT 'request_content_' || to_char(p_day, 'YYYY_MM_DD') $$;

-- The lowest UUIDv7 of a day (UTC).
CREATE OR REPLACE FUNCTION lowest_uuid_of(p_day date) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((p_day - date '1970-01-01')::bigint * 86400000), 12, '0') || repeat('0', 20))::uuid
$$;
