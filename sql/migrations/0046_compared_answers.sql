-- A hoster that recognises the gateway's own requests answers them honestly, and the rest with another model. So answers to requests of
-- customers are compared too, after they were delivered: nothing about them can be recognised. Their text is not stored.

-- The customer lets the gateway send some of its requests a second time, to another server of the model, at the platform's expense.
ALTER TABLE customer ADD COLUMN shares_requests boolean NOT NULL DEFAULT false;

-- One answer of a hoster that was compared with that of a reference, kept for 90 days.
CREATE TABLE compared_answer (
  answer_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  model_id      text NOT NULL,
  -- shadow: the answer to a customer. replay: to a customer's request that the gateway sent once more. prompt: to one of its own.
  source        text NOT NULL CHECK (source IN ('shadow', 'replay', 'prompt')),
  -- The customer whose request it was. NULL: a prompt of the gateway.
  customer_id   uuid REFERENCES customer,
  -- See src/market/trust/compare-answer.ts.
  kind          text NOT NULL CHECK (kind IN ('gap', 'words', 'odds', 'pair')),
  value         double precision NOT NULL,
  -- An audit has counted it.
  is_counted    boolean NOT NULL DEFAULT false,
  at            timestamptz NOT NULL
);
CREATE INDEX compared_answer_waiting ON compared_answer (hoster_id, model_id, answer_id) WHERE NOT is_counted;
CREATE INDEX compared_answer_latest ON compared_answer (model_id, kind, hoster_id, answer_id);
CREATE INDEX compared_answer_at ON compared_answer (at);

ALTER TABLE hoster_audit DROP CONSTRAINT hoster_audit_kind_check;
ALTER TABLE hoster_audit ADD CONSTRAINT hoster_audit_kind_check
  CHECK (kind IN ('meter', 'canary', 'fingerprint', 'agreement', 'sampling', 'shadow'));

-- What the trust page of a hoster shows of its audits, as they were at the end of a UTC day. A hoster that saw its audits at once could
-- find them in its own log.
CREATE TABLE hoster_trust_day (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  day           date NOT NULL,
  shown         jsonb NOT NULL,
  PRIMARY KEY (hoster_id, day)
);
