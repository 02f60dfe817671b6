-- Alerts: what customers want to be notified of, the notifications, and each attempt to deliver them.

CREATE TABLE alert_rule (
  rule_id       uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  kind          text NOT NULL CHECK (kind IN ('low_balance', 'daily_spend', 'key_limit_reached', 'large_charge')),
  threshold_nanos bigint CHECK (threshold_nanos > 0),
  channel       text NOT NULL CHECK (channel IN ('email', 'webhook')),
  -- An e-mail address or a URL.
  target        text NOT NULL,
  -- The key that signs a webhook: AES-256-GCM under the master key, bound to the rule by associated data.
  secret_sealed bytea,
  -- For low_balance: whether the balance was below the threshold at the last check, and how often it has
  -- fallen below it.
  is_below      boolean NOT NULL DEFAULT false,
  crossings     bigint NOT NULL DEFAULT 0,
  created_at    timestamptz NOT NULL DEFAULT now(),
  disabled_at   timestamptz,
  CHECK ((kind IN ('low_balance', 'large_charge')) = (threshold_nanos IS NOT NULL)),
  -- The index below contains no smaller charge.
  CHECK (kind <> 'large_charge' OR threshold_nanos >= 100000000),
  CHECK ((channel = 'webhook') = (secret_sealed IS NOT NULL))
);
CREATE INDEX alert_rule_customer ON alert_rule (customer_id) WHERE disabled_at IS NULL;

-- One event to report to one customer. The occurrence (which crossing, which day, which request) makes it
-- unique, so it is one alert however many nodes detect it.
CREATE TABLE alert (
  alert_id      uuid PRIMARY KEY,
  rule_id       uuid NOT NULL REFERENCES alert_rule ON DELETE CASCADE,
  -- The kind of the rule, or 'test'.
  kind          text NOT NULL,
  occurrence    text NOT NULL,
  -- The content of the notification. Money is text in nano-USD.
  facts         jsonb NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  delivered_at  timestamptz,
  UNIQUE (rule_id, occurrence)
);
CREATE INDEX alert_created ON alert (created_at);

CREATE TABLE alert_delivery (
  alert_id      uuid NOT NULL REFERENCES alert ON DELETE CASCADE,
  attempt       integer NOT NULL CHECK (attempt > 0),
  outcome       text NOT NULL CHECK (outcome IN ('delivered', 'logged', 'failed')),
  -- The HTTP status. NULL when there was no response, and for e-mail.
  status        integer,
  -- Shown to the customer, so it must contain no internal details.
  error         text,
  at            timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (alert_id, attempt)
);

-- One row: when a node last checked for alerts, so that only one node makes each check.
CREATE TABLE alert_watch (
  looked_at     timestamptz NOT NULL
);
INSERT INTO alert_watch VALUES ('-infinity');

-- Finds large charges. A watermark over all requests would skip rows that arrive late, some of them by hours.
-- A settlement writes to the index only for a request that cost ten cents or more.
CREATE INDEX usage_event_large ON usage_event (customer_id, request_id) WHERE cost_nanos >= 100000000;
