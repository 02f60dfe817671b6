-- Operators prove a session, or a key: see operator_keys.sql. The functions with which the console moves money for an operator
-- take the SHA-256 of the token in the operator's cookie, which no table gives to the gateway role, instead of the operator's
-- id, which every log entry shows. The command line, which is the owner, calls the functions inside.

-- Whether this person is an operator and not blocked.
CREATE OR REPLACE FUNCTION is_operator(p_person uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM person WHERE person_id = p_person AND installation_role = 'operator' AND disabled_at IS NULL)
$$;

-- Whether another operator could approve a grant of this one: one with a password, a passkey or an identity, as in
-- src/identity/people/other-way-in.ts. The networks of sign-ins do not tell it: they are deleted after 90 days.
CREATE OR REPLACE FUNCTION has_other_operator(p_person uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM person p
     WHERE p.person_id <> p_person AND p.installation_role = 'operator' AND p.disabled_at IS NULL
       AND (p.password_hash IS NOT NULL OR EXISTS (SELECT FROM person_passkey k WHERE k.person_id = p.person_id)
         OR EXISTS (SELECT FROM person_identity i WHERE i.person_id = p.person_id)))
$$;

-- Returns the operator of a session, and raises SY004 unless it lives and its person is an operator. The limits are those of
-- src/identity/people/sessions.ts and src/http/console/require-confirmation.ts. With `p_needs_confirmation`, a session that was
-- not confirmed in the last 10 minutes can only try what follows, as a dry run does: the commit raises foreign_key_violation.
CREATE OR REPLACE FUNCTION operator_of_session(p_token_hash bytea, p_needs_confirmation boolean) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  -- A former token may be known to another program, so it has no confirmation.
  SELECT p.person_id, s.token_hash = p_token_hash AND s.confirmed_at > now() - interval '10 minutes' AS is_confirmed INTO v
    FROM person_session s JOIN person p USING (person_id)
    WHERE (s.token_hash = p_token_hash OR (s.previous_token_hash = p_token_hash AND s.token_changed_at > now() - interval '30 seconds'))
      AND s.expires_at > now() AND s.last_seen_at > now() - interval '12 hours'
      AND p.installation_role = 'operator' AND p.disabled_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'no operator has this session' USING ERRCODE = 'SY004';
  END IF;
  IF p_needs_confirmation AND NOT v.is_confirmed THEN
    INSERT INTO trial (tx_id) VALUES (-1);
  END IF;
  RETURN v.person_id;
END $$;

-- How many operators are not blocked, with those that cannot sign in yet. Changes of roles queue for the table role_change, so
-- that two of them do not take the last one.
CREATE OR REPLACE FUNCTION count_operators() RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT count(*) FROM person WHERE installation_role = 'operator' AND disabled_at IS NULL $$;

-- Operators are made and unmade on the command line, which is the owner, and by changes that operators have decided: a role of
-- the gateway cannot become one, nor remove the second operator that a large grant needs. Raises insufficient_privilege.
CREATE OR REPLACE FUNCTION refuse_operator_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM gateway_role WHERE name = session_user) THEN
    RETURN coalesce(NEW, OLD);
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.person_id, NEW.disabled_at) IS NOT DISTINCT FROM (OLD.person_id, OLD.disabled_at)
      AND EXISTS (SELECT FROM role_change WHERE person_id = NEW.person_id AND state = 'applying' AND role IS NOT DISTINCT FROM NEW.installation_role)
    THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'operators are changed by operators and on the command line only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE OR REPLACE TRIGGER refuse_new_operator BEFORE INSERT ON person FOR EACH ROW
  WHEN (NEW.installation_role IS NOT NULL) EXECUTE FUNCTION refuse_operator_change();
CREATE OR REPLACE TRIGGER refuse_operator_change BEFORE UPDATE ON person FOR EACH ROW
  WHEN (NEW.installation_role IS DISTINCT FROM OLD.installation_role
    OR (OLD.installation_role IS NOT NULL AND (NEW.person_id, NEW.disabled_at) IS DISTINCT FROM (OLD.person_id, OLD.disabled_at)))
  EXECUTE FUNCTION refuse_operator_change();
CREATE OR REPLACE TRIGGER refuse_operator_delete BEFORE DELETE ON person FOR EACH ROW
  WHEN (OLD.installation_role IS NOT NULL) EXECUTE FUNCTION refuse_operator_change();
