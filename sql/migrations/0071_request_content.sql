-- Prompts and answers of keys that record them, where the operator allows it. Adding a column with a constant default takes a lock
-- of milliseconds, however many rows there are.

ALTER TABLE api_key ADD COLUMN records_content boolean NOT NULL DEFAULT false;

-- One row for each request that was recorded. Partitions are days, by the time in the id, so that old ones are dropped. There is
-- no default partition: adding one beside it would wait for readers, such as a dump of hours.
CREATE TABLE request_content (
  request_id uuid PRIMARY KEY,
  customer_id uuid NOT NULL,
  -- JSON, sealed with a master key.
  sealed bytea NOT NULL
) PARTITION BY RANGE (request_id);

CREATE INDEX request_content_customer ON request_content (customer_id);
