-- A pause ends the former key of a rotation for good, so that no key that was stopped works again when the key is resumed.
-- Briefly locks a small table.

UPDATE api_key SET former_key_hash = NULL, former_hint = NULL, former_expires_at = NULL, former_person_id = NULL
 WHERE paused_at IS NOT NULL AND former_key_hash IS NOT NULL;

ALTER TABLE api_key ADD CONSTRAINT api_key_paused_former_check CHECK (paused_at IS NULL OR former_key_hash IS NULL);
