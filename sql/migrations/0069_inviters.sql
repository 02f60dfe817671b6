-- Who has invited a person for a role, and when: the invitation ends with the role of that operator, and after some days. An
-- invitation from before names nobody, so it counts no more. No foreign key: an operator who is gone is no operator.
ALTER TABLE person
  ADD COLUMN invited_by uuid,
  ADD COLUMN invited_at timestamptz;
CREATE INDEX person_invited_by ON person (invited_by) WHERE invited_by IS NOT NULL;
