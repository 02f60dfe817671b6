-- The rows that the functions of sql/functions/money/ take, return and pass to each other.

-- ---------------------------------------------------------------- admission: windows

-- A customer's balance while a batch decides its items: the windows are the current ones, and the earlier
-- items of the batch are counted.
CREATE TYPE account_windows AS (
  customer uuid, posted bigint, leased bigint,
  minute timestamptz, minute_used integer, minute_ends_ms double precision,
  day date, day_used integer, day_ends_ms double precision, day_spent bigint, day_leased bigint, day_cap bigint);

-- ---------------------------------------------------------------- admission: spend limits of keys

-- What a key with a spend limit has spent and holds in one window. `granted` is what the batch adds to `leased`.
CREATE TYPE key_budget AS (customer uuid, key uuid, window_start date, spent bigint, leased bigint, granted bigint);

-- ---------------------------------------------------------------- admission: decisions

-- The decision about one item: `counted_minute` and `counted_day` are the requests it adds to the windows,
-- `posted` is the balance to report.
CREATE TYPE admission_decision AS (verdict text, held bigint, slots integer, counted_minute integer, counted_day integer, posted bigint);

-- A lease that a batch grants: `item` is its position in the arrays of the batch.
CREATE TYPE granted_lease AS (item integer, granted bigint, slots integer, slot_minute timestamptz, cap_day date, key_window date);

-- ---------------------------------------------------------------- settlement: input and results

-- A request to settle, as given to `settle_batch`. The records of the journal are rows of this type as text,
-- and are sent unchanged. A change of the fields or their order needs the same change in
-- src/money/ledger/settlement/settlement-record.ts, with a new version.
CREATE TYPE settlement_asked AS (
  version integer, request uuid, customer uuid, lease uuid, key uuid, started_ms bigint, model text, provider text, endpoint text, hoster uuid,
  input_tokens integer, output_tokens integer, reported_input_tokens integer, reported_output_tokens integer,
  counted_input_tokens integer, counted_output_tokens integer, usage_source text,
  input_price bigint, output_price bigint, price_version integer,
  hold bigint, cost bigint, hoster_share bigint, fee bigint, writeoff bigint, latency_ms integer, first_token_ms integer,
  success boolean, outcome text, finish_reason text, attempts json, routing jsonb);

-- How a request without a lease is settled. `cap_day` and `key_window` are what it is charged against;
-- NULL when it is not charged. A free request has no effect.
CREATE TYPE unleased_settlement AS (request uuid, effect text, cap_day date, key_window date);

-- A request with a usage row that was written now. `bulk_lease` is NULL when it had a strict lease or none.
CREATE TYPE settled_request AS (
  request uuid, customer uuid, bulk_lease uuid, cap_day date, hoster uuid, key uuid, model text, provider text, started_at timestamptz,
  success boolean, input_tokens integer, output_tokens integer, cost bigint, hoster_share bigint, fee bigint, latency_ms integer);

-- Sums of settled requests, fine enough for every table that is summed from them.
CREATE TYPE settled_sum AS (
  customer uuid, bulk_lease uuid, cap_day date, hoster uuid, key uuid, model text, provider text, hour timestamptz,
  requests bigint, successes bigint, input_tokens bigint, output_tokens bigint, cost bigint, hoster_share bigint, fee bigint, latency_ms_sum bigint);

-- A change of a customer's balance: `cost` is charged to the cap of `cap_day`, and `released` is not held any more.
CREATE TYPE balance_move AS (customer uuid, cap_day date, cost bigint, released bigint);
