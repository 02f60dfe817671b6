-- Only the owner creates in the schema of the tables. A role that may create there could add a function or an operator that fits a call
-- of the owner's functions better than the one that is meant, and would run with the rights of the owner. Before PostgreSQL 15,
-- everybody may create in `public`.

-- Takes that right from everybody but the owner of the schema. Does nothing in a schema of another owner, where the audit and
-- `switchyard doctor` report who has the right.
CREATE FUNCTION close_schema() RETURNS void
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
