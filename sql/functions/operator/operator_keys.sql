-- Keys of operators. They prove an operator to the functions in commands.sql, within their scopes, as a confirmed session does.
-- No role reads their hashes, and only these functions write them: a role of the gateway cannot make one.

-- Finds a key for a request, and notes that it was used. No row: the key is unknown, revoked or expired, or its person has no
-- role or is blocked. An auditor can only read. Locks the key for a moment, once a minute.
CREATE OR REPLACE FUNCTION use_operator_key(p_hash bytea)
RETURNS TABLE (key_id uuid, key_name text, scopes text[], person_id uuid, email text, person_name text, role text)
LANGUAGE sql AS $$
  UPDATE operator_key SET last_used_at = now() WHERE key_hash = p_hash AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute');
  SELECT k.key_id, k.name, ARRAY(SELECT s FROM unnest(k.scopes) s WHERE s = 'read' OR p.installation_role = 'operator'), p.person_id, p.email, p.name,
    p.installation_role
    FROM operator_key k JOIN person p ON p.person_id = k.person_id
   WHERE k.key_hash = p_hash AND is_living_key(k) AND p.installation_role IS NOT NULL AND p.disabled_at IS NULL
$$;

-- Returns the operator of a session, see operator_of_session, or of a key with the scope. A key needs no confirmation: its
-- scope was confirmed when it was made. The entries of this transaction name the key. `p_scope` NULL: only a session will do.
-- Raises SY004 as operator_of_session, also for a key without the scope. Locks nothing.
CREATE OR REPLACE FUNCTION operator_of_proof(p_proof bytea, p_needs_confirmation boolean, p_scope text) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  SELECT k.key_id, k.person_id INTO v FROM operator_key k
   WHERE k.key_hash = p_proof AND p_scope = ANY (k.scopes) AND is_living_key(k) AND is_operator(k.person_id);
  IF NOT FOUND THEN
    RETURN operator_of_session(p_proof, p_needs_confirmation);
  END IF;
  PERFORM set_config('switchyard.key_id', v.key_id::text, true);
  RETURN v.person_id;
END $$;

-- Whether a key is neither revoked nor expired.
CREATE OR REPLACE FUNCTION is_living_key(p operator_key) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT p.revoked_at IS NULL AND (p.expires_at IS NULL OR p.expires_at > now()) $$;

-- Makes a key. Verdicts: 'made'; 'no_role': the person is neither operator nor auditor; 'other_operator': operators make keys for
-- themselves and for auditors, since a key of another operator could approve what its maker asked for; 'auditor_reads': auditors
-- have the scope read only; 'too_many'. `p_by` NULL: the command line. Locks the person, then the audit log.
CREATE OR REPLACE FUNCTION issue_operator_key_as(p_by uuid, p_key uuid, p_person uuid, p_name text, p_hash bytea, p_hint text, p_scopes text[],
  p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v person;
BEGIN
  SELECT * INTO v FROM person WHERE person_id = p_person FOR NO KEY UPDATE;
  IF v.installation_role IS NULL OR v.disabled_at IS NOT NULL THEN RETURN 'no_role'; END IF;
  IF v.installation_role = 'operator' AND p_by <> p_person THEN RETURN 'other_operator'; END IF;
  IF v.installation_role = 'auditor' AND p_scopes <> ARRAY['read'] THEN RETURN 'auditor_reads'; END IF;
  IF (SELECT count(*) FROM operator_key k WHERE k.person_id = p_person AND is_living_key(k)) >= 100 THEN RETURN 'too_many'; END IF;
  INSERT INTO operator_key (key_id, person_id, name, key_hash, hint, scopes, expires_at)
    VALUES (p_key, p_person, p_name, p_hash, p_hint, p_scopes, p_expires_at);
  PERFORM add_audit_entry(p_by, 'operator_key.issued', p_key::text, NULL,
    jsonb_build_object('name', p_name, 'hint', p_hint, 'scopes', p_scopes, 'expires_at', p_expires_at, 'person', v.email), p_address);
  RETURN 'made';
END $$;

-- Like issue_operator_key_as, with the same locks, for a confirmed session of an operator. Raises SY004 for another one, and
-- for a key: keys make no keys.
CREATE OR REPLACE FUNCTION issue_operator_key_by_operator(p_session bytea, p_key uuid, p_person uuid, p_name text, p_hash bytea, p_hint text, p_scopes text[],
  p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE sql AS $$
  SELECT issue_operator_key_as(operator_of_session(p_session, true), p_key, p_person, p_name, p_hash, p_hint, p_scopes, p_expires_at, p_address)
$$;

-- Revokes a key for good. Returns whether it was in use. Locks the key, then the audit log.
CREATE OR REPLACE FUNCTION revoke_operator_key_as(p_by uuid, p_key uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v operator_key;
BEGIN
  UPDATE operator_key SET revoked_at = now() WHERE key_id = p_key AND revoked_at IS NULL RETURNING * INTO v;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM add_audit_entry(p_by, 'operator_key.revoked', p_key::text, NULL, jsonb_build_object('name', v.name, 'hint', v.hint), p_address);
  RETURN true;
END $$;

-- Like revoke_operator_key_as, with the same locks, for a session of an operator. Raises SY004 for another one.
CREATE OR REPLACE FUNCTION revoke_operator_key_by_operator(p_session bytea, p_key uuid, p_address text) RETURNS boolean
LANGUAGE sql AS $$ SELECT revoke_operator_key_as(operator_of_session(p_session, false), p_key, p_address) $$;

-- Another role of a person ends the keys of the former one: a role that comes back finds no key that someone kept.
CREATE OR REPLACE FUNCTION end_operator_keys() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE operator_key SET revoked_at = now() WHERE person_id = NEW.person_id AND revoked_at IS NULL;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER end_operator_keys AFTER UPDATE OF installation_role ON person FOR EACH ROW
  WHEN (NEW.installation_role IS DISTINCT FROM OLD.installation_role) EXECUTE FUNCTION end_operator_keys();
