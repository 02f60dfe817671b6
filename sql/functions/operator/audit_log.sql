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
  IF p_address IS NOT NULL THEN
    v_entry.address_salt := uuid_send(gen_random_uuid());
    v_entry.address_proof := sha256(v_entry.address_salt || convert_to(p_address, 'UTF8'));
  END IF;
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

-- The hash of an entry. A stored jsonb is always written as the same text. An address counts by its proof, so that it can leave;
-- one that does not fit its proof gives no hash. Entries of before there were proofs count with the address itself.
CREATE OR REPLACE FUNCTION audit_entry_hash(p_previous bytea, p audit_entry) RETURNS bytea
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p.address_proof IS NOT NULL
      AND NOT coalesce(sha256(p.address_salt || convert_to(p.address, 'UTF8')) = p.address_proof,
        p.address IS NULL AND p.address_salt IS NULL)
    THEN ''::bytea
    ELSE sha256(p_previous || convert_to(jsonb_build_array(p.entry_id, extract(epoch FROM p.at)::text, p.person_id, p.action,
      p.subject, p.customer_id, p.detail, CASE WHEN p.address_proof IS NULL THEN to_jsonb(p.address)
        ELSE jsonb_build_object('proof', encode(p.address_proof, 'hex')) END)::text, 'UTF8')) END
$$;

-- Takes the addresses out of entries of before a time, and of more than 30 days ago whatever the caller says: at most 10,000.
-- Returns their number. All else of an entry stays, and so do the hashes. Locks these entries.
CREATE OR REPLACE FUNCTION forget_audit_addresses(p_before timestamptz) RETURNS bigint
LANGUAGE sql AS $$
  WITH forgotten AS (
    UPDATE audit_entry SET address = NULL, address_salt = NULL
     WHERE entry_id IN (SELECT entry_id FROM audit_entry WHERE address IS NOT NULL AND address_proof IS NOT NULL
       AND at < least(p_before, now() - interval '30 days') ORDER BY entry_id LIMIT 10000)
    RETURNING 1)
  SELECT count(*) FROM forgotten
$$;

-- The entries with a hash that does not follow from the entry before them: they or a neighbour were changed or removed.
CREATE OR REPLACE VIEW audit_log_break AS
  SELECT entry_id
    FROM (SELECT e, e.entry_id, e.hash, lag(e.hash, 1, ''::bytea) OVER in_order AS previous_hash,
                 lag(e.entry_id, 1, 0::bigint) OVER in_order AS previous_id
            FROM audit_entry e WINDOW in_order AS (ORDER BY e.entry_id)) entries
   WHERE entry_id <> previous_id + 1 OR hash <> audit_entry_hash(previous_hash, e);
