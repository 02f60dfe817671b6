-- Functions, views and triggers are files of sql/functions now. What earlier versions had with other parameters, or do not have any
-- more, goes; CREATE OR REPLACE would leave it next to the present one.
DROP FUNCTION IF EXISTS
  admit_batch(uuid, timestamptz, uuid[], uuid[], uuid[], text[], integer[], integer[], bigint[], bigint[], text[], bigint[], bigint[], integer[], double precision[], boolean),
  admit_batch(uuid, timestamptz, uuid[], uuid[], uuid[], text[], integer[], integer[], bigint[], bigint[], text[], bigint[], bigint[], integer[], double precision[], boolean, uuid[], bigint[], text[]),
  approve_payouts_by_operator(uuid, uuid, text),
  cancel_payouts_by_operator(uuid, uuid, text),
  claw_back_by_operator(uuid, uuid, uuid, bigint, uuid, text, text),
  decide_bulk(account_windows, bigint, bigint, integer, integer, integer, bigint, bigint, integer),
  decide_strict(account_windows, bigint, bigint, integer, integer, bigint, bigint, double precision, bigint, bigint, bigint, bigint),
  freeze_payouts_by_operator(uuid, uuid, boolean, text, text),
  grant_credit(uuid, bigint, text, text),
  grant_detail(bigint, text, text),
  grant_gateway_rights(name),
  hoster_funds(uuid[], date),
  make_voucher(uuid, bytea, text, bigint, text, uuid, timestamptz),
  make_voucher_as(uuid, uuid, bytea, text, bigint, text, timestamptz, text),
  make_voucher_by_operator(bytea, uuid, bytea, text, bigint, text, timestamptz, text),
  make_voucher_by_operator(uuid, uuid, bytea, text, bigint, text, timestamptz, text),
  move_earnings(uuid, uuid, bigint, uuid, text),
  open_account_by_operator(uuid, uuid, bigint, text),
  open_account_by_sign_up(uuid, bytea, text, timestamptz, bigint, integer, integer),
  post_cash(text, text, uuid, bigint, text),
  prepare_payouts(uuid, uuid, text, boolean, bigint, date, text),
  prepare_payouts_by_operator(bytea, uuid, text, boolean, bigint, date, text),
  prepare_payouts_by_operator(uuid, uuid, text, boolean, bigint, date, text),
  refund_by_operator(uuid, uuid, uuid, bigint, text, text),
  request_grant(uuid, uuid, uuid, bigint, text, text, text),
  request_grant_by_operator(bytea, uuid, uuid, bigint, text, text, text),
  require_operator(uuid),
  return_clawback_by_operator(uuid, uuid, text, text),
  return_reversal_by_operator(uuid, uuid, text),
  reverse_payment_by_operator(uuid, uuid, uuid, bigint, bigint, boolean, text, text),
  revoke_voucher_by_operator(uuid, uuid, text),
  set_hoster_customer(uuid, uuid, uuid, text),
  set_payout_account(uuid, text, text, text, text[], boolean, text, uuid, text),
  settle_bank_payout_by_operator(uuid, uuid, boolean, text, text),
  sum_presumed(uuid, uuid, text, timestamptz, bigint);

-- ---------------------------------------------------------------- admission
-- One item of a batch for admit_batch. The last three are those of its lease, if it exists already.
CREATE TYPE admission_asked AS (
  item integer, customer uuid, lease uuid, key uuid, minute_limit integer, day_limit integer, cap bigint, key_limit bigint, key_reset text,
  want bigint, floor bigint, slots integer, counted_until_ms double precision, member uuid, member_limit bigint, member_reset text,
  granted bigint, granted_slots integer, granted_minute timestamptz);

-- What admit_batch returns for an item: src/money/ledger/postgres-store.ts reads it.
CREATE TYPE admission_answer AS (
  item integer, verdict text, held bigint, slots integer, posted bigint, free bigint, cap_left bigint,
  key_spent bigint, key_left bigint, key_ends_ms double precision,
  member_spent bigint, member_left bigint, member_ends_ms double precision, held_elsewhere boolean, nodes integer,
  minute_used integer, day_used integer, minute_made integer, day_made integer, own_leases uuid[],
  minute_ends_ms double precision, day_ends_ms double precision, now_ms double precision);

-- The slots of a customer's open bulk leases that no request has used, in the minute and the day of its windows, and the leases of this node.
CREATE TYPE unused_slots AS (minute integer, day integer, own_leases uuid[]);

-- What admit_batch knows between two items: the windows of the customer, the windows of limits that the batch has met, and the answer and
-- the lease of the last item.
CREATE TYPE admission_state AS (
  windows account_windows, unused unused_slots, key_budgets key_budget[], member_budgets key_budget[], answer admission_answer, lease granted_lease);
