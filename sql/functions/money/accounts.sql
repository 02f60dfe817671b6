-- Opens the account of a customer with its one signup credit, paid by the platform's promotion account. Returns whether the
-- credit was granted now. Locks the balance.
CREATE OR REPLACE FUNCTION open_account(p_customer uuid, p_credit bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO balance (customer_id) VALUES (p_customer) ON CONFLICT DO NOTHING;
  IF p_credit = 0 THEN
    RETURN false;
  END IF;
  PERFORM 1 FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('signup_credit', p_customer::text, 'signup credit')
    ON CONFLICT (kind, ref) DO NOTHING RETURNING tx_id INTO v_tx;
  IF v_tx IS NULL THEN
    RETURN false;
  END IF;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', p_customer, p_credit),
    (v_tx, 'platform_promo', platform_account(), -p_credit);
  UPDATE balance SET posted_nanos = posted_nanos + p_credit WHERE customer_id = p_customer;
  RETURN true;
END $$;

-- Adds paid credit once per `p_ref`. `applied` is false when that ref was granted before. `mismatch` is true when it was granted
-- to another customer or with another amount. Returns no row when the customer has no account. Locks the balance.
-- `p_is_promotion`: nobody paid for it. Another mark under the same ref is a mismatch, as another amount is.
CREATE OR REPLACE FUNCTION grant_credit(p_customer uuid, p_amount bigint, p_ref text, p_reason text, p_is_promotion boolean DEFAULT false)
RETURNS TABLE (applied boolean, mismatch boolean, posted bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_source text := credit_source(p_is_promotion);
  v_tx bigint;
BEGIN
  PERFORM 1 FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('credit', p_ref, p_reason)
    ON CONFLICT (kind, ref) DO NOTHING RETURNING tx_id INTO v_tx;
  applied := v_tx IS NOT NULL;
  mismatch := false;
  IF applied THEN
    INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
      (v_tx, 'customer', p_customer, p_amount),
      (v_tx, v_source, platform_account(), -p_amount);
    UPDATE balance SET posted_nanos = posted_nanos + p_amount WHERE customer_id = p_customer;
  ELSE
    mismatch := NOT EXISTS (
      SELECT FROM ledger_tx t JOIN ledger_entry e USING (tx_id) JOIN ledger_entry s USING (tx_id)
      WHERE t.kind = 'credit' AND t.ref = p_ref
        AND e.account_kind = 'customer' AND e.account_id = p_customer AND e.amount_nanos = p_amount AND s.account_kind = v_source);
  END IF;
  SELECT b.posted_nanos INTO posted FROM balance b WHERE b.customer_id = p_customer;
  RETURN NEXT;
END $$;

-- The account that credit comes from.
CREATE OR REPLACE FUNCTION credit_source(p_is_promotion boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_is_promotion THEN 'platform_promo' ELSE 'cash' END $$;

-- Pays the debt with whatever becomes free: new credit, and the rest of leases that close. A trigger, so that no function that
-- frees money can forget it. An update of a balance holds its lock.
CREATE OR REPLACE FUNCTION pay_debt() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  v_paid bigint := least(NEW.debt_nanos, NEW.posted_nanos - NEW.leased_nanos);
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('debt_payment', gen_random_uuid()::text, 'debt paid') RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', NEW.customer_id, -v_paid), (v_tx, 'customer_debt', NEW.customer_id, v_paid);
  INSERT INTO credit_taken (customer_id, tx_id, amount_nanos) VALUES (NEW.customer_id, v_tx, v_paid);
  NEW.posted_nanos := NEW.posted_nanos - v_paid;
  NEW.debt_nanos := NEW.debt_nanos - v_paid;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER pay_debt BEFORE UPDATE ON balance FOR EACH ROW
  WHEN (NEW.debt_nanos > 0 AND NEW.posted_nanos > NEW.leased_nanos) EXECUTE FUNCTION pay_debt();

-- Books the balances of all accounts of other books as one transaction, once per `p_ref`, and opens the accounts of its
-- customers. Returns whether it was booked now. Locks no row: it adds the balances of customers who have none, and fails for
-- others. Raises raise_exception when the amounts do not sum to zero, and unique_violation when a customer has a balance.
CREATE OR REPLACE FUNCTION book_opening_balances(p_ref text, p_reason text, p_kinds text[], p_accounts uuid[], p_amounts bigint[]) RETURNS boolean
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
