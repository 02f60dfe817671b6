-- Functions that have other names now: set_payout_freeze, set_payout_freeze_by_operator, charge_spend_limits.
DROP FUNCTION IF EXISTS freeze_payouts_by_operator(bytea, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS freeze_payouts(uuid, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS charge_key_limits(lease[], settled_request[]);
