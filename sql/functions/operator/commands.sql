-- The commands of operators about money. All of these take the proof of an operator, a session or a key, and pass its person to
-- the function with the same name without `_by_operator`, or with `_as` in its place, which says what happens, what is returned
-- and what is locked. Reading the proof locks nothing. All of these raise SY004 when the proof is none of an operator, see
-- operator_of_proof, or is a key without the scope. All but open_account_by_operator
-- and revoke_voucher_by_operator need a confirmed session; a key with the scope needs no confirmation. `p_session` is the hash of
-- either. open_account_by_operator raises check_violation as well, see check_signup_credit.

CREATE OR REPLACE FUNCTION open_account_by_operator(p_session bytea, p_customer uuid, p_credit bigint, p_address text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT check_signup_credit(p_credit);
  SELECT open_account_as(operator_of_proof(p_session, false, CASE WHEN p_credit > 0 THEN 'money' ELSE 'customers' END), p_customer, p_credit, p_address)
$$;

CREATE OR REPLACE FUNCTION refund_by_operator(p_session bytea, p_customer uuid, p_request uuid, p_amount bigint, p_reason text, p_address text)
RETURNS TABLE (verdict text, charged bigint, amount bigint, hoster_share bigint, fee bigint, reason text, at timestamptz)
LANGUAGE sql AS $$ SELECT * FROM refund_as(operator_of_proof(p_session, true, 'money'), p_customer, p_request, p_amount, p_reason, p_address) $$;

CREATE OR REPLACE FUNCTION reverse_payment_by_operator(p_session bytea, p_reversal uuid, p_payment uuid, p_amount bigint, p_asked_minor bigint,
  p_is_dispute boolean, p_reason text, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT reverse_payment_as(operator_of_proof(p_session, true, 'money'), p_reversal, p_payment, p_amount, p_asked_minor, p_is_dispute, p_reason, p_address)
$$;

CREATE OR REPLACE FUNCTION return_reversal_by_operator(p_session bytea, p_reversal uuid, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT return_reversal_as(operator_of_proof(p_session, true, 'money'), p_reversal, p_address) $$;

CREATE OR REPLACE FUNCTION make_voucher_by_operator(p_session bytea, p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text,
  p_is_promotion boolean, p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT make_voucher_as(operator_of_proof(p_session, true, 'money'), p_voucher, p_code_hash, p_hint, p_amount, p_note, p_is_promotion, p_expires_at, p_address)
$$;

CREATE OR REPLACE FUNCTION revoke_voucher_by_operator(p_session bytea, p_voucher uuid, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT revoke_voucher_as(operator_of_proof(p_session, false, 'money'), p_voucher, p_address) $$;

CREATE OR REPLACE FUNCTION request_grant_by_operator(p_session bytea, p_grant uuid, p_customer uuid, p_amount bigint, p_ref text, p_reason text,
  p_is_promotion boolean, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT request_grant(operator_of_proof(p_session, true, 'money'), p_grant, p_customer, p_amount, p_ref, p_reason, p_is_promotion, p_address)
$$;

CREATE OR REPLACE FUNCTION decide_grant_by_operator(p_session bytea, p_grant uuid, p_is_approved boolean, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT decide_grant(operator_of_proof(p_session, true, 'money'), p_grant, p_is_approved, p_address) $$;

CREATE OR REPLACE FUNCTION confirm_payment_by_operator(p_session bytea, p_payment uuid, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT confirm_payment(operator_of_proof(p_session, true, 'money'), p_payment, p_address) $$;

CREATE OR REPLACE FUNCTION prepare_payouts_by_operator(p_session bytea, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_now timestamptz,
  p_rules payout_rules, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE sql AS $$
  SELECT * FROM prepare_payouts(operator_of_proof(p_session, true, 'money'), p_batch, p_driver, p_is_live, p_minimum, p_now, p_rules, p_address)
$$;

CREATE OR REPLACE FUNCTION approve_payouts_by_operator(p_session bytea, p_batch uuid, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT approve_payouts(operator_of_proof(p_session, true, 'money'), p_batch, p_address) $$;

CREATE OR REPLACE FUNCTION cancel_payouts_by_operator(p_session bytea, p_batch uuid, p_address text) RETURNS integer
LANGUAGE sql AS $$ SELECT cancel_payouts(operator_of_proof(p_session, true, 'money'), p_batch, p_address) $$;

CREATE OR REPLACE FUNCTION settle_bank_payout_by_operator(p_session bytea, p_payout uuid, p_is_paid boolean, p_failure text, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT settle_bank_payout(operator_of_proof(p_session, true, 'money'), p_payout, p_is_paid, p_failure, p_address) $$;

CREATE OR REPLACE FUNCTION set_payout_freeze_by_operator(p_session bytea, p_hoster uuid, p_is_frozen boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT set_payout_freeze(operator_of_proof(p_session, true, 'money'), p_hoster, p_is_frozen, p_reason, p_address) $$;

CREATE OR REPLACE FUNCTION claw_back_by_operator(p_session bytea, p_clawback uuid, p_hoster uuid, p_amount bigint, p_reversal uuid, p_reason text, p_address text)
RETURNS text
LANGUAGE sql AS $$ SELECT claw_back(operator_of_proof(p_session, true, 'money'), p_clawback, p_hoster, p_amount, p_reversal, p_reason, p_address) $$;

CREATE OR REPLACE FUNCTION return_clawback_by_operator(p_session bytea, p_clawback uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT return_clawback(operator_of_proof(p_session, true, 'money'), p_clawback, p_reason, p_address) $$;

CREATE OR REPLACE FUNCTION decide_promotion_review_by_operator(p_session bytea, p_review uuid, p_is_released boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT decide_promotion_review(operator_of_proof(p_session, true, 'money'), p_review, p_is_released, p_reason, p_address) $$;
