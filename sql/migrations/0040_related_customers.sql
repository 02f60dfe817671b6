-- Which customers have something to do with a hoster, and which pay: only the requests of others that pay say something about it.
-- docs/trust.md describes both.

-- ---------------------------------------------------------------- related customers
-- The browsers that a person has signed in from. The cookie holds 256 random bits; the table holds their SHA-256.
CREATE TABLE person_device (
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  device_hash   bytea NOT NULL CHECK (length(device_hash) = 32),
  last_used_at  timestamptz NOT NULL,
  PRIMARY KEY (person_id, device_hash)
);
CREATE INDEX person_device_hash ON person_device (device_hash);
CREATE INDEX person_network_network ON person_network (network);

-- ---------------------------------------------------------------- own money
CREATE INDEX payment_reversal_customer ON payment_reversal (customer_id);
