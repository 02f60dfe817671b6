-- The functions that freeze and release payouts are called set_payout_freeze and set_payout_freeze_by_operator.
DROP FUNCTION IF EXISTS freeze_payouts_by_operator(bytea, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS freeze_payouts(uuid, uuid, boolean, text, text);
