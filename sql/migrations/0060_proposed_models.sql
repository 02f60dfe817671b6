-- What a provider's server was last asked for: the new models that its rules name and that wait for an operator, as entries of `models`.
ALTER TABLE provider
  ADD COLUMN proposed_models jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(proposed_models) = 'array'),
  ADD COLUMN asked_at timestamptz,
  -- Why it did not answer; null: it did.
  ADD COLUMN ask_problem text;
