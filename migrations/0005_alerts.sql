-- Alerts: what customers want to be told of, what they were told, and each attempt to tell them.

CREATE TABLE alert_rule (
  rule_id       uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  kind          text NOT NULL CHECK (kind IN ('low_balance', 'daily_spend', 'key_limit_reached', 'large_charge')),
  threshold_nanos bigint CHECK (threshold_nanos > 0),
  channel       text NOT NULL CHECK (channel IN ('email', 'webhook')),
  -- An e-mail address or a URL.
  target        text NOT NULL,
  -- What signs a webhook: AES-256-GCM under the master key, bound to the rule by its associated data.
  secret_sealed bytea,
  -- Of low_balance: whether the balance was below the threshold at the last look, and how often it fell below.
  is_below      boolean NOT NULL DEFAULT false,
  crossings     bigint NOT NULL DEFAULT 0,
  created_at    timestamptz NOT NULL DEFAULT now(),
  disabled_at   timestamptz,
  CHECK ((kind IN ('low_balance', 'large_charge')) = (threshold_nanos IS NOT NULL)),
  -- The index below knows no smaller charge.
  CHECK (kind <> 'large_charge' OR threshold_nanos >= 100000000),
  CHECK ((channel = 'webhook') = (secret_sealed IS NOT NULL))
);
CREATE INDEX alert_rule_customer ON alert_rule (customer_id) WHERE disabled_at IS NULL;

-- One occasion to tell one customer something. The occurrence (which crossing, which day, which request) makes it unique: however many
-- nodes see it, and however often, it is one alert.
CREATE TABLE alert (
  alert_id      uuid PRIMARY KEY,
  rule_id       uuid NOT NULL REFERENCES alert_rule ON DELETE CASCADE,
  -- The kind of the rule, or 'test'.
  kind          text NOT NULL,
  occurrence    text NOT NULL,
  -- What is told; money as text in nano-USD.
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
  -- Of HTTP; NULL when nothing answered, and of e-mail.
  status        integer,
  -- For the customer to read: it says nothing of our inside.
  error         text,
  at            timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (alert_id, attempt)
);

-- One row: when some node looked for alerts last, so that each look is made by one node.
CREATE TABLE alert_watch (
  looked_at     timestamptz NOT NULL
);
INSERT INTO alert_watch VALUES ('-infinity');

-- Large charges are found by this index and not by a watermark over all requests: rows arrive out of order, some of them hours late, and a
-- watermark would skip them. A settlement pays for it only when a request cost ten cents or more.
CREATE INDEX usage_event_large ON usage_event (customer_id, request_id) WHERE cost_nanos >= 100000000;
