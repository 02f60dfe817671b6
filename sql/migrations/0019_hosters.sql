-- Hosters that join by themselves: their states, members, keys, and how their servers are reached.

-- ---------------------------------------------------------------- states
-- src/base/domain/hoster-state.ts has the changes that are allowed, and the actors that may make them.
ALTER TABLE hoster DROP CONSTRAINT hoster_state_check;
ALTER TABLE hoster ADD CONSTRAINT hoster_state_check
  CHECK (state IN ('applied', 'pending', 'verified', 'active', 'paused', 'suspended', 'retired'));
-- The host of the address that the hoster applied with, and its port if that is not 443. NULL: added by the operator, or
-- connected by the agent. One hoster at a time holds it, so that nobody leaves a bad name behind by applying again.
ALTER TABLE hoster ADD COLUMN domain text;
CREATE UNIQUE INDEX hoster_domain ON hoster (domain) WHERE domain IS NOT NULL AND state <> 'retired';
-- When the hoster was first active. NULL: never yet.
ALTER TABLE hoster ADD COLUMN active_since timestamptz;
UPDATE hoster SET active_since = created_at WHERE state = 'active';

-- Every change of a state, with its reason. The audit log has an entry for each, in the same transaction.
CREATE TABLE hoster_state_change (
  change_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  -- NULL: the hoster is new.
  from_state    text,
  to_state      text NOT NULL,
  -- `hoster`: a member or a key of the hoster. `system`: the gateway itself.
  actor         text NOT NULL CHECK (actor IN ('hoster', 'operator', 'system')),
  -- The person who acts. NULL: the command line, a key or the gateway.
  person_id     uuid,
  -- The key of the hoster that acts, if one does.
  key_id        uuid,
  reason        text NOT NULL,
  at            timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX hoster_state_change_hoster ON hoster_state_change (hoster_id, change_id);

-- ---------------------------------------------------------------- people and keys
CREATE TABLE hoster_member (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  role          text NOT NULL CHECK (role IN ('owner', 'developer', 'billing', 'viewer')),
  created_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (hoster_id, person_id)
);
CREATE INDEX hoster_member_person ON hoster_member (person_id);

-- A key of a program of the hoster, such as the agent. It opens the hoster's own endpoints and nothing else.
CREATE TABLE hoster_key (
  key_id        uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  name          text NOT NULL,
  -- SHA-256 of the whole key, as in api_key.
  key_hash      bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
  hint          text NOT NULL,
  -- `serve` connects the agent. `manage` changes models, prices and the state. `read` reads what belongs to the hoster.
  scopes        text[] NOT NULL CHECK (scopes <@ ARRAY['serve', 'manage', 'read'] AND cardinality(scopes) > 0),
  -- The person who made it in the console. NULL: the command line, or another key.
  person_id     uuid REFERENCES person ON DELETE SET NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  revoked_at    timestamptz
);
CREATE INDEX hoster_key_hoster ON hoster_key (hoster_id) WHERE revoked_at IS NULL;

-- ---------------------------------------------------------------- servers
-- `agent`: the hoster's agent connects to the gateway and requests travel on its connections. The base_url is then only a
-- name, and no request is ever sent to it.
ALTER TABLE hoster_endpoint ADD COLUMN transport text NOT NULL DEFAULT 'direct' CHECK (transport IN ('direct', 'agent'));
ALTER TABLE hoster_endpoint ADD CONSTRAINT hoster_endpoint_agent_url
  CHECK ((transport = 'agent') = (base_url = 'https://agent.invalid/v1'));
-- When the hoster proved to control the server. NULL: not yet.
ALTER TABLE hoster_endpoint ADD COLUMN challenge_passed_at timestamptz;

-- The proof of an address and the checks that follow it.
CREATE TABLE hoster_verification (
  hoster_id     uuid PRIMARY KEY REFERENCES hoster,
  -- What the hoster must publish at its address. Another address has another one.
  nonce         text NOT NULL,
  started_at    timestamptz NOT NULL,
  checked_at    timestamptz,
  -- What the last check found, as VerificationReport in src/wire/api/hoster-verification.ts. NULL: not checked yet.
  report        jsonb
);

-- ---------------------------------------------------------------- models and prices
-- What the hoster says of its models, as in src/wire/api/hoster-manifest.ts. Each upload is a version, and none changes.
CREATE TABLE hoster_manifest (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  version       integer NOT NULL CHECK (version > 0),
  body          jsonb NOT NULL,
  -- `sent` by the hoster, or `read` from its server.
  source        text NOT NULL CHECK (source IN ('sent', 'read')),
  -- Whether it changed a price, at once or later. Such manifests have a least time between them.
  changes_prices boolean NOT NULL,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (hoster_id, version)
);

-- Prices that rise too much to apply at once. A job applies them when their notice has passed.
CREATE TABLE hoster_price_change (
  change_id     uuid PRIMARY KEY,
  endpoint_id   uuid NOT NULL REFERENCES hoster_endpoint,
  -- As in hoster_price.
  model_id      text NOT NULL,
  upstream_model text NOT NULL,
  input_pico_per_token  bigint NOT NULL CHECK (input_pico_per_token >= 0),
  output_pico_per_token bigint NOT NULL CHECK (output_pico_per_token >= 0),
  cache_read_pico_per_token  bigint CHECK (cache_read_pico_per_token >= 0),
  cache_write_pico_per_token bigint CHECK (cache_write_pico_per_token >= 0),
  context_tokens    integer NOT NULL CHECK (context_tokens > 0),
  max_output_tokens integer NOT NULL CHECK (max_output_tokens > 0),
  features      text[] NOT NULL,
  applies_at    timestamptz NOT NULL,
  -- `cancelled`: a later manifest took its place.
  state         text NOT NULL DEFAULT 'scheduled' CHECK (state IN ('scheduled', 'applied', 'cancelled'))
);
CREATE UNIQUE INDEX hoster_price_change_scheduled ON hoster_price_change (endpoint_id, model_id) WHERE state = 'scheduled';
CREATE INDEX hoster_price_change_due ON hoster_price_change (applies_at) WHERE state = 'scheduled';
