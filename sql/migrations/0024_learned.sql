-- What each node has learned of each offer: ejections, latency, results of the last minute. Every node writes its own rows
-- every few seconds and reads those of the others. Unlogged: the rows are worth seconds, and a crash of PostgreSQL, which
-- empties the table, costs nothing but what was learned since the last snapshot.
CREATE UNLOGGED TABLE learned_offer (
  node_id       uuid NOT NULL,
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  at            timestamptz NOT NULL,
  learned       jsonb NOT NULL,
  PRIMARY KEY (node_id, endpoint_id, model_id)
) WITH (fillfactor = 50);

-- The same of all nodes together, written at most once a minute. It outlives restarts and crashes.
CREATE TABLE learned_snapshot (
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  at            timestamptz NOT NULL,
  learned       jsonb NOT NULL,
  PRIMARY KEY (endpoint_id, model_id)
) WITH (fillfactor = 50);

-- What the requests at each server cost its customers: newcomers have a limit by day. A constant default rewrites no rows.
ALTER TABLE server_day ADD COLUMN cost_nanos bigint NOT NULL DEFAULT 0;
