-- Appends an entry. Its detail also names the program that acts: see acting_program. Locks the audit log: entries queue, so that
-- each knows the one before it.
CREATE OR REPLACE FUNCTION add_audit_entry(p_person_id uuid, p_action text, p_subject text, p_customer_id uuid, p_detail jsonb,
  p_address text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_previous audit_entry;
  v_entry audit_entry;
BEGIN
  PERFORM pg_advisory_xact_lock(x'73796c67'::int);  -- "sylg" in ASCII; any number that no other lock uses
  SELECT * INTO v_previous FROM audit_entry ORDER BY entry_id DESC LIMIT 1;
  v_entry.entry_id := coalesce(v_previous.entry_id, 0) + 1;
  v_entry.at := clock_timestamp();
  v_entry.person_id := p_person_id;
  v_entry.action := p_action;
  v_entry.subject := p_subject;
  v_entry.customer_id := p_customer_id;
  v_entry.detail := p_detail || acting_program();
  v_entry.address := p_address;
  v_entry.hash := audit_entry_hash(coalesce(v_previous.hash, ''), v_entry);
  INSERT INTO audit_entry SELECT v_entry.*;
  RETURN v_entry.entry_id;
END $$;

-- The program behind a change, for the detail of its entry. `by_key_id`: the key of an operator, which the transaction has set.
-- `by_os_user`: the user of the operating system on the command line, which the connection has set. A role of the gateway cannot
-- claim to be the command line.
CREATE OR REPLACE FUNCTION acting_program() RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'by_key_id', nullif(current_setting('switchyard.key_id', true), ''),
    'by_os_user', CASE WHEN NOT EXISTS (SELECT FROM gateway_role WHERE name = session_user)
      THEN nullif(current_setting('switchyard.os_user', true), '') END))
$$;

-- The hash of an entry. A stored jsonb is always written as the same text.
CREATE OR REPLACE FUNCTION audit_entry_hash(p_previous bytea, p audit_entry) RETURNS bytea
LANGUAGE sql STABLE AS $$
  SELECT sha256(p_previous || convert_to(jsonb_build_array(p.entry_id, extract(epoch FROM p.at)::text, p.person_id,
    p.action, p.subject, p.customer_id, p.detail, p.address)::text, 'UTF8'))
$$;

-- The entries with a hash that does not follow from the entry before them: they or a neighbour were changed or removed.
CREATE OR REPLACE VIEW audit_log_break AS
  SELECT entry_id
    FROM (SELECT e, e.entry_id, e.hash, lag(e.hash, 1, ''::bytea) OVER in_order AS previous_hash,
                 lag(e.entry_id, 1, 0::bigint) OVER in_order AS previous_id
            FROM audit_entry e WINDOW in_order AS (ORDER BY e.entry_id)) entries
   WHERE entry_id <> previous_id + 1 OR hash <> audit_entry_hash(previous_hash, e);
