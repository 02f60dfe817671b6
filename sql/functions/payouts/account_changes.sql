-- Asks for another payout account of a hoster, which takes effect `p_wait_hours` later. The account that the hoster has, and the
-- one that waits, keep their time: they only get the new state. `p_identities` are the bank accounts behind it, as far as known.
-- Returns the state of the account; NULL when there is no such hoster. `p_person` is NULL for the command line. Locks the hoster,
-- then the claims of its bank accounts, then the audit log.
CREATE OR REPLACE FUNCTION set_payout_account(p_change uuid, p_hoster uuid, p_driver text, p_destination text, p_holder text, p_identities text[],
  p_is_ready boolean, p_note text, p_person uuid, p_address text, p_now timestamptz, p_wait_hours integer)
RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_state text;
  v_note text;
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  v_state := claim_payout_identities(p_hoster, p_identities || (p_driver || ':' || p_destination), p_is_ready);
  v_note := CASE WHEN v_state = 'refused' THEN 'Another hoster is paid to this account.' ELSE p_note END;
  UPDATE hoster_account SET state = v_state, note = v_note, updated_at = p_now
    WHERE hoster_id = p_hoster AND (driver, destination) = (p_driver, p_destination) AND holder IS NOT DISTINCT FROM p_holder AND p_identities <@ identities;
  IF FOUND THEN
    UPDATE payout_change SET outcome = 'replaced', ended_at = p_now, ended_by = p_person WHERE hoster_id = p_hoster AND kind = 'account' AND outcome IS NULL;
    RETURN v_state;
  END IF;
  UPDATE payout_change SET state = v_state, note = v_note
    WHERE hoster_id = p_hoster AND outcome IS NULL AND (driver, destination) = (p_driver, p_destination) AND holder IS NOT DISTINCT FROM p_holder
      AND p_identities <@ identities;
  IF NOT FOUND THEN
    PERFORM add_payout_change((p_change, p_hoster, 'account', NULL, p_driver, v_state, p_destination, p_holder, v_note, p_identities, p_person, p_now,
      p_now + make_interval(hours => p_wait_hours), NULL, NULL, NULL, '{}')::payout_change, p_address);
  END IF;
  RETURN v_state;
END $$;

-- Asks for another customer that can receive the earnings, which waits as an account of set_payout_account does. Returns false
-- when there is no such hoster, or no account of such a customer. Locks the hoster, then the audit log.
CREATE OR REPLACE FUNCTION set_hoster_customer(p_change uuid, p_hoster uuid, p_customer uuid, p_person uuid, p_address text, p_now timestamptz, p_wait_hours integer)
RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  IF NOT FOUND OR NOT EXISTS (SELECT FROM balance WHERE customer_id = p_customer) THEN
    RETURN false;
  END IF;
  IF EXISTS (SELECT FROM hoster_account WHERE hoster_id = p_hoster AND customer_id = p_customer) THEN
    UPDATE payout_change SET outcome = 'replaced', ended_at = p_now, ended_by = p_person WHERE hoster_id = p_hoster AND kind = 'customer' AND outcome IS NULL;
  ELSIF NOT EXISTS (SELECT FROM payout_change WHERE hoster_id = p_hoster AND customer_id = p_customer AND outcome IS NULL) THEN
    PERFORM add_payout_change((p_change, p_hoster, 'customer', p_customer, NULL, NULL, NULL, NULL, NULL, '{}', p_person, p_now,
      p_now + make_interval(hours => p_wait_hours), NULL, NULL, NULL, '{}')::payout_change, p_address);
  END IF;
  RETURN true;
END $$;

-- Notes what a provider reports of an account. Another bank account behind it redirects money too: nothing is sent to it until
-- that has waited. Does nothing for accounts of others. Locks the hoster, then the claims of its bank accounts, then the audit
-- log.
CREATE OR REPLACE FUNCTION note_payout_account(p_change uuid, p_driver text, p_destination text, p_identities text[], p_is_ready boolean, p_note text,
  p_now timestamptz, p_wait_hours integer)
RETURNS void
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_hoster uuid;
  v_account hoster_account;
  v_waiting payout_change;
  v_next payout_change;
  v_state text;
  v_note text;
  v_is_stopped boolean;
BEGIN
  -- An account at a provider belongs to one hoster.
  SELECT hoster_id INTO v_hoster FROM payout_identity WHERE identity = p_driver || ':' || p_destination;
  PERFORM FROM hoster WHERE hoster_id = v_hoster FOR NO KEY UPDATE;
  SELECT * INTO v_account FROM hoster_account WHERE hoster_id = v_hoster AND (driver, destination) = (p_driver, p_destination);
  SELECT * INTO v_waiting FROM payout_change WHERE hoster_id = v_hoster AND (driver, destination) = (p_driver, p_destination) AND outcome IS NULL;
  IF v_account.hoster_id IS NULL AND v_waiting.change_id IS NULL THEN
    RETURN;
  END IF;
  v_state := claim_payout_identities(v_hoster, p_identities, p_is_ready);
  v_note := CASE WHEN v_state = 'refused' THEN 'Another hoster is paid to this account.' ELSE p_note END;
  IF v_account.hoster_id IS NOT NULL AND p_identities <@ v_account.identities THEN
    -- Back at the bank account that was there before.
    UPDATE payout_change SET outcome = 'replaced', ended_at = p_now WHERE change_id = v_waiting.change_id;
    UPDATE hoster_account SET state = v_state, note = v_note, updated_at = p_now WHERE hoster_id = v_hoster;
    IF v_account.state <> v_state THEN
      PERFORM add_audit_entry(NULL, 'hoster.payout_account', v_hoster::text, NULL,
        jsonb_build_object('driver', p_driver, 'account', '…' || right(p_destination, 4), 'state', v_state), NULL);
    END IF;
    RETURN;
  END IF;
  IF v_waiting.change_id IS NULL THEN
    SELECT outcome = 'stopped' AND p_identities <@ identities INTO v_is_stopped FROM payout_change
      -- If two have the same time, the stopped one counts: in doubt, nothing is sent.
      WHERE hoster_id = v_hoster AND destination = p_destination ORDER BY requested_at DESC, outcome = 'stopped' DESC LIMIT 1;
  END IF;
  UPDATE hoster_account SET state = 'pending', updated_at = p_now, note = CASE
      WHEN v_is_stopped THEN 'The bank account was changed, and an owner stopped that. Enter the former one at the provider, or change the account.'
      ELSE 'The bank account was changed. Nothing is sent until that takes effect.' END
    WHERE hoster_id = v_account.hoster_id;
  IF v_is_stopped THEN
    RETURN;
  ELSIF p_identities <@ v_waiting.identities THEN
    UPDATE payout_change SET state = v_state, note = v_note WHERE change_id = v_waiting.change_id;
    RETURN;
  END IF;
  -- The wait begins when the bank account is known.
  v_next := (p_change, v_hoster, 'account', NULL, p_driver, v_state, p_destination, NULL, v_note, p_identities, v_waiting.requested_by, p_now,
    p_now + make_interval(hours => p_wait_hours), NULL, NULL, NULL, '{}')::payout_change;
  PERFORM add_payout_change(v_next, NULL);
END $$;

-- Claims bank accounts for a locked hoster. Returns the state of an account with them: 'refused' when another hoster has one.
-- Locks the claims in the order of the identities, so that two calls never deadlock.
CREATE OR REPLACE FUNCTION claim_payout_identities(p_hoster uuid, p_identities text[], p_is_ready boolean) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payout_identity (identity, hoster_id) SELECT DISTINCT i, p_hoster FROM unnest(p_identities) i ORDER BY i ON CONFLICT DO NOTHING;
  IF EXISTS (SELECT FROM payout_identity WHERE identity = ANY (p_identities) AND hoster_id <> p_hoster) THEN
    RETURN 'refused';
  END IF;
  RETURN CASE WHEN p_is_ready THEN 'ready' ELSE 'pending' END;
END $$;

-- Lets a change of a locked hoster wait, in the place of the one that waits. Locks the audit log.
CREATE OR REPLACE FUNCTION add_payout_change(p payout_change, p_address text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payout_change SET outcome = 'replaced', ended_at = p.requested_at, ended_by = p.requested_by
    WHERE hoster_id = p.hoster_id AND kind = p.kind AND outcome IS NULL;
  INSERT INTO payout_change SELECT p.*;
  PERFORM add_audit_entry(p.requested_by, 'hoster.payout_change_requested', p.hoster_id::text, p.customer_id,
    payout_change_detail(p) || jsonb_build_object('effective_at', p.effective_at), p_address);
  PERFORM apply_payout_changes_of(p.hoster_id, p.requested_at);
END $$;

-- Applies all changes that are due. Locks the hosters in the order of hoster_id, then the audit log.
CREATE OR REPLACE FUNCTION apply_payout_changes(p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_hosters uuid[] := ARRAY(SELECT DISTINCT hoster_id FROM payout_change WHERE outcome IS NULL AND effective_at <= p_now);
  v_hoster uuid;
BEGIN
  PERFORM lock_hosters(v_hosters);
  FOREACH v_hoster IN ARRAY v_hosters LOOP
    PERFORM apply_payout_changes_of(v_hoster, p_now);
  END LOOP;
END $$;

-- Applies the changes of a locked hoster that are due. If the person who asked for one has left or was blocked, it is stopped.
-- Locks the audit log.
CREATE OR REPLACE FUNCTION apply_payout_changes_of(p_hoster uuid, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v payout_change;
BEGIN
  FOR v IN SELECT * FROM payout_change WHERE hoster_id = p_hoster AND outcome IS NULL AND effective_at <= p_now ORDER BY kind LOOP
    IF NOT may_change_payouts(p_hoster, v.requested_by) THEN
      PERFORM stop_payout_changes(p_hoster, v.change_id, NULL, NULL, p_now);
      CONTINUE;
    ELSIF v.state <> 'ready' THEN
      CONTINUE;
    END IF;
    UPDATE payout_change SET outcome = 'applied', ended_at = p_now WHERE change_id = v.change_id;
    INSERT INTO hoster_account (hoster_id) VALUES (p_hoster) ON CONFLICT DO NOTHING;
    IF v.kind = 'customer' THEN
      UPDATE hoster_account SET customer_id = v.customer_id, updated_at = p_now WHERE hoster_id = p_hoster;
    ELSE
      UPDATE hoster_account SET driver = v.driver, state = v.state, destination = v.destination, holder = v.holder, note = v.note,
        identities = v.identities, updated_at = p_now WHERE hoster_id = p_hoster;
    END IF;
    PERFORM add_audit_entry(v.requested_by, CASE v.kind WHEN 'customer' THEN 'hoster.customer' ELSE 'hoster.payout_account' END, p_hoster::text,
      v.customer_id, payout_change_detail(v), NULL);
  END LOOP;
END $$;

-- Whether a person may still say where a locked hoster is paid: see rightsByRole in src/base/domain/hoster-access.ts.
CREATE OR REPLACE FUNCTION may_change_payouts(p_hoster uuid, p_person uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT p_person IS NULL OR EXISTS (
    SELECT FROM hoster_member m JOIN person p USING (person_id)
    WHERE m.hoster_id = p_hoster AND m.person_id = p_person AND m.role IN ('owner', 'billing') AND p.disabled_at IS NULL)
$$;

-- Stops a change that waits, or with NULL all changes of the hoster. Returns how many. Locks the hoster, then the audit log.
CREATE OR REPLACE FUNCTION stop_payout_changes(p_hoster uuid, p_change uuid, p_person uuid, p_address text, p_now timestamptz) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout_change;
  v_count integer := 0;
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  FOR v IN UPDATE payout_change SET outcome = 'stopped', ended_at = p_now, ended_by = p_person
    WHERE hoster_id = p_hoster AND outcome IS NULL AND (p_change IS NULL OR change_id = p_change) RETURNING *
  LOOP
    v_count := v_count + 1;
    PERFORM add_audit_entry(p_person, 'hoster.payout_change_stopped', p_hoster::text, v.customer_id, payout_change_detail(v), p_address);
  END LOOP;
  RETURN v_count;
END $$;

-- What the audit log keeps of a change.
CREATE OR REPLACE FUNCTION payout_change_detail(p payout_change) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('change', p.change_id, 'driver', p.driver, 'account', '…' || right(p.destination, 4), 'state', p.state,
    'customer', p.customer_id))
$$;

-- Notes that an owner has the mail about a change.
CREATE OR REPLACE FUNCTION note_payout_change_mailed(p_change uuid, p_person uuid) RETURNS void
LANGUAGE sql AS $$
  UPDATE payout_change SET mailed_to = mailed_to || p_person WHERE change_id = p_change AND p_person <> ALL (mailed_to)
$$;
