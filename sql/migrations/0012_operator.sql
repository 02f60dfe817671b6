-- The operator's console: grants with a second operator, and sums over all customers.

-- ---------------------------------------------------------------- grants
-- A credit that an operator asked for in the console. Written only by sql/functions/operator/grants.sql.
CREATE TABLE grant_request (
  grant_id      uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  -- Of the ledger transaction. A ref is granted once.
  ref           text NOT NULL UNIQUE,
  reason        text NOT NULL,
  -- `waiting`: a second operator must approve it.
  state         text NOT NULL CHECK (state IN ('waiting', 'granted', 'rejected')),
  requested_by  uuid NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT now(),
  decided_by    uuid,
  decided_at    timestamptz,
  CHECK ((state = 'waiting') = (decided_at IS NULL))
);
CREATE INDEX grant_request_waiting ON grant_request (requested_at) WHERE state = 'waiting';
CREATE INDEX grant_request_customer ON grant_request (customer_id, requested_at);

-- ---------------------------------------------------------------- customers
-- The list of customers, newest first.
CREATE INDEX customer_created ON customer (created_at, customer_id);

-- ---------------------------------------------------------------- sums over all customers
-- The sums of usage_day over all customers. A job writes them again each minute for the last two days, and each night for the
-- last 30: a settlement that added to them itself would wait for those of all other customers.
CREATE TABLE platform_day (
  day           date NOT NULL,
  model_id      text NOT NULL,
  provider      text NOT NULL,
  requests      bigint NOT NULL,
  successes     bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos     bigint NOT NULL,
  latency_ms_sum bigint NOT NULL,
  PRIMARY KEY (day, model_id, provider)
);

-- What else changed money on a UTC day.
CREATE TABLE platform_money_day (
  day           date PRIMARY KEY,
  granted_nanos bigint NOT NULL,
  signup_credit_nanos bigint NOT NULL,
  refunded_nanos bigint NOT NULL,
  refunded_share_nanos bigint NOT NULL,
  -- Of the requests that began on the day.
  writeoff_nanos bigint NOT NULL
);

-- Indexes by day, for the job and for spans of days. Settlements do not change indexed columns, so their updates stay cheap.
CREATE INDEX usage_day_day ON usage_day (day);
CREATE INDEX usage_key_day_day ON usage_key_day (day);
CREATE INDEX refund_at ON refund (at);
CREATE INDEX ledger_tx_given ON ledger_tx (at) WHERE kind <> 'settle';
-- Few requests have a part that is not charged.
CREATE INDEX usage_event_writeoff ON usage_event (started_at) WHERE writeoff_nanos > 0;

-- ---------------------------------------------------------------- servers
-- What each node last said of the servers that it used. A node writes its row every few seconds.
CREATE TABLE node_report (
  node_id       uuid PRIMARY KEY,
  at            timestamptz NOT NULL DEFAULT now(),
  version       text NOT NULL,
  -- As ReportedServer in src/market/supply/status/write-report.ts.
  servers       jsonb NOT NULL
);

-- The attempts of all nodes at each server, by UTC day. A job deletes days that the status page no longer shows.
CREATE TABLE server_day (
  day           date NOT NULL,
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  answered      bigint NOT NULL,
  failed        bigint NOT NULL,
  PRIMARY KEY (day, endpoint_id, model_id)
);

-- When a node stopped using a server, as its breaker decided, and when it went on. A pause of less than five minutes does not end
-- an incident, so a server that comes and goes has few rows.
CREATE TABLE server_incident (
  incident_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node_id       uuid NOT NULL,
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  -- `credential_rejected`: the server refused the key of the operator.
  kind          text NOT NULL CHECK (kind IN ('ejected', 'credential_rejected')),
  began_at      timestamptz NOT NULL,
  -- NULL: it goes on.
  ended_at      timestamptz
);
CREATE UNIQUE INDEX server_incident_open ON server_incident (node_id, endpoint_id, model_id) WHERE ended_at IS NULL;
CREATE INDEX server_incident_began ON server_incident (began_at);

-- ---------------------------------------------------------------- with the functions of this version
SELECT sum_platform_days('-infinity');
