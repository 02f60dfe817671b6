-- The person that knows the former key of a rotation: it ends with that person's membership, as the key itself does with that of
-- `person_id`. And whether the pause of a key is one of an operator, which the customer cannot end. A constant default rewrites no row.

ALTER TABLE api_key
  -- Null: no person made the former key, or there is none.
  ADD COLUMN former_person_id uuid REFERENCES person ON DELETE SET NULL,
  ADD COLUMN paused_by_operator boolean NOT NULL DEFAULT false,
  ADD CONSTRAINT api_key_operator_pause_check CHECK (paused_at IS NOT NULL OR NOT paused_by_operator);
