-- What servers answered when they failed, so that operators find requests by the text of the error. A node writes one failure of each
-- server a second at most, with its report; a job keeps a week and 100,000 rows. Requests do not wait for it.

CREATE TABLE server_error (
  error_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  outcome text NOT NULL,
  status integer,
  -- Without keys, addresses and prompts.
  text text NOT NULL,
  request_id uuid,
  customer_id uuid
);
CREATE INDEX server_error_request ON server_error (request_id);
