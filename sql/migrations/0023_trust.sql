-- Trust in hosters: evidence, audits, the ratio of models, quarantine. docs/trust.md describes the arithmetic.

-- ---------------------------------------------------------------- hosters
ALTER TABLE hoster
  -- Set by the operator: replaces the earned score. NULL: the score is earned.
  ADD COLUMN trust_override double precision CHECK (trust_override BETWEEN 0 AND 1),
  -- The operator has a contract with the hoster, which lifts the cap of its score.
  ADD COLUMN has_contract boolean NOT NULL DEFAULT false,
  -- A cheat was proven, and no operator has overruled that.
  ADD COLUMN quarantined_at timestamptz,
  ADD COLUMN quarantine_reason text;
-- Scores were set by operators alone until now.
UPDATE hoster SET trust_override = trust_score WHERE trust_score > 0;

-- What audits have shown, and the last score.
CREATE TABLE hoster_trust (
  hoster_id     uuid PRIMARY KEY REFERENCES hoster,
  -- HosterEvidence of src/market/trust/hoster-evidence.ts.
  evidence      jsonb NOT NULL,
  -- Requests ever counted, and the mean weight of an answered one.
  requests      bigint NOT NULL,
  typical_weight double precision NOT NULL,
  -- TrustScore of src/market/trust/trust-score.ts. NULL before the first.
  score         jsonb,
  updated_at    timestamptz NOT NULL
);

-- What the requests of one customer have shown about one hoster: decayed sums of src/market/trust/decayed-counts.ts.
CREATE TABLE hoster_customer_evidence (
  hoster_id     uuid NOT NULL,
  customer_id   uuid NOT NULL,
  reliability_good double precision NOT NULL,
  reliability_bad  double precision NOT NULL,
  reliability_squares double precision NOT NULL,
  conformance_good double precision NOT NULL,
  conformance_bad  double precision NOT NULL,
  conformance_squares double precision NOT NULL,
  -- The time that the sums are decayed to.
  at            timestamptz NOT NULL,
  PRIMARY KEY (hoster_id, customer_id)
) WITH (fillfactor = 70);

-- One row per audit, kept for 90 days. The prompts are not stored.
CREATE TABLE hoster_audit (
  audit_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- NULL: a canary that a reference answered, for comparison.
  hoster_id     uuid REFERENCES hoster,
  model_id      text NOT NULL,
  kind          text NOT NULL CHECK (kind IN ('meter', 'canary', 'fingerprint', 'agreement', 'sampling')),
  -- NULL: too little is known to judge it.
  passed        boolean,
  e_value       double precision NOT NULL,
  -- meter: the mean of ln(reported / expected). canary: the failed ones. fingerprint, agreement: the distance. sampling: the p-value.
  statistic     double precision NOT NULL,
  -- meter: requests. canary: canaries. Otherwise servers that were compared.
  sample        integer NOT NULL,
  at            timestamptz NOT NULL
);
CREATE INDEX hoster_audit_hoster ON hoster_audit (hoster_id, audit_id);
CREATE INDEX hoster_audit_model ON hoster_audit (model_id, kind, audit_id);
CREATE INDEX hoster_audit_at ON hoster_audit (at);

-- When the hoster's endpoint is audited next. NULL: as soon as it is seen.
ALTER TABLE hoster_endpoint ADD COLUMN next_audit_at timestamptz;

-- A quarantined hoster asks for a second look.
CREATE TABLE hoster_appeal (
  appeal_id     uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  text          text NOT NULL,
  person_id     uuid,
  key_id        uuid,
  at            timestamptz NOT NULL DEFAULT now(),
  -- The operator's answer. NULL: it waits.
  answer        text,
  answered_by   uuid,
  answered_at   timestamptz
);
CREATE INDEX hoster_appeal_hoster ON hoster_appeal (hoster_id, at);
CREATE UNIQUE INDEX hoster_appeal_waiting ON hoster_appeal (hoster_id) WHERE answered_at IS NULL;

-- ---------------------------------------------------------------- reports
-- Recent reports of one endpoint for one model: ln(reported / counted). Local servers are sources too.
CREATE TABLE meter_source (
  model_id      text NOT NULL,
  endpoint_id   text NOT NULL,
  -- NULL: a local server of the operator.
  hoster_id     uuid,
  input         real[] NOT NULL,
  output        real[] NOT NULL,
  -- Reports that wait for a token audit: ReportedUse[] of src/market/trust/meter-audit.ts.
  waiting       jsonb NOT NULL,
  updated_at    timestamptz NOT NULL,
  PRIMARY KEY (model_id, endpoint_id)
);

-- The ratio of a model that hosters offer: LearnedRatio of src/market/trust/learn-ratio.ts.
CREATE TABLE meter_ratio (
  model_id      text PRIMARY KEY,
  ratio         jsonb NOT NULL,
  updated_at    timestamptz NOT NULL
);

-- The job that reads new usage rows finds them by time. Rows are nearly in the order of their time, so a few kilobytes for each
-- gigabyte of rows suffice. On a table of 100 million rows it takes about a minute to build.
CREATE INDEX usage_event_started ON usage_event USING brin (started_at) WITH (autosummarize = on);

-- ---------------------------------------------------------------- accounts that pay for audits
-- Customers of the platform itself. Their requests look like those of others, and no person signs in to them.
CREATE TABLE house_customer (
  customer_id   uuid PRIMARY KEY REFERENCES customer,
  key_id        uuid NOT NULL REFERENCES api_key,
  created_at    timestamptz NOT NULL DEFAULT now()
);
