-- What hosters see of their agents and their traffic in the console.

-- The agents that are connected to the node, as ReportedAgent in src/market/supply/status/write-report.ts.
ALTER TABLE node_report ADD COLUMN agents jsonb NOT NULL DEFAULT '[]';

-- Attempts at the servers of a hoster by UTC day, model and outcome. The job that reads new usage rows for the trust score writes
-- them: each row counts once, about 15 minutes after its request began.
CREATE TABLE hoster_attempt_day (
  hoster_id     uuid NOT NULL,
  day           date NOT NULL,
  model_id      text NOT NULL,
  -- AttemptOutcome in src/base/domain/handoff.ts.
  outcome       text NOT NULL,
  attempts      bigint NOT NULL,
  PRIMARY KEY (hoster_id, day, model_id, outcome)
) WITH (fillfactor = 70);

-- Tokens of the same requests, as far as the hoster reported them and the gateway counted them too. Written by the same job.
CREATE TABLE hoster_tokens_day (
  hoster_id     uuid NOT NULL,
  day           date NOT NULL,
  model_id      text NOT NULL,
  requests      bigint NOT NULL,
  reported_input  bigint NOT NULL,
  counted_input   bigint NOT NULL,
  billed_input    bigint NOT NULL,
  reported_output bigint NOT NULL,
  counted_output  bigint NOT NULL,
  billed_output   bigint NOT NULL,
  PRIMARY KEY (hoster_id, day, model_id)
) WITH (fillfactor = 70);
