-- One hundred sign-ups from one provider's addresses took the signup credit of a day from everybody else. Now a region of the address space has a
-- share of the day, and a new account in the browser of another one gets none.

ALTER TABLE signup_credit
  -- The first 16 bits of an IPv4 address, 32 of an IPv6 address. NULL: given before this migration.
  ADD COLUMN region text;

DROP FUNCTION open_account_by_sign_up;

-- As in 0032, with regions, and with the browser as in person_device. NULL: a browser without the cookie, which no account has signed in from.
CREATE FUNCTION open_account_by_sign_up(p_customer uuid, p_mailbox bytea, p_network text, p_region text, p_device bytea, p_at timestamptz, p_credit bigint,
  p_per_network int, p_per_region int, p_per_day int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_is_free boolean;
BEGIN
  PERFORM check_signup_credit(p_credit);
  -- Sign-ups at the same time count one after the other.
  PERFORM pg_advisory_xact_lock(x'73796372'::int);  -- "sycr" in ASCII; any number that no other lock uses
  IF EXISTS (SELECT FROM balance WHERE customer_id = p_customer) THEN
    RETURN false;
  END IF;
  SELECT count(*) < p_per_day AND count(*) FILTER (WHERE network = p_network) < p_per_network AND count(*) FILTER (WHERE region = p_region) < p_per_region
      AND NOT EXISTS (SELECT FROM person_device WHERE device_hash = p_device AND last_used_at > p_at - interval '24 hours')
    INTO v_is_free FROM signup_credit WHERE granted_at > p_at - interval '24 hours';
  IF p_credit > 0 AND v_is_free THEN
    INSERT INTO signup_credit (mailbox_hash, network, region, granted_at) VALUES (p_mailbox, p_network, p_region, p_at)
      ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN open_account(p_customer, p_credit);
    END IF;
  END IF;
  PERFORM open_account(p_customer, 0);
  RETURN false;
END $$;
