-- Operators add and remove operators and auditors in the console, together. The role of a person still changes by the owner only: by
-- a function that takes the session of an operator, and by the command line. Nothing takes the last operator away.

-- Changes of roles, asked for in the console. One waits while there is another operator to approve it.
CREATE TABLE role_change (
  change_id     uuid PRIMARY KEY,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  -- NULL takes the role away.
  role          text CHECK (role IN ('operator', 'auditor')),
  requested_by  uuid NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- `applying` lasts for one statement: the trigger of person lets that change through.
  state         text NOT NULL CHECK (state IN ('waiting', 'applying', 'done', 'rejected')),
  decided_by    uuid,
  decided_at    timestamptz
);
CREATE UNIQUE INDEX role_change_waiting ON role_change (person_id) WHERE state = 'waiting';
