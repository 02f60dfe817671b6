-- An invitation makes a person a member of a customer or of a hoster.
ALTER TABLE person_token ADD COLUMN hoster_id uuid REFERENCES hoster ON DELETE CASCADE;
DO $$
DECLARE
  v_name text;
BEGIN
  -- The check of 0013 has a name that PostgreSQL chose.
  SELECT conname INTO STRICT v_name FROM pg_constraint
    WHERE conrelid = 'person_token'::regclass AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%customer_id IS NOT NULL%';
  EXECUTE format('ALTER TABLE person_token DROP CONSTRAINT %I', v_name);
END $$;
ALTER TABLE person_token ADD CONSTRAINT person_token_invite_check CHECK (CASE WHEN purpose = 'invite'
  THEN (customer_id IS NULL) <> (hoster_id IS NULL) AND role IS NOT NULL
  ELSE customer_id IS NULL AND hoster_id IS NULL END);
CREATE INDEX person_token_hoster ON person_token (hoster_id) WHERE hoster_id IS NOT NULL;
