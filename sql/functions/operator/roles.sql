-- Returns `waiting` for a second operator, `done` without one, or why the change is refused. The same request by another operator
-- approves the one that waits; a different one replaces it, and the audit log has that one as rejected. Locks the table
-- role_change, then the person, then those that the person has invited, then the audit log.
CREATE OR REPLACE FUNCTION request_role_as(p_operator uuid, p_change uuid, p_person uuid, p_role text, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_refusal text;
  v_replaced jsonb;
  v_state text;
  v_same role_change;
BEGIN
  LOCK TABLE role_change IN SHARE ROW EXCLUSIVE MODE;
  v_refusal := refuse_role(p_person, p_role);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  SELECT * INTO v_same FROM role_change
    WHERE person_id = p_person AND state = 'waiting' AND role IS NOT DISTINCT FROM p_role AND requested_by <> p_operator AND is_operator(requested_by);
  IF FOUND THEN
    PERFORM apply_role_change(v_same.change_id, p_operator, p_address);
    RETURN 'done';
  END IF;
  UPDATE role_change SET state = 'rejected', decided_by = p_operator, decided_at = clock_timestamp() WHERE person_id = p_person AND state = 'waiting'
    RETURNING jsonb_build_object('to', role, 'requested_by', requested_by) INTO v_replaced;
  INSERT INTO role_change (change_id, person_id, role, requested_by, state) VALUES (p_change, p_person, p_role, p_operator, 'waiting');
  IF count_operators() > 1 THEN
    PERFORM add_audit_entry(p_operator, 'role.requested', (SELECT email FROM person WHERE person_id = p_person), NULL,
      jsonb_build_object('to', p_role), p_address);
    v_state := 'waiting';
  ELSE
    PERFORM apply_role_change(p_change, p_operator, p_address);
    v_state := 'done';
  END IF;
  IF v_replaced IS NOT NULL THEN
    PERFORM add_audit_entry(p_operator, 'role.rejected', (SELECT email FROM person WHERE person_id = p_person), NULL, v_replaced, p_address);
  END IF;
  RETURN v_state;
END $$;

-- Approves what another operator asked for, or rejects it. Returns `done`, `rejected`, `unknown`, `own_request`,
-- `requester_lost_role` (such a change can only be rejected), or why the change is refused. Locks the table role_change, then the
-- person, then the audit log.
CREATE OR REPLACE FUNCTION decide_role_as(p_operator uuid, p_change uuid, p_is_approved boolean, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v role_change;
  v_refusal text;
BEGIN
  LOCK TABLE role_change IN SHARE ROW EXCLUSIVE MODE;
  SELECT * INTO v FROM role_change WHERE change_id = p_change AND state = 'waiting';
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF NOT p_is_approved THEN
    UPDATE role_change SET state = 'rejected', decided_by = p_operator, decided_at = clock_timestamp() WHERE change_id = p_change;
    PERFORM add_audit_entry(p_operator, 'role.rejected', (SELECT email FROM person WHERE person_id = v.person_id), NULL,
      jsonb_build_object('to', v.role, 'requested_by', v.requested_by), p_address);
    RETURN 'rejected';
  END IF;
  IF v.requested_by = p_operator THEN RETURN 'own_request'; END IF;
  IF NOT EXISTS (SELECT FROM person WHERE person_id = v.requested_by AND installation_role = 'operator' AND disabled_at IS NULL) THEN
    RETURN 'requester_lost_role';
  END IF;
  v_refusal := refuse_role(v.person_id, v.role);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  PERFORM apply_role_change(p_change, p_operator, p_address);
  RETURN 'done';
END $$;

-- Why a person cannot get this role now; NULL: the change is possible. With the role, the address and the factors of the person
-- are worth the installation, so the console gives it only to those that have proved both. An operator who hands over the link of
-- an invitation vouches for the address, for this role: without a mail server, nobody can prove one. An operator who becomes an
-- auditor needs no proof again.
CREATE OR REPLACE FUNCTION refuse_role(p_person uuid, p_role text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  v person;
BEGIN
  SELECT * INTO v FROM person WHERE person_id = p_person;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF v.installation_role IS NOT DISTINCT FROM p_role THEN RETURN 'unchanged'; END IF;
  IF v.installation_role = 'operator' AND v.disabled_at IS NULL AND count_operators() = 1 THEN RETURN 'last_operator'; END IF;
  IF p_role IS NULL THEN RETURN NULL; END IF;
  IF v.disabled_at IS NOT NULL THEN RETURN 'blocked'; END IF;
  IF v.email_verified_at IS NULL AND v.installation_role IS DISTINCT FROM 'operator' AND invited_role_of(v) IS DISTINCT FROM p_role THEN
    RETURN 'not_verified';
  END IF;
  IF v.totp_secret IS NULL AND NOT EXISTS (SELECT FROM person_passkey WHERE person_id = p_person) THEN RETURN 'no_factor'; END IF;
  RETURN NULL;
END $$;

-- The role for which a person has come by an invitation that still counts: its maker is an operator, and it was accepted in the
-- last 14 days. src/operator/people.ts lists those people.
CREATE OR REPLACE FUNCTION invited_role_of(p person) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT CASE WHEN p.invited_at > now() - interval '14 days' AND is_operator(p.invited_by) THEN p.invited_role END $$;

-- Gives the role, and ends the sessions of the person: those of operators are shorter. Call it with the table role_change locked.
-- Locks the person, then those that the person has invited, then the audit log.
CREATE OR REPLACE FUNCTION apply_role_change(p_change uuid, p_by uuid, p_address text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v role_change;
  v_person person;
BEGIN
  UPDATE role_change SET state = 'applying', decided_by = p_by, decided_at = clock_timestamp() WHERE change_id = p_change RETURNING * INTO v;
  SELECT * INTO v_person FROM person WHERE person_id = v.person_id FOR NO KEY UPDATE;
  UPDATE person SET installation_role = v.role, invited_role = NULL, invited_by = NULL, invited_at = NULL WHERE person_id = v.person_id;
  IF v.role IS DISTINCT FROM 'operator' THEN PERFORM drop_invited_roles(v.person_id); END IF;
  DELETE FROM group_role WHERE person_id = v.person_id;
  DELETE FROM person_session WHERE person_id = v.person_id;
  UPDATE role_change SET state = 'done' WHERE change_id = p_change;
  PERFORM add_audit_entry(p_by, 'role.changed', v_person.email, NULL,
    jsonb_build_object('from', v_person.installation_role, 'to', v.role, 'requested_by', v.requested_by), p_address);
END $$;

-- Ends the accepted invitations of an operator that have given no role, also if the person becomes an operator again.
CREATE OR REPLACE FUNCTION drop_invited_roles(p_by uuid) RETURNS void
LANGUAGE sql AS $$ UPDATE person SET invited_role = NULL, invited_by = NULL, invited_at = NULL WHERE invited_by = p_by $$;

-- Like request_role_as, with the same locks, for a confirmed session of an operator. Raises SY004 for another one.
CREATE OR REPLACE FUNCTION request_role_by_operator(p_session bytea, p_change uuid, p_person uuid, p_role text, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT request_role_as(operator_of_session(p_session, true), p_change, p_person, p_role, p_address) $$;

-- Like decide_role_as, with the same locks, for a confirmed session of an operator. Raises SY004 for another one.
CREATE OR REPLACE FUNCTION decide_role_by_operator(p_session bytea, p_change uuid, p_is_approved boolean, p_address text) RETURNS text
LANGUAGE sql AS $$ SELECT decide_role_as(operator_of_session(p_session, true), p_change, p_is_approved, p_address) $$;
