-- What customers were given by payments, vouchers and grants, with the facts that evidence covers.
CREATE OR REPLACE VIEW given_credit AS
  SELECT t.tx_id, t.kind, t.ref, e.amount_nanos, ARRAY[t.kind, t.ref, e.account_id::text, e.amount_nanos::text, p.payment_id::text, p.driver,
    p.provider_ref, p.amount_minor::text, p.currency, p.is_live::text] AS facts
  FROM ledger_tx t JOIN ledger_entry e ON e.tx_id = t.tx_id AND e.account_kind = 'customer' LEFT JOIN payment p ON p.tx_id = t.tx_id
  -- The first condition is that of the index ledger_tx_given.
  WHERE t.kind <> 'settle' AND t.kind IN ('credit', 'payment', 'voucher');

-- Lets evidence begin now: older credits and vouchers need none. Called once by the migration that added evidence, and by the
-- owner after the master key was replaced. Stop all nodes first: a credit in flight can have a lower tx_id than the newest one,
-- and would be older than the beginning, but not in the counts, so the audit would report it.
CREATE OR REPLACE FUNCTION start_credit_evidence() RETURNS void
LANGUAGE sql AS $$
  DELETE FROM credit_evidence_start;
  INSERT INTO credit_evidence_start (tx_id, credits, credit_nanos, at, vouchers, voucher_nanos)
    SELECT (SELECT coalesce(max(tx_id), 0) FROM ledger_tx), g.credits, g.nanos, now(), v.vouchers, v.nanos
    FROM (SELECT count(*) AS credits, coalesce(sum(amount_nanos), 0) AS nanos FROM given_credit) g,
      (SELECT count(*) AS vouchers, coalesce(sum(amount_nanos), 0) AS nanos FROM voucher) v
$$;

-- Stores the evidence of a credit, by the kind and ref of its transaction. A second call changes nothing.
CREATE OR REPLACE FUNCTION add_credit_evidence(p_kind text, p_ref text, p_mac bytea) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO credit_evidence (tx_id, mac) SELECT tx_id, p_mac FROM ledger_tx WHERE kind = p_kind AND ref = p_ref ON CONFLICT DO NOTHING
$$;

-- Stores the evidence of a voucher. A second call changes nothing.
CREATE OR REPLACE FUNCTION add_voucher_evidence(p_voucher uuid, p_mac bytea) RETURNS void
LANGUAGE sql AS $$
  UPDATE voucher SET mac = p_mac WHERE voucher_id = p_voucher AND mac IS NULL
$$;
