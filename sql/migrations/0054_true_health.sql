-- The health of servers by the attempts of all customers: also of those whose requests a server fails while it is not ejected for others.

-- Attempts that a server refused because it was busy. A constant default rewrites no rows.
ALTER TABLE server_day ADD COLUMN busy bigint NOT NULL DEFAULT 0;

-- The attempts of all nodes at each server in the last hour, by the minute of the report.
CREATE TABLE server_minute (
  minute        timestamptz NOT NULL,
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  answered      bigint NOT NULL,
  failed        bigint NOT NULL,
  busy          bigint NOT NULL,
  PRIMARY KEY (minute, endpoint_id, model_id)
);

-- How the attempts of all nodes at each server ended last. The row of a server without attempts is deleted with its days.
CREATE TABLE server_health (
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  attempted_at  timestamptz NOT NULL,
  -- Answers since the last failure and failures since the last answer, on all nodes. Of one report that has both, the order counts.
  answered_in_row bigint NOT NULL,
  failed_in_row bigint NOT NULL,
  -- The last failed attempt, as LastError in src/market/supply/breakers/attempt-tally.ts. NULL: none yet.
  last_error    jsonb,
  PRIMARY KEY (endpoint_id, model_id)
) WITH (fillfactor = 70);

-- Servers that failed most requests without being ejected for all customers. All nodes together see that, so no node has these incidents.
ALTER TABLE server_incident ALTER COLUMN node_id DROP NOT NULL;
ALTER TABLE server_incident DROP CONSTRAINT server_incident_kind_check;
ALTER TABLE server_incident ADD CONSTRAINT server_incident_kind_check CHECK (kind IN ('ejected', 'credential_rejected', 'failing'));
ALTER TABLE server_incident ADD CONSTRAINT server_incident_node_check CHECK ((node_id IS NULL) = (kind = 'failing'));
CREATE UNIQUE INDEX server_incident_failing ON server_incident (endpoint_id, model_id) WHERE ended_at IS NULL AND kind = 'failing';
