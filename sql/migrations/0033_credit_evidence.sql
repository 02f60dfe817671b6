-- Evidence that a process of the gateway gave a credit: an HMAC with a key that is not in this database, over what the provider,
-- the operator or the voucher was good for. See src/money/ledger/credit-evidence.ts. The audit names credit without it, whichever role
-- wrote the credit.

CREATE TABLE credit_evidence (
  tx_id         bigint PRIMARY KEY REFERENCES ledger_tx,
  mac           bytea NOT NULL CHECK (length(mac) = 32)
);

-- A voucher becomes credit later, so the evidence begins when it is made. NULL: made before there was any.
ALTER TABLE voucher ADD COLUMN mac bytea CHECK (length(mac) = 32);

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

-- ---------------------------------------------------------------- with the functions of this version
SELECT start_credit_evidence();
