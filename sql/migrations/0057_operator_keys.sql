-- Keys of operators and auditors, for the operator API. Only functions write them.
CREATE TABLE operator_key (
  key_id uuid PRIMARY KEY,
  person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  name text NOT NULL,
  key_hash bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
  hint text NOT NULL,
  scopes text[] NOT NULL CHECK (scopes <@ ARRAY['read', 'customers', 'money', 'supply', 'settings'] AND cardinality(scopes) > 0),
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  -- To the minute.
  last_used_at timestamptz
);
CREATE INDEX operator_key_person ON operator_key (person_id);

-- What a request with an Idempotency-Key did. The answer is sealed with the operator key, which the database does not have.
CREATE TABLE operator_answer (
  key_id uuid NOT NULL REFERENCES operator_key ON DELETE CASCADE,
  idempotency_key text NOT NULL,
  fingerprint bytea NOT NULL,
  answer bytea,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (key_id, idempotency_key)
);
CREATE INDEX operator_answer_age ON operator_answer (created_at);
