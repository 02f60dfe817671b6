-- What the accounts of another installation held, brought over by `switchyard import`. NOT VALID: the old rows satisfied a stricter
-- check, and reading them all would take minutes.
ALTER TABLE ledger_tx DROP CONSTRAINT ledger_tx_kind_check;
ALTER TABLE ledger_tx ADD CONSTRAINT ledger_tx_kind_check CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund',
  'payment', 'voucher', 'reversal', 'reversal_returned', 'debt_payment', 'processor_fee',
  'payout', 'payout_paid', 'payout_returned', 'earnings_moved', 'clawback', 'clawback_returned', 'opening_balance')) NOT VALID;

-- Books the balances of all accounts of other books as one transaction, once per `p_ref`, and opens the accounts of its customers.
-- Returns whether it was booked now. Locks no row: it adds the balances of customers who have none, and fails for others.
CREATE FUNCTION book_opening_balances(p_ref text, p_reason text, p_kinds text[], p_accounts uuid[], p_amounts bigint[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  IF (SELECT sum(amount) FROM unnest(p_amounts) amount) <> 0 THEN
    RAISE EXCEPTION 'the opening balances of % do not sum to zero', p_ref;
  END IF;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('opening_balance', p_ref, p_reason)
    ON CONFLICT (kind, ref) DO NOTHING RETURNING tx_id INTO v_tx;
  IF v_tx IS NULL THEN
    RETURN false;
  END IF;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT v_tx, kind, account, amount FROM unnest(p_kinds, p_accounts, p_amounts) AS a(kind, account, amount) WHERE amount <> 0;
  INSERT INTO balance (customer_id, posted_nanos)
    SELECT account, amount FROM unnest(p_kinds, p_accounts, p_amounts) AS a(kind, account, amount) WHERE kind = 'customer';
  INSERT INTO hoster_movement (hoster_id, tx_id, amount_nanos)
    SELECT account, v_tx, amount FROM unnest(p_kinds, p_accounts, p_amounts) AS a(kind, account, amount)
    WHERE kind = 'hoster_payable' AND amount <> 0;
  RETURN true;
END $$;
