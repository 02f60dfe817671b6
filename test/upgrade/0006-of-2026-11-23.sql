-- Two roles. One owns the tables and migrates them. The other one, the gateway role, serves requests and owns
-- none of these tables: it can read the money and change it only through the functions below, which hold, charge and
-- give holds back. An SQL injection, or a bug in a statement, can therefore not add credit, nor rewrite a balance, a
-- charge or a ledger entry. When one role does both
-- jobs, grant_gateway_rights is not called, and the functions run with the rights of their caller.

-- The role that grant_gateway_rights was called for. That role itself may only read it.
CREATE TABLE gateway_role (
  name name PRIMARY KEY
);

CREATE FUNCTION money_tables() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['balance', 'day_spend', 'key_spend', 'lease', 'ledger_tx', 'ledger_entry', 'refund',
    'usage_event', 'usage_hour', 'usage_day', 'usage_key_day', 'usage_archive', 'usage_frozen', 'usage_closing']::name[]
$$;

-- Without open_account, grant_credit and refund_request: only the operator gives credit, as the owner.
CREATE FUNCTION money_functions() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['admit_batch', 'hand_back_leases', 'note_lease_use', 'settle_batch', 'release_leases',
    'reclaim_leases', 'add_usage_partition']::name[]
$$;

-- Gives `p_role` the rights of the gateway role, and takes any others on the money tables from it. The owner calls
-- it after each migration; a second call changes nothing.
CREATE FUNCTION grant_gateway_rights(p_role name) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_schema name := current_schema();
  r record;
BEGIN
  -- The queue of jobs has a schema that the gateway role creates and owns.
  EXECUTE format('GRANT CREATE ON DATABASE %I TO %I', current_database(), p_role);
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', v_schema, p_role);
  FOR r IN SELECT relname, relkind FROM pg_class WHERE relnamespace = v_schema::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition LOOP
    EXECUTE format('REVOKE ALL ON %I.%I FROM %I', v_schema, r.relname, p_role);
    IF r.relname = ANY (money_tables()) OR r.relname IN ('migration', 'gateway_role') OR r.relkind = 'v' THEN
      EXECUTE format('GRANT SELECT ON %I.%I TO %I', v_schema, r.relname, p_role);
    ELSE
      EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I.%I TO %I', v_schema, r.relname, p_role);
    END IF;
  END LOOP;
  -- These functions run with the rights of the owner. pg_temp comes last, so that a temporary table cannot take the
  -- place of a table here.
  FOR r IN SELECT oid::regprocedure AS signature FROM pg_proc WHERE pronamespace = v_schema::regnamespace AND proname = ANY (money_functions()) LOOP
    EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', r.signature, v_schema);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', r.signature);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', r.signature, p_role);
  END LOOP;
  INSERT INTO gateway_role (name) VALUES (p_role) ON CONFLICT DO NOTHING;
END $$;
REVOKE ALL ON FUNCTION grant_gateway_rights FROM PUBLIC;
