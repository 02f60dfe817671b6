-- People sign in to the console. A customer stays a billing account: a membership lets a person act for it. An API key
-- is the access of a program and never signs in.

CREATE TABLE person (
  person_id     uuid PRIMARY KEY,
  email         text NOT NULL,
  -- When the person proved to own the address. NULL: not yet.
  email_verified_at timestamptz,
  name          text NOT NULL DEFAULT '',
  -- Argon2id, as a PHC string. NULL: the person cannot sign in with a password.
  password_hash text,
  -- The rights on the installation: `operator` has all, `auditor` may read. NULL: none.
  installation_role text CHECK (installation_role IN ('operator', 'auditor')),
  -- While set, the person cannot sign in, and has no sessions.
  disabled_at   timestamptz,
  created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX person_email ON person (lower(email));

CREATE TABLE membership (
  customer_id   uuid NOT NULL REFERENCES customer,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  role          text NOT NULL CHECK (role IN ('owner', 'developer', 'billing', 'viewer')),
  created_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (customer_id, person_id)
);
CREATE INDEX membership_person ON membership (person_id);

-- A browser that is signed in. The cookie holds 256 random bits; the table holds their SHA-256.
CREATE TABLE person_session (
  session_id    uuid PRIMARY KEY,
  token_hash    bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  -- When the person last typed a password or used another factor.
  confirmed_at  timestamptz NOT NULL,
  -- Written once a minute at most.
  last_seen_at  timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL,
  user_agent    text NOT NULL,
  address       text NOT NULL,
  created_at    timestamptz NOT NULL
);
CREATE INDEX person_session_person ON person_session (person_id);

-- A link that works once. The link holds 256 random bits; the table holds their SHA-256.
CREATE TABLE person_token (
  token_hash    bytea PRIMARY KEY CHECK (length(token_hash) = 32),
  -- `welcome` sets the password of an operator. `invite` makes a member of a customer.
  purpose       text NOT NULL CHECK (purpose IN ('welcome', 'invite')),
  -- Of `welcome`.
  person_id     uuid REFERENCES person ON DELETE CASCADE,
  -- Of `invite`.
  customer_id   uuid REFERENCES customer,
  email         text,
  role          text,
  expires_at    timestamptz NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  CHECK ((purpose = 'welcome') = (person_id IS NOT NULL)),
  CHECK ((purpose = 'invite') = (customer_id IS NOT NULL AND email IS NOT NULL AND role IS NOT NULL))
);
CREATE INDEX person_token_customer ON person_token (customer_id) WHERE customer_id IS NOT NULL;

-- Failed attempts to sign in. The subject is an account, a network, or an account at a network.
CREATE TABLE sign_in_throttle (
  subject       text PRIMARY KEY,
  failures      integer NOT NULL CHECK (failures > 0),
  next_attempt_at timestamptz NOT NULL,
  last_failure_at timestamptz NOT NULL
);
CREATE INDEX sign_in_throttle_age ON sign_in_throttle (last_failure_at);

-- The networks that a person has signed in from. Attempts of strangers elsewhere do not slow these down.
CREATE TABLE person_network (
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  network       text NOT NULL,
  last_used_at  timestamptz NOT NULL,
  PRIMARY KEY (person_id, network)
);

-- ---------------------------------------------------------------- the audit log
-- What people did in the console and on the command line. Each entry contains the hash of the entry before it, so that a
-- changed or missing entry shows. Names no foreign keys: an entry outlives what it names.
CREATE TABLE audit_entry (
  entry_id      bigint PRIMARY KEY CHECK (entry_id > 0),
  at            timestamptz NOT NULL,
  -- NULL: the command line.
  person_id     uuid,
  action        text NOT NULL,
  -- What the action concerned, such as a customer or a key.
  subject       text NOT NULL,
  customer_id   uuid,
  detail        jsonb NOT NULL,
  address       text,
  hash          bytea NOT NULL CHECK (length(hash) = 32)
);
CREATE INDEX audit_entry_customer ON audit_entry (customer_id, entry_id) WHERE customer_id IS NOT NULL;

-- ---------------------------------------------------------------- from logins to people
INSERT INTO person (person_id, email, installation_role, created_at)
  SELECT user_id, email, CASE role WHEN 'operator' THEN 'operator' END, created_at FROM app_user;
INSERT INTO membership (customer_id, person_id, role, created_at)
  SELECT customer_id, user_id, 'owner', created_at FROM app_user WHERE customer_id IS NOT NULL;
DROP TABLE app_user;
