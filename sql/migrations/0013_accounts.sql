-- Sign-up, mail verification, second factors, passkeys and identities of other services.

-- ---------------------------------------------------------------- links
ALTER TABLE person_token
  -- Names a link in lists, where its secret is unknown.
  ADD COLUMN token_id uuid NOT NULL DEFAULT gen_random_uuid(),
  -- The member who made an invitation. NULL: the command line.
  ADD COLUMN made_by uuid REFERENCES person ON DELETE SET NULL,
  -- Whether the link was mailed to `email`: then its use proves the address.
  ADD COLUMN is_mailed boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX person_token_id ON person_token (token_id);

-- `sign_up` makes an account for `email`. `reset` sets a password. `email` gives the person the address `email`.
-- `second_factor` is a sign-in that waits for the second factor. `passkey` is a challenge for a person who is signed
-- in, and `passkey_sign_in` one for anybody.
ALTER TABLE person_token
  DROP CONSTRAINT person_token_purpose_check,
  DROP CONSTRAINT person_token_check,
  DROP CONSTRAINT person_token_check1,
  ADD CHECK (purpose IN ('welcome', 'invite', 'sign_up', 'reset', 'email', 'second_factor', 'passkey',
    'passkey_sign_in')),
  ADD CHECK ((purpose IN ('welcome', 'reset', 'email', 'second_factor', 'passkey')) = (person_id IS NOT NULL)),
  ADD CHECK ((purpose = 'invite') = (customer_id IS NOT NULL AND role IS NOT NULL)),
  ADD CHECK (purpose NOT IN ('invite', 'sign_up', 'email') OR email IS NOT NULL);
CREATE INDEX person_token_email ON person_token (lower(email), purpose) WHERE email IS NOT NULL;
CREATE INDEX person_token_person ON person_token (person_id, purpose) WHERE person_id IS NOT NULL;

-- ---------------------------------------------------------------- second factors
ALTER TABLE person
  -- The secret of the authenticator app, encrypted. NULL: the person has none.
  ADD COLUMN totp_secret bytea,
  -- A secret that the person has not confirmed with a code yet.
  ADD COLUMN totp_pending bytea,
  -- The number of the last time step with an accepted code: no code works twice.
  ADD COLUMN totp_last_step bigint NOT NULL DEFAULT 0;

-- Each code replaces a lost second factor once. The table holds SHA-256 of 80 random bits.
CREATE TABLE person_recovery_code (
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  code_hash     bytea NOT NULL CHECK (length(code_hash) = 32),
  PRIMARY KEY (person_id, code_hash)
);

CREATE TABLE person_passkey (
  passkey_id    uuid PRIMARY KEY,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  -- As the authenticator names it, in base64url.
  credential_id text NOT NULL UNIQUE,
  public_key    bytea NOT NULL,
  -- Counts uses, on authenticators that count. A copy of a key shows as a count that goes back.
  sign_count    bigint NOT NULL,
  transports    text[] NOT NULL,
  name          text NOT NULL,
  created_at    timestamptz NOT NULL,
  last_used_at  timestamptz
);
CREATE INDEX person_passkey_person ON person_passkey (person_id);

-- A person as another service knows them.
CREATE TABLE person_identity (
  issuer        text NOT NULL,
  subject       text NOT NULL,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  -- The name of the service in the configuration.
  provider      text NOT NULL,
  email         text,
  created_at    timestamptz NOT NULL,
  last_used_at  timestamptz NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX person_identity_person ON person_identity (person_id);

-- ---------------------------------------------------------------- sessions
ALTER TABLE person_session
  -- Whether the person used a second factor.
  ADD COLUMN has_second_factor boolean NOT NULL DEFAULT false,
  -- The token before the last step-up. It works for some seconds, for requests that were on their way.
  ADD COLUMN previous_token_hash bytea,
  ADD COLUMN token_changed_at timestamptz;
CREATE INDEX person_session_previous ON person_session (previous_token_hash) WHERE previous_token_hash IS NOT NULL;

-- ---------------------------------------------------------------- the signup credit
-- The mailboxes that got the credit of a sign-up, so that none gets it twice. Outlives the person.
CREATE TABLE signup_credit (
  -- SHA-256 of the mailbox: the address without what its provider ignores.
  mailbox_hash  bytea PRIMARY KEY CHECK (length(mailbox_hash) = 32),
  network       text NOT NULL,
  granted_at    timestamptz NOT NULL
);
CREATE INDEX signup_credit_time ON signup_credit (granted_at);
