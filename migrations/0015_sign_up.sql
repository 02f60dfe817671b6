-- People sign up by themselves. The gateway role gives credit through this function only.

-- Opens the account of a customer that has none yet. Grants the signup credit unless the mailbox has had it, or too many of
-- the network or of all networks got it in the 24 hours before p_at. Returns whether the credit was granted.
CREATE FUNCTION open_account_by_sign_up(p_customer uuid, p_mailbox bytea, p_network text, p_at timestamptz, p_credit bigint,
  p_per_network int, p_per_day int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_today bigint;
  v_from_network bigint;
BEGIN
  -- Sign-ups at the same time count one after the other.
  PERFORM pg_advisory_xact_lock(x'73796372'::int);  -- "sycr" in ASCII; any number that no other lock uses
  IF EXISTS (SELECT FROM balance WHERE customer_id = p_customer) THEN
    RETURN false;
  END IF;
  SELECT count(*), count(*) FILTER (WHERE network = p_network) INTO v_today, v_from_network
    FROM signup_credit WHERE granted_at > p_at - interval '24 hours';
  IF p_credit > 0 AND v_today < p_per_day AND v_from_network < p_per_network THEN
    INSERT INTO signup_credit (mailbox_hash, network, granted_at) VALUES (p_mailbox, p_network, p_at) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN open_account(p_customer, p_credit);
    END IF;
  END IF;
  PERFORM open_account(p_customer, 0);
  RETURN false;
END $$;

DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['signup_credit']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_functions() || ARRAY['open_account_by_sign_up']::name[]));
END $$;
