-- Refunds of single requests. sql/functions/money/refund_request.sql makes them.

-- One row per refunded request, in addition to its ledger transaction. Append only: a request is refunded once.
CREATE TABLE refund (
  customer_id   uuid NOT NULL,
  -- Always a usage row. There is no foreign key, since rows of usage_event move when their partition is
  -- added. The audit checks it.
  request_id    uuid NOT NULL,
  -- Copied from the usage row, so that a report over a period reads only this small table.
  started_at    timestamptz NOT NULL,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  -- What the hoster and the platform give back.
  hoster_share_nanos bigint NOT NULL CHECK (hoster_share_nanos >= 0),
  fee_nanos     bigint NOT NULL CHECK (fee_nanos >= 0),
  reason        text NOT NULL,
  at            timestamptz NOT NULL,
  tx_id         bigint NOT NULL UNIQUE REFERENCES ledger_tx,
  PRIMARY KEY (customer_id, request_id),
  CHECK (amount_nanos = hoster_share_nanos + fee_nanos)
);

-- What customers were given: signup credit, credit and refunds. Charges are a thousand times as many and are
-- not in the index, so settlements do not write to it, and a reader of credits skips no charges.
CREATE INDEX ledger_entry_given ON ledger_entry (account_id, tx_id) WHERE account_kind = 'customer' AND amount_nanos > 0;
