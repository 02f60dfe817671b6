-- Opens the account of a house customer and fills it up to `p_up_to` from the promotion account, once a UTC day at most and
-- within the daily maximum of all. Returns the nanos that were given. Locks all fills against each other, then the balance.
CREATE OR REPLACE FUNCTION fill_house_account(p_customer uuid, p_up_to bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_day text := (now() AT TIME ZONE 'UTC')::date::text;
  v_given bigint;
  v_amount bigint;
  v_tx bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM house_customer WHERE customer_id = p_customer) THEN
    RETURN 0;
  END IF;
  -- Each fill sees what those before it gave.
  PERFORM pg_advisory_xact_lock(x'73796863'::int);  -- "syhc" in ASCII; any number that no other lock uses
  PERFORM open_account(p_customer, 0);
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  SELECT coalesce(sum(e.amount_nanos), 0) INTO v_given FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
   WHERE t.kind = 'credit' AND t.ref LIKE 'house:' || v_day || ':%' AND e.account_kind = 'customer';
  SELECT least(p_up_to - posted_nanos, house_credit_max_nanos() - v_given) INTO v_amount FROM balance WHERE customer_id = p_customer;
  IF v_amount <= 0 THEN
    RETURN 0;
  END IF;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('credit', 'house:' || v_day || ':' || p_customer, 'audits of hosters')
    ON CONFLICT (kind, ref) DO NOTHING RETURNING tx_id INTO v_tx;
  IF v_tx IS NULL THEN
    RETURN 0;
  END IF;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', p_customer, v_amount),
    (v_tx, 'platform_promo', platform_account(), -v_amount);
  UPDATE balance SET posted_nanos = posted_nanos + v_amount WHERE customer_id = p_customer;
  RETURN v_amount;
END $$;

-- The most that all house accounts get on one UTC day: 20 USD. The gateway role can give them no more, and nobody else anything.
CREATE OR REPLACE FUNCTION house_credit_max_nanos() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 20000000000::bigint $$;
