-- Gives both roles their rights, and takes any others from them. They may be the same. The owner calls it after each migration; a
-- second call changes nothing. Without a second role, nobody calls it, and the functions run with the rights of their caller.
CREATE OR REPLACE FUNCTION grant_gateway_rights(p_gateway name, p_desk name) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_role name;
  v_is_desk boolean;
BEGIN
  FOR v_role, v_is_desk IN
    SELECT name, bool_or(is_desk) FROM (VALUES (p_gateway, false), (p_desk, true)) AS roles(name, is_desk) GROUP BY name
  LOOP
    -- The roles may not create schemas: one with the name of the owner would come first in the owner's search path, and its
    -- tables would take the place of these.
    EXECUTE format('REVOKE CREATE ON DATABASE %I FROM %I', current_database(), v_role);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), v_role);
    PERFORM grant_table_rights(v_role, v_is_desk), grant_function_rights(v_role, v_is_desk);
    INSERT INTO gateway_role (name, is_desk) VALUES (v_role, v_is_desk) ON CONFLICT (name) DO UPDATE SET is_desk = excluded.is_desk;
  END LOOP;
  -- The gateway role creates the tables of the job queue, in a schema that exists. The desk has no rights there: it must not run
  -- functions that another role can replace.
  IF to_regnamespace('graphile_worker') IS NULL THEN
    CREATE SCHEMA graphile_worker;
    -- graphile-worker creates the schema if it misses this table, and all other tables as the role that runs jobs.
    CREATE TABLE graphile_worker.migrations (
      id int PRIMARY KEY,
      ts timestamptz NOT NULL DEFAULT now(),
      breaking boolean NOT NULL DEFAULT false
    );
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON graphile_worker.migrations TO %I', p_gateway);
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA graphile_worker TO %I', p_gateway);
  END IF;
END $$;

-- Gives the roles that have rights those on new tables and functions. CREATE OR REPLACE makes a function run with the rights of
-- its caller: `migrate` calls this in the same transaction, so nodes that serve requests miss nothing.
CREATE OR REPLACE FUNCTION renew_gateway_rights() RETURNS void
LANGUAGE sql AS $$
  SELECT grant_table_rights(name, is_desk), grant_function_rights(name, is_desk) FROM gateway_role JOIN pg_roles ON rolname = name
$$;

-- Gives a role its rights on the tables, and takes any others from it.
CREATE OR REPLACE FUNCTION grant_table_rights(p_role name, p_is_desk boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_schema name := current_schema();
  v_hidden name[];
  r record;
BEGIN
  FOR r IN SELECT oid, relname, relkind FROM pg_class
    WHERE relnamespace = v_schema::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition
  LOOP
    EXECUTE format('REVOKE ALL ON %I.%I FROM %I', v_schema, r.relname, p_role);
    v_hidden := hidden_columns(r.relname, p_is_desk);
    IF v_hidden = '{}' THEN
      EXECUTE format('GRANT %s ON %I.%I TO %I', table_rights(r.relname, r.relkind, p_is_desk), v_schema, r.relname, p_role);
    ELSE
      EXECUTE format('GRANT SELECT (%s) ON %I.%I TO %I',
        (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
          WHERE attrelid = r.oid AND attnum > 0 AND NOT attisdropped AND attname <> ALL (v_hidden)),
        v_schema, r.relname, p_role);
    END IF;
  END LOOP;
END $$;

-- The columns that a role cannot read. A role that writes a table may need what it wrote.
CREATE OR REPLACE FUNCTION hidden_columns(p_table name, p_is_desk boolean) RETURNS name[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT column_name FROM secret_columns() WHERE table_name = p_table AND NOT (p_is_desk AND p_table = ANY (desk_tables())))
$$;

-- The rights on one table: of one role, at most.
CREATE OR REPLACE FUNCTION table_rights(p_table name, p_kind "char", p_is_desk boolean) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_kind = 'v' OR p_table = ANY (money_tables() || ARRAY['migration', 'migration_functions', 'gateway_role', 'master_key']::name[])
    OR (NOT p_is_desk AND p_table = ANY (desk_tables())) THEN 'SELECT' ELSE 'SELECT, INSERT, UPDATE, DELETE' END
$$;

-- Gives a role the functions that it may call, with the rights of the owner. pg_temp comes last, so that a temporary table cannot
-- take the place of a table here. A function that left the lists runs with the rights of its caller again, as all others do.
CREATE OR REPLACE FUNCTION grant_function_rights(p_role name, p_is_desk boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_schema name := current_schema();
  r record;
BEGIN
  FOR r IN SELECT oid::regprocedure AS signature, proname FROM pg_proc
    WHERE pronamespace = v_schema::regnamespace AND (prosecdef OR proname = ANY (money_functions() || desk_functions())
      OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = quote_ident(p_role)::regrole))
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, %I', r.signature, p_role);
    IF r.proname <> ALL (money_functions() || desk_functions()) THEN
      EXECUTE format('ALTER FUNCTION %s SECURITY INVOKER RESET search_path', r.signature);
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', r.signature);
      CONTINUE;
    END IF;
    EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', r.signature, v_schema);
    IF p_is_desk OR r.proname = ANY (money_functions()) THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', r.signature, p_role);
    END IF;
  END LOOP;
END $$;

-- Takes the right to create in the schema from everybody but its owner. A role that may create there could add a function or an
-- operator that fits a call of the owner's functions better than the one that is meant, and would run with the rights of the
-- owner. Before PostgreSQL 15, everybody may create in `public`. Does nothing in a schema of another owner, where the audit and
-- `switchyard doctor` report which role has the right.
CREATE OR REPLACE FUNCTION close_schema() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_schema name := current_schema();
  v_grantee name;
BEGIN
  IF NOT pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = v_schema), 'USAGE') THEN RETURN; END IF;
  EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', v_schema);
  FOR v_grantee IN SELECT name FROM gateway_role JOIN pg_roles ON rolname = name LOOP
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM %I', v_schema, v_grantee);
  END LOOP;
END $$;

REVOKE ALL ON FUNCTION grant_gateway_rights, grant_table_rights, grant_function_rights, renew_gateway_rights FROM PUBLIC;
