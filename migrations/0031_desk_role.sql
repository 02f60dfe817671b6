-- A third role. The gateway role serves requests. The desk role signs people in, and books what they, operators and payment
-- providers order. So an SQL injection in the path of requests can start, book and pay nothing, and becomes nobody. When one role
-- does both jobs, it has the rights of both.

-- ---------------------------------------------------------------- what only the desk does
CREATE FUNCTION desk_functions() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY[
    'request_grant', 'decide_grant', 'open_account_by_operator', 'refund_by_operator', 'open_account_by_sign_up', 'fill_house_account',
    'start_payment', 'note_payment_started', 'close_payment', 'confirm_payment', 'book_payment_report', 'note_payment_event',
    'finish_payment_event', 'reverse_payment_by_operator', 'return_reversal', 'return_reversal_by_operator',
    'make_voucher_by_operator', 'revoke_voucher_by_operator', 'redeem_voucher', 'pause_auto_top_up', 'start_auto_top_up',
    'begin_payout', 'note_payout_sent', 'book_payout_report', 'note_payout_event', 'finish_payout_event', 'set_payout_account',
    'set_hoster_customer', 'move_earnings', 'prepare_payouts_by_operator', 'approve_payouts_by_operator', 'cancel_payouts_by_operator',
    'settle_bank_payout_by_operator', 'freeze_payouts_by_operator', 'claw_back_by_operator', 'return_clawback_by_operator']::name[]
$$;

-- Tables of people and their access, of what they may spend, and of the cards that are charged. The gateway role only reads them.
CREATE FUNCTION desk_tables() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['person', 'person_session', 'person_token', 'person_recovery_code', 'person_passkey', 'person_identity', 'person_network',
    'sign_in_throttle', 'customer', 'membership', 'member_limit', 'api_key', 'house_customer', 'hoster_member', 'hoster_key',
    'payment_account', 'payment_method', 'auto_top_up']::name[]
$$;

-- Columns that are as good as the secret behind them for SQL, or that can be guessed from. The gateway role cannot read them. Of
-- a money table, the desk cannot either: its functions find a voucher by the hash of the code. The hashes of API keys are not
-- here: the gateway role looks keys up by them, no function takes one, and nobody guesses 190 random bits.
CREATE FUNCTION secret_columns() RETURNS TABLE (table_name name, column_name name)
LANGUAGE sql IMMUTABLE AS $$
  VALUES ('voucher'::name, 'code_hash'::name), ('signup_credit', 'mailbox_hash'), ('person', 'password_hash'), ('person', 'totp_secret'),
    ('person', 'totp_pending'), ('person_session', 'token_hash'), ('person_session', 'previous_token_hash'),
    ('person_token', 'token_hash'), ('person_token', 'detail'), ('person_recovery_code', 'code_hash')
$$;

DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', ARRAY(SELECT name FROM unnest(money_functions()) AS name WHERE name <> ALL (desk_functions()))));
END $$;

-- ---------------------------------------------------------------- operators
-- Only the owner, who runs the command line, makes operators and takes their rights: a role of the gateway cannot become one, nor
-- remove the second operator that a large grant needs.
CREATE FUNCTION refuse_operator_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM gateway_role WHERE name = session_user) THEN
    RAISE EXCEPTION 'operators are changed on the command line only' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER refuse_new_operator BEFORE INSERT ON person FOR EACH ROW
  WHEN (NEW.installation_role IS NOT NULL) EXECUTE FUNCTION refuse_operator_change();
CREATE TRIGGER refuse_operator_change BEFORE UPDATE ON person FOR EACH ROW
  WHEN (NEW.installation_role IS DISTINCT FROM OLD.installation_role
    OR (OLD.installation_role IS NOT NULL AND (NEW.person_id, NEW.disabled_at) IS DISTINCT FROM (OLD.person_id, OLD.disabled_at)))
  EXECUTE FUNCTION refuse_operator_change();
CREATE TRIGGER refuse_operator_delete BEFORE DELETE ON person FOR EACH ROW
  WHEN (OLD.installation_role IS NOT NULL) EXECUTE FUNCTION refuse_operator_change();

-- ---------------------------------------------------------------- payments
-- The credit of a payment is what its provider was asked for. NOT VALID: old rows need no reading.
ALTER TABLE payment ADD CONSTRAINT payment_amount_is_charged
  CHECK (driver <> 'stripe' OR (currency = 'usd' AND amount_nanos = amount_minor::numeric * 10000000)) NOT VALID;

-- ---------------------------------------------------------------- rights
-- True for the roles that do what the desk does.
ALTER TABLE gateway_role ADD COLUMN is_desk boolean NOT NULL DEFAULT true;

-- The rights on one table: of one role, at most.
CREATE FUNCTION table_rights(p_table name, p_kind "char", p_is_desk boolean) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_kind = 'v' OR p_table = ANY (money_tables() || ARRAY['migration', 'gateway_role']::name[])
    OR (NOT p_is_desk AND p_table = ANY (desk_tables())) THEN 'SELECT' ELSE 'SELECT, INSERT, UPDATE, DELETE' END
$$;

-- The columns that a role cannot read. A role that writes a table may need what it wrote.
CREATE FUNCTION hidden_columns(p_table name, p_is_desk boolean) RETURNS name[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT column_name FROM secret_columns() WHERE table_name = p_table AND NOT (p_is_desk AND p_table = ANY (desk_tables())))
$$;

DROP FUNCTION grant_gateway_rights;

-- Gives both roles their rights, and takes any others from them. They may be the same. The owner calls it after each migration; a
-- second call changes nothing.
CREATE FUNCTION grant_gateway_rights(p_gateway name, p_desk name) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_schema name := current_schema();
  v_role name;
  v_is_desk boolean;
  v_hidden name[];
  r record;
BEGIN
  FOR v_role, v_is_desk IN
    SELECT name, bool_or(is_desk) FROM (VALUES (p_gateway, false), (p_desk, true)) AS roles(name, is_desk) GROUP BY name
  LOOP
    -- The roles may not create schemas: one with the name of the owner would come first in the owner's search path, and its
    -- tables would take the place of these.
    EXECUTE format('REVOKE CREATE ON DATABASE %I FROM %I', current_database(), v_role);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', v_schema, v_role);
    FOR r IN SELECT oid, relname, relkind FROM pg_class
      WHERE relnamespace = v_schema::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition
    LOOP
      EXECUTE format('REVOKE ALL ON %I.%I FROM %I', v_schema, r.relname, v_role);
      v_hidden := hidden_columns(r.relname, v_is_desk);
      IF v_hidden = '{}' THEN
        EXECUTE format('GRANT %s ON %I.%I TO %I', table_rights(r.relname, r.relkind, v_is_desk), v_schema, r.relname, v_role);
      ELSE
        EXECUTE format('GRANT SELECT (%s) ON %I.%I TO %I',
          (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
            WHERE attrelid = r.oid AND attnum > 0 AND NOT attisdropped AND attname <> ALL (v_hidden)),
          v_schema, r.relname, v_role);
      END IF;
    END LOOP;
    -- These functions run with the rights of the owner. pg_temp comes last, so that a temporary table cannot take the
    -- place of a table here.
    FOR r IN SELECT oid::regprocedure AS signature, proname, prosecdef FROM pg_proc
      WHERE pronamespace = v_schema::regnamespace AND (prosecdef OR proname = ANY (money_functions() || desk_functions()))
    LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, %I', r.signature, v_role);
      IF r.proname <> ALL (money_functions() || desk_functions()) THEN
        EXECUTE format('ALTER FUNCTION %s SECURITY INVOKER RESET search_path', r.signature);
        CONTINUE;
      END IF;
      EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', r.signature, v_schema);
      IF v_is_desk OR r.proname = ANY (money_functions()) THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', r.signature, v_role);
      END IF;
    END LOOP;
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
REVOKE ALL ON FUNCTION grant_gateway_rights FROM PUBLIC;
