-- The request that an Idempotency-Key of a customer stands for. The state is `running` until the request has
-- ended. A request that cost nothing leaves no row, so that it can be sent again. A row is valid for a day.
CREATE TABLE idempotency (
  customer_id   uuid NOT NULL,
  key           text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  -- SHA-256 of the body: the same key must come with the same body.
  body_hash     bytea NOT NULL CHECK (length(body_hash) = 32),
  request_id    uuid NOT NULL,
  -- The node that runs the request. After it is declared dead, the next node that gets the request takes the
  -- key over.
  node_id       uuid NOT NULL,
  state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done')),
  cost_nanos    bigint,
  -- AES-256-GCM under the master key, bound to the request. NULL when the answer may not or cannot be kept.
  answer_sealed bytea,
  claimed_at    timestamptz NOT NULL DEFAULT now(),
  -- The heartbeats of the node at that time: they measure the age of the claim without a wall clock.
  heartbeats    integer NOT NULL,
  expires_at    timestamptz NOT NULL,
  PRIMARY KEY (customer_id, key),
  CHECK ((state = 'done') = (cost_nanos IS NOT NULL))
);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);
