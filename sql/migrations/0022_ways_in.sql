-- Passkeys, other services that people sign in with, and new e-mail addresses.

ALTER TABLE person_token
  -- Of `second_factor`: the identity that the person has proved, `{issuer, subject, provider, email}`.
  ADD COLUMN detail jsonb,
  DROP CONSTRAINT person_token_purpose_check,
  -- `passkey_sign_in` and `oidc` are challenges and states that were used: they carry their own proof, so only used ones
  -- are stored, until they are too old anyway.
  ADD CONSTRAINT person_token_purpose_check CHECK (purpose IN ('welcome', 'invite', 'sign_up', 'reset', 'email',
    'second_factor', 'passkey', 'passkey_sign_in', 'oidc'));

-- Names an identity in addresses, without its issuer and subject.
ALTER TABLE person_identity ADD COLUMN identity_id uuid NOT NULL DEFAULT gen_random_uuid();
CREATE UNIQUE INDEX person_identity_id ON person_identity (identity_id);
