-- Operators prove a session: see sql/functions/operator/operators.sql.

-- A row here names no transaction, which is checked at the commit: so the transaction that wrote it can only be rolled back.
CREATE TABLE trial (
  tx_id         bigint NOT NULL REFERENCES ledger_tx DEFERRABLE INITIALLY DEFERRED
);
