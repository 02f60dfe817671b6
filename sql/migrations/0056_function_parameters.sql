-- These functions have other parameters now, or another name: try_lock_requests and try_lock_balances.
DROP FUNCTION IF EXISTS lock_free_requests(settlement_asked[]);
DROP FUNCTION IF EXISTS lock_free_balances(uuid[]);
DROP FUNCTION IF EXISTS money_refusal(account_windows, bigint, bigint, bigint);
DROP FUNCTION IF EXISTS post_processor_fee(uuid, bigint, bigint);
DROP FUNCTION IF EXISTS accept_payment_difference(text, text);
