-- Providers that operators manage at run time: a server with the models that it sells, as an entry of `endpoints` in switchyard.yaml. Small tables: a
-- change of a provider is rare.
CREATE TABLE provider (
  -- Also the id of the endpoint on receipts.
  name text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  -- The version that counts: of `provider_version`.
  version int NOT NULL CHECK (version > 0),
  -- The keys of the server as JSON, encrypted with the master key. Null: it needs none. Former ones are not kept.
  secrets_sealed bytea,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- What a provider was, for the receipts that name the version. Append only.
CREATE TABLE provider_version (
  name text NOT NULL REFERENCES provider,
  version int NOT NULL CHECK (version > 0),
  -- As an entry of `endpoints` in switchyard.yaml, without keys. Null: the provider was removed.
  settings jsonb CHECK (jsonb_typeof(settings) = 'object'),
  reason text NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, version)
);
