-- Functions that have other names now: set_payout_freeze, set_payout_freeze_by_operator, charge_spend_limits, other_parts_surcharge_picos.
DROP FUNCTION IF EXISTS freeze_payouts_by_operator(bytea, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS freeze_payouts(uuid, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS charge_key_limits(lease[], settled_request[]);
DROP FUNCTION IF EXISTS other_parts_picos(json, bigint, bigint);

-- The budget of a key or of a member.
ALTER TYPE key_budget RENAME TO spend_budget;
ALTER TYPE spend_budget RENAME ATTRIBUTE key TO spender;
