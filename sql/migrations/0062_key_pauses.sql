-- A key can be paused, and replaced while the former one goes on working for a while: both are the same row, so they have the
-- same limits and the same history. Adding columns without a default takes a lock of milliseconds, however many rows there are;
-- the index is built over a column that has no values yet.

ALTER TABLE api_key
  -- While set, the key is refused.
  ADD COLUMN paused_at timestamptz,
  -- The key that this one has replaced, as long as it still works.
  ADD COLUMN former_key_hash bytea CHECK (length(former_key_hash) = 32),
  ADD COLUMN former_hint text,
  ADD COLUMN former_expires_at timestamptz,
  ADD CONSTRAINT api_key_former_check CHECK ((former_key_hash IS NULL) = (former_expires_at IS NULL) AND (former_key_hash IS NULL) = (former_hint IS NULL));

CREATE UNIQUE INDEX api_key_former ON api_key (former_key_hash) WHERE former_key_hash IS NOT NULL;

-- What a key had spent in a window before its limit counted in it. `spent_nanos` contains it; no usage row names the window.
ALTER TABLE key_spend ADD COLUMN before_nanos bigint NOT NULL DEFAULT 0 CHECK (before_nanos >= 0);
