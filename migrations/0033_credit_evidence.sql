-- Evidence that a process of the gateway gave a credit: an HMAC with a key that is not in this database, over what the provider,
-- the operator or the voucher was good for. See src/ledger/credit-evidence.ts. The audit names credit without it, whichever role
-- wrote the credit.

CREATE TABLE credit_evidence (
  tx_id         bigint PRIMARY KEY REFERENCES ledger_tx,
  mac           bytea NOT NULL CHECK (length(mac) = 32)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_evidence FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

-- A voucher becomes credit later, so the evidence begins when it is made. NULL: made before there was any.
ALTER TABLE voucher ADD COLUMN mac bytea CHECK (length(mac) = 32);

-- What customers were given by payments, vouchers and grants, with the facts that evidence covers.
CREATE VIEW given_credit AS
  SELECT t.tx_id, t.kind, t.ref, e.amount_nanos, ARRAY[t.kind, t.ref, e.account_id::text, e.amount_nanos::text, p.payment_id::text, p.driver,
    p.provider_ref, p.amount_minor::text, p.currency, p.is_live::text] AS facts
  FROM ledger_tx t JOIN ledger_entry e ON e.tx_id = t.tx_id AND e.account_kind = 'customer' LEFT JOIN payment p ON p.tx_id = t.tx_id
  -- The first condition is that of an index.
  WHERE t.kind <> 'settle' AND t.kind IN ('credit', 'payment', 'voucher');

-- Where evidence begins: the last transaction and the time before it, with the number and the sum of older credits and vouchers. One
-- that is dated back changes these. One row.
CREATE TABLE credit_evidence_start (
  tx_id         bigint NOT NULL,
  credits       bigint NOT NULL,
  credit_nanos  numeric NOT NULL,
  at            timestamptz NOT NULL,
  vouchers      bigint NOT NULL,
  voucher_nanos numeric NOT NULL
);

-- Lets evidence begin now: older credits and vouchers need none. For this migration, and for the owner after the master key was
-- replaced.
CREATE FUNCTION start_credit_evidence() RETURNS void
LANGUAGE sql AS $$
  DELETE FROM credit_evidence_start;
  INSERT INTO credit_evidence_start
    SELECT (SELECT coalesce(max(tx_id), 0) FROM ledger_tx), g.credits, g.nanos, now(), v.vouchers, v.nanos
    FROM (SELECT count(*) AS credits, coalesce(sum(amount_nanos), 0) AS nanos FROM given_credit) g,
      (SELECT count(*) AS vouchers, coalesce(sum(amount_nanos), 0) AS nanos FROM voucher) v
$$;
SELECT start_credit_evidence();

-- Stores the evidence of a credit, or of a voucher. A second call changes nothing.
CREATE FUNCTION add_credit_evidence(p_kind text, p_ref text, p_mac bytea) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO credit_evidence (tx_id, mac) SELECT tx_id, p_mac FROM ledger_tx WHERE kind = p_kind AND ref = p_ref ON CONFLICT DO NOTHING
$$;
CREATE FUNCTION add_voucher_evidence(p_voucher uuid, p_mac bytea) RETURNS void
LANGUAGE sql AS $$
  UPDATE voucher SET mac = p_mac WHERE voucher_id = p_voucher AND mac IS NULL
$$;

-- ---------------------------------------------------------------- rights
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION desk_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', desk_functions() || ARRAY['add_credit_evidence', 'add_voucher_evidence']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['credit_evidence', 'credit_evidence_start']::name[]));
END $$;
