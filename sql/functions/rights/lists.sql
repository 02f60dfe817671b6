-- Which role may do what. `grant_gateway_rights` reads these lists; docs/security.md explains the roles.

-- Tables that only functions write: the gateway role and the desk read them.
CREATE OR REPLACE FUNCTION money_tables() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['balance', 'day_spend', 'key_spend', 'lease', 'ledger_tx', 'ledger_entry', 'refund', 'trial', 'audit_entry', 'role_change',
    'usage_event', 'usage_hour', 'usage_day', 'usage_key_day', 'usage_label_day', 'endpoint_day', 'usage_archive', 'usage_frozen', 'usage_closing',
    'member_spend', 'grant_request', 'signup_credit', 'credit_taken', 'credit_evidence', 'credit_evidence_start',
    'payment', 'payment_event', 'payment_reversal', 'payment_difference', 'voucher',
    'hoster_day', 'hoster_day_change', 'hoster_movement', 'hoster_account', 'payout_identity', 'payout_change', 'payout_batch', 'payout',
    'payout_event', 'clawback', 'promotion_progress', 'promotion_share', 'promotion_day', 'promotion_review',
    'promotion_used_up', 'operator_key', 'group_role', 'group_role_rule', 'cell_move', 'cell_parcel']::name[]
$$;

-- What both roles do with the rights of the owner. Neither role calls open_account, grant_credit or refund_request itself:
-- desk_functions has functions that call them within limits, and for an operator write the audit log.
CREATE OR REPLACE FUNCTION money_functions() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['admit_batch', 'hand_back_leases', 'note_lease_use', 'settle_batch', 'release_leases', 'reclaim_leases',
    'add_usage_partition', 'add_content_days', 'drop_content_days', 'add_audit_entry', 'fold_hoster_days', 'forget_audit_addresses']::name[]
$$;

-- What only the desk does with the rights of the owner. The functions that end in `_by_operator` take the proof of an operator: a
-- session or, about money, a key.
CREATE OR REPLACE FUNCTION desk_functions() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['open_account_by_sign_up', 'open_account_by_operator', 'fill_house_account', 'add_credit_evidence', 'add_voucher_evidence',
    'refund_by_operator', 'request_grant_by_operator', 'decide_grant_by_operator', 'request_role_by_operator', 'decide_role_by_operator',
    'start_payment', 'note_payment_started', 'close_payment', 'book_payment_report', 'note_payment_event', 'finish_payment_event',
    'confirm_payment_by_operator', 'reverse_payment_by_operator', 'return_reversal_by_operator', 'refuse_refund', 'adopt_charge',
    'note_payment_charge', 'note_payment_difference', 'end_payment_difference', 'make_voucher_by_operator', 'revoke_voucher_by_operator',
    'redeem_voucher', 'pause_auto_top_up', 'start_auto_top_up',
    'begin_payout', 'note_payout_sent', 'book_payout_report', 'note_payout_event', 'finish_payout_event', 'set_payout_account',
    'set_hoster_customer', 'note_payout_account', 'stop_payout_changes', 'apply_payout_changes', 'note_payout_change_mailed',
    'move_earnings', 'prepare_payouts_by_operator', 'approve_payouts_by_operator', 'cancel_payouts_by_operator',
    'settle_bank_payout_by_operator', 'set_payout_freeze_by_operator', 'claw_back_by_operator', 'return_clawback_by_operator',
    'close_promotion_days', 'decide_promotion_review_by_operator',
    'take_group_role', 'end_group_roles', 'count_key_window', 'use_operator_key', 'issue_operator_key_by_operator', 'revoke_operator_key_by_operator']::name[]
$$;

-- Tables of people and their access, of what they may spend, of the cards that are charged, of the servers that get prompts, and
-- of the settings. The gateway role only reads them.
CREATE OR REPLACE FUNCTION desk_tables() RETURNS name[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY['person', 'person_session', 'person_token', 'person_recovery_code', 'person_passkey', 'person_identity', 'person_network',
    'person_device', 'sign_in_throttle', 'customer', 'membership', 'member_limit', 'api_key', 'house_customer', 'hoster_member',
    'hoster_key', 'payment_account', 'payment_method', 'auto_top_up', 'provider', 'provider_version', 'settings_version',
    'operator_answer', 'price_group', 'price_group_version', 'tier_price_group', 'cell_key']::name[]
$$;

-- Columns that are as good as the secret behind them for SQL, or that can be guessed from. The gateway role cannot read them. Of
-- a money table, the desk cannot either: its functions find a voucher by the hash of the code. The hashes of API keys are not
-- here: the gateway role looks keys up by them, no function takes one, and nobody guesses 190 random bits.
CREATE OR REPLACE FUNCTION secret_columns() RETURNS TABLE (table_name name, column_name name)
LANGUAGE sql IMMUTABLE AS $$
  VALUES ('voucher'::name, 'code_hash'::name), ('signup_credit', 'mailbox_hash'), ('person', 'password_hash'), ('person', 'totp_secret'),
    ('person', 'totp_pending'), ('person_session', 'token_hash'), ('person_session', 'previous_token_hash'),
    ('operator_key', 'key_hash'), ('person_token', 'token_hash'), ('person_token', 'detail'), ('person_recovery_code', 'code_hash'), ('cell_parcel', 'parcel')
$$;
