-- Operators prove a session. The functions with which the console moves money for an operator take the SHA-256 of the token in the
-- operator's cookie, which no table gives to the gateway role, instead of the operator's id, which every log entry shows. The
-- command line, which is the owner, calls the functions inside.

-- ---------------------------------------------------------------- sessions
-- A row here names no transaction, which is checked at the commit: so the transaction that wrote it can only be rolled back.
CREATE TABLE trial (
  tx_id         bigint NOT NULL REFERENCES ledger_tx DEFERRABLE INITIALLY DEFERRED
);

-- Returns the operator of a session, and raises SY004 unless it lives and its person is an operator. The limits are those of
-- src/people/sessions.ts and http/console/require-confirmation.ts. With `p_needs_confirmation`, a session that was not confirmed in
-- the last 10 minutes can only try what follows, as a dry run does: the transaction cannot commit.
CREATE FUNCTION operator_of_session(p_token_hash bytea, p_needs_confirmation boolean) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  -- A former token may be known to another program, so it has no confirmation.
  SELECT p.person_id, s.token_hash = p_token_hash AND s.confirmed_at > now() - interval '10 minutes' AS is_confirmed INTO v
    FROM person_session s JOIN person p USING (person_id)
    WHERE (s.token_hash = p_token_hash OR (s.previous_token_hash = p_token_hash AND s.token_changed_at > now() - interval '30 seconds'))
      AND s.expires_at > now() AND s.last_seen_at > now() - interval '12 hours'
      AND p.installation_role = 'operator' AND p.disabled_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'no operator has this session' USING ERRCODE = 'SY004';
  END IF;
  IF p_needs_confirmation AND NOT v.is_confirmed THEN
    INSERT INTO trial (tx_id) VALUES (-1);
  END IF;
  RETURN v.person_id;
END $$;

-- ---------------------------------------------------------------- credit of new customers
-- The credit is a setting, which this database does not know. A signup credit above this needs the command line.
CREATE FUNCTION check_signup_credit(p_credit bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF p_credit > grant_alone_max_nanos() THEN
    RAISE EXCEPTION 'a signup credit is at most % nano-USD', grant_alone_max_nanos() USING ERRCODE = 'check_violation';
  END IF;
END $$;

-- ---------------------------------------------------------------- what operators do
-- These take the id of the operator, for the functions below.
ALTER FUNCTION open_account_by_operator RENAME TO open_account_as;
ALTER FUNCTION refund_by_operator RENAME TO refund_as;
ALTER FUNCTION reverse_payment_by_operator RENAME TO reverse_payment_as;
ALTER FUNCTION return_reversal_by_operator RENAME TO return_reversal_as;
ALTER FUNCTION make_voucher_by_operator RENAME TO make_voucher_as;
ALTER FUNCTION revoke_voucher_by_operator RENAME TO revoke_voucher_as;
DROP FUNCTION prepare_payouts_by_operator, approve_payouts_by_operator, cancel_payouts_by_operator, settle_bank_payout_by_operator,
  freeze_payouts_by_operator, claw_back_by_operator, return_clawback_by_operator, require_operator;

CREATE FUNCTION request_grant_by_operator(p_session bytea, p_grant uuid, p_customer uuid, p_amount bigint, p_ref text, p_reason text, p_address text)
RETURNS text
LANGUAGE sql AS $$ SELECT request_grant(operator_of_session(p_session, true), p_grant, p_customer, p_amount, p_ref, p_reason, p_address) $$;

CREATE FUNCTION decide_grant_by_operator(p_session bytea, p_grant uuid, p_is_approved boolean, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT decide_grant(operator_of_session(p_session, true), p_grant, p_is_approved, p_address) $$;

CREATE FUNCTION open_account_by_operator(p_session bytea, p_customer uuid, p_credit bigint, p_address text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT check_signup_credit(p_credit);
  SELECT open_account_as(operator_of_session(p_session, false), p_customer, p_credit, p_address)
$$;

CREATE FUNCTION refund_by_operator(p_session bytea, p_customer uuid, p_request uuid, p_amount bigint, p_reason text, p_address text)
RETURNS TABLE (verdict text, charged bigint, amount bigint, hoster_share bigint, fee bigint, reason text, at timestamptz)
LANGUAGE sql AS $$ SELECT * FROM refund_as(operator_of_session(p_session, true), p_customer, p_request, p_amount, p_reason, p_address) $$;

CREATE FUNCTION confirm_payment_by_operator(p_session bytea, p_payment uuid, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT confirm_payment(operator_of_session(p_session, true), p_payment, p_address) $$;

CREATE FUNCTION reverse_payment_by_operator(p_session bytea, p_reversal uuid, p_payment uuid, p_amount bigint, p_asked_minor bigint,
  p_is_dispute boolean, p_reason text, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT reverse_payment_as(operator_of_session(p_session, true), p_reversal, p_payment, p_amount, p_asked_minor, p_is_dispute, p_reason, p_address)
$$;

CREATE FUNCTION return_reversal_by_operator(p_session bytea, p_reversal uuid, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT return_reversal_as(operator_of_session(p_session, true), p_reversal, p_address) $$;

CREATE FUNCTION make_voucher_by_operator(p_session bytea, p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text,
  p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT make_voucher_as(operator_of_session(p_session, true), p_voucher, p_code_hash, p_hint, p_amount, p_note, p_expires_at, p_address)
$$;

CREATE FUNCTION revoke_voucher_by_operator(p_session bytea, p_voucher uuid, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT revoke_voucher_as(operator_of_session(p_session, false), p_voucher, p_address) $$;

CREATE FUNCTION prepare_payouts_by_operator(p_session bytea, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_held_from date, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE sql AS $$
  SELECT * FROM prepare_payouts(operator_of_session(p_session, true), p_batch, p_driver, p_is_live, p_minimum, p_held_from, p_address)
$$;

CREATE FUNCTION approve_payouts_by_operator(p_session bytea, p_batch uuid, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT approve_payouts(operator_of_session(p_session, true), p_batch, p_address) $$;

CREATE FUNCTION cancel_payouts_by_operator(p_session bytea, p_batch uuid, p_address text) RETURNS integer
LANGUAGE sql AS $$ SELECT cancel_payouts(operator_of_session(p_session, true), p_batch, p_address) $$;

CREATE FUNCTION settle_bank_payout_by_operator(p_session bytea, p_payout uuid, p_is_paid boolean, p_failure text, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT settle_bank_payout(operator_of_session(p_session, true), p_payout, p_is_paid, p_failure, p_address) $$;

CREATE FUNCTION freeze_payouts_by_operator(p_session bytea, p_hoster uuid, p_is_frozen boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT freeze_payouts(operator_of_session(p_session, true), p_hoster, p_is_frozen, p_reason, p_address) $$;

CREATE FUNCTION claw_back_by_operator(p_session bytea, p_clawback uuid, p_hoster uuid, p_amount bigint, p_reversal uuid, p_reason text, p_address text)
RETURNS text
LANGUAGE sql AS $$ SELECT claw_back(operator_of_session(p_session, true), p_clawback, p_hoster, p_amount, p_reversal, p_reason, p_address) $$;

CREATE FUNCTION return_clawback_by_operator(p_session bytea, p_clawback uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT return_clawback(operator_of_session(p_session, true), p_clawback, p_reason, p_address) $$;

-- ---------------------------------------------------------------- what the desk need not do
-- The provider refused a refund that was asked for: gives its credit back. A refund that was paid stays paid.
CREATE FUNCTION refuse_refund(p_reversal uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_payment((SELECT payment_id FROM payment_reversal WHERE reversal_id = p_reversal));
  RETURN EXISTS (SELECT FROM payment_reversal WHERE reversal_id = p_reversal AND state = 'asked') AND return_reversal(p_reversal);
END $$;

-- As in 0015, with a limit for the credit.
CREATE OR REPLACE FUNCTION open_account_by_sign_up(p_customer uuid, p_mailbox bytea, p_network text, p_at timestamptz, p_credit bigint,
  p_per_network int, p_per_day int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_today bigint;
  v_from_network bigint;
BEGIN
  PERFORM check_signup_credit(p_credit);
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

-- ---------------------------------------------------------------- rights
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION desk_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', ARRAY(SELECT name FROM unnest(desk_functions()) AS name
      WHERE name NOT IN ('request_grant', 'decide_grant', 'confirm_payment', 'return_reversal'))
      || ARRAY['request_grant_by_operator', 'decide_grant_by_operator', 'confirm_payment_by_operator', 'refuse_refund']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['trial']::name[]));
END $$;
