-- Roles on the installation that a sign-in service gives by groups: docs/decisions/2026-11-29-roles-by-groups.md. They last for
-- hours after a sign-in, so that a person who has left the group loses the role without another one.

-- Gives a person who signs in with this service the role of its groups, or takes one that groups gave; NULL: no group has a role.
-- Verdicts: `done`; `by_hand`: operators or the host gave the role, and groups change nothing; `not_verified`, `no_factor`,
-- `blocked`: the person has no role of a group, as in refuse_role. Raises insufficient_privilege for a role that the
-- configuration does not let the service give. Locks the table role_change, then the person, then those that the person has
-- invited, then the audit log; nothing for a person without a role.
CREATE OR REPLACE FUNCTION take_group_role(p_person uuid, p_issuer text, p_role text, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_rule group_role_rule;
  v_from text;
  v_refusal text;
  v_role text := p_role;
BEGIN
  IF p_role IS NULL AND NOT EXISTS (SELECT FROM group_role WHERE person_id = p_person AND issuer = p_issuer) THEN RETURN 'done'; END IF;
  LOCK TABLE role_change IN SHARE ROW EXCLUSIVE MODE;
  SELECT installation_role INTO v_from FROM person WHERE person_id = p_person;
  IF v_from IS NOT NULL AND NOT EXISTS (SELECT FROM group_role WHERE person_id = p_person) THEN RETURN 'by_hand'; END IF;
  IF p_role IS NOT NULL THEN
    SELECT * INTO v_rule FROM group_role_rule WHERE issuer = p_issuer AND role = p_role;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'no group of this service gives the role %', p_role USING ERRCODE = 'insufficient_privilege';
    END IF;
    v_refusal := refuse_group_role(p_person);
    IF v_refusal IS NOT NULL THEN v_role := NULL; END IF;
  END IF;
  IF v_role IS DISTINCT FROM v_from THEN PERFORM set_group_role(p_person, v_role, p_issuer, p_address); END IF;
  IF v_role IS NOT NULL THEN
    INSERT INTO group_role (person_id, issuer, ends_at) VALUES (p_person, p_issuer, now() + make_interval(hours => v_rule.hours))
      ON CONFLICT (person_id) DO UPDATE SET issuer = excluded.issuer, ends_at = excluded.ends_at;
  END IF;
  RETURN coalesce(v_refusal, 'done');
END $$;

-- Takes the roles whose time is over, and those that the configuration lets no group give any more. Returns their number. With
-- any, locks as take_group_role.
CREATE OR REPLACE FUNCTION end_group_roles() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_ended bigint := 0;
  r record;
BEGIN
  IF NOT EXISTS (SELECT FROM over_group_roles()) THEN RETURN 0; END IF;
  LOCK TABLE role_change IN SHARE ROW EXCLUSIVE MODE;
  FOR r IN SELECT * FROM over_group_roles() LOOP
    PERFORM set_group_role(r.person_id, NULL, r.issuer, NULL);
    v_ended := v_ended + 1;
  END LOOP;
  RETURN v_ended;
END $$;

-- The roles that end_group_roles takes.
CREATE OR REPLACE FUNCTION over_group_roles() RETURNS SETOF group_role
LANGUAGE sql STABLE AS $$
  SELECT g.* FROM group_role g JOIN person p USING (person_id)
    WHERE g.ends_at <= now() OR NOT EXISTS (SELECT FROM group_role_rule u WHERE u.issuer = g.issuer AND u.role = p.installation_role)
$$;

-- Why a person gets no role of a group now; NULL: the person gets it.
CREATE OR REPLACE FUNCTION refuse_group_role(p_person uuid) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE
      WHEN p.disabled_at IS NOT NULL THEN 'blocked'
      WHEN p.email_verified_at IS NULL THEN 'not_verified'
      WHEN p.totp_secret IS NULL AND NOT EXISTS (SELECT FROM person_passkey k WHERE k.person_id = p.person_id) THEN 'no_factor'
    END
  FROM person p WHERE p.person_id = p_person
$$;

-- Changes the role without a second operator, and ends the sessions of the person. The last operator loses it too: the host makes
-- another one. Call it with the table role_change locked.
CREATE OR REPLACE FUNCTION set_group_role(p_person uuid, p_role text, p_issuer text, p_address text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_change uuid := gen_random_uuid();
  v_person person;
BEGIN
  SELECT * INTO v_person FROM person WHERE person_id = p_person FOR NO KEY UPDATE;
  -- The trigger refuse_operator_change lets only a change through that is being applied.
  INSERT INTO role_change (change_id, person_id, role, requested_by, state, decided_at)
    VALUES (v_change, p_person, p_role, p_person, 'applying', clock_timestamp());
  UPDATE person SET installation_role = p_role, invited_role = NULL, invited_by = NULL, invited_at = NULL WHERE person_id = p_person;
  UPDATE role_change SET state = 'done' WHERE change_id = v_change;
  IF p_role IS DISTINCT FROM 'operator' THEN PERFORM drop_invited_roles(p_person); END IF;
  DELETE FROM group_role WHERE person_id = p_person;
  DELETE FROM person_session WHERE person_id = p_person;
  PERFORM add_audit_entry(NULL, 'role.changed', v_person.email, NULL,
    jsonb_build_object('from', v_person.installation_role, 'to', p_role, 'by_groups_of', p_issuer), p_address);
END $$;
