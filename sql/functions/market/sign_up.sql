-- Opens the account of a customer that has none yet. Grants the signup credit unless the mailbox has had it, an account used the
-- browser in the 24 hours before p_at, or too many of the network, of its region or of all networks got it in the 24 hours before
-- p_at. Returns whether the credit was granted. `p_device`: the browser as in person_device. NULL: one without the cookie, which
-- no account has signed in from. Locks all sign-ups against each other, then the balance. Raises check_violation: see
-- check_signup_credit.
CREATE OR REPLACE FUNCTION open_account_by_sign_up(p_customer uuid, p_mailbox bytea, p_network text, p_region text, p_device bytea, p_at timestamptz, p_credit bigint,
  p_per_network int, p_per_region int, p_per_day int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_may_get_credit boolean;
BEGIN
  PERFORM check_signup_credit(p_credit);
  -- Sign-ups at the same time count one after the other.
  PERFORM pg_advisory_xact_lock(x'73796372'::int);  -- "sycr" in ASCII; any number that no other lock uses
  IF EXISTS (SELECT FROM balance WHERE customer_id = p_customer) THEN
    RETURN false;
  END IF;
  SELECT count(*) < p_per_day AND count(*) FILTER (WHERE network = p_network) < p_per_network AND count(*) FILTER (WHERE region = p_region) < p_per_region
      AND NOT EXISTS (SELECT FROM person_device WHERE device_hash = p_device AND last_used_at > p_at - interval '24 hours')
    INTO v_may_get_credit FROM signup_credit WHERE granted_at > p_at - interval '24 hours';
  IF p_credit > 0 AND v_may_get_credit THEN
    INSERT INTO signup_credit (mailbox_hash, network, region, granted_at) VALUES (p_mailbox, p_network, p_region, p_at)
      ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN open_account(p_customer, p_credit);
    END IF;
  END IF;
  PERFORM open_account(p_customer, 0);
  RETURN false;
END $$;

-- Raises check_violation when a signup credit is above what one operator may grant alone. The credit is a setting, which this
-- database does not know; a higher one needs the command line.
CREATE OR REPLACE FUNCTION check_signup_credit(p_credit bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF p_credit > grant_alone_max_nanos() THEN
    RAISE EXCEPTION 'a signup credit is at most % nano-USD', grant_alone_max_nanos() USING ERRCODE = 'check_violation';
  END IF;
END $$;

-- Opens the account of a customer that an operator adds, and writes the audit log. Returns false when the person is no operator.
-- Locks the balance, then the audit log.
CREATE OR REPLACE FUNCTION open_account_as(p_operator uuid, p_customer uuid, p_credit bigint, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN false;
  END IF;
  PERFORM open_account(p_customer, p_credit);
  PERFORM add_audit_entry(p_operator, 'customer.created', p_customer::text, p_customer,
    jsonb_build_object('signup_credit_usd', trim_scale(p_credit / 1e9)::text), p_address);
  RETURN true;
END $$;
