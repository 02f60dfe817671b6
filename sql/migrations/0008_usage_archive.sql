-- Archives of usage rows: see docs/money.md#archived-months. A month leaves the database in two steps, each one
-- transaction. `freeze_usage_month` moves its partition to `usage_frozen`, where no settlement writes. The rows are then
-- written to a file. `finish_usage_archive` replaces them by sums and drops the partition.

-- One row per month that is frozen or archived.
CREATE TABLE usage_archive (
  -- The first day of the UTC month.
  month         date PRIMARY KEY CHECK (extract(day FROM month) = 1),
  -- The request ids of the month: from_id <= request_id < to_id.
  from_id       uuid NOT NULL,
  to_id         uuid NOT NULL,
  frozen_at     timestamptz NOT NULL DEFAULT now(),
  -- The columns below are NULL while the month is frozen.
  archived_at   timestamptz,
  -- The rows in the file, and how many of them also stay in usage_event, because they were refunded.
  requests      bigint,
  kept_requests bigint,
  cost_nanos    bigint,
  file_name     text,
  file_sha256   text,
  CHECK (num_nulls(archived_at, requests, kept_requests, cost_nanos, file_name, file_sha256) IN (0, 6))
);

-- The rows of months that are being archived. It has no default partition.
CREATE TABLE usage_frozen (LIKE usage_event) PARTITION BY RANGE (request_id);

-- The sums that stand for archived usage rows, as fine as the checks of the audit need. Append only.
CREATE TABLE usage_closing (
  month         date NOT NULL,
  customer_id   uuid NOT NULL,
  -- The UTC day the requests began.
  day           date NOT NULL,
  key_id        uuid,
  model_id      text NOT NULL,
  provider      text NOT NULL,
  hoster_id     uuid,
  -- As in usage_event.
  cap_day       date,
  key_window    date,
  -- tx_id >> 16 of the charges: with single transactions, the sums would be as many as the ledger's entries. NULL for
  -- requests that cost nothing.
  tx_block      bigint,
  requests      bigint NOT NULL,
  successes     bigint NOT NULL,
  local_requests  bigint NOT NULL,
  hoster_requests bigint NOT NULL,
  cloud_requests  bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos     bigint NOT NULL,
  -- Over successful requests only.
  latency_ms_sum bigint NOT NULL
);
CREATE INDEX usage_closing_customer ON usage_closing (customer_id, day);
CREATE INDEX usage_closing_block ON usage_closing (tx_block);
