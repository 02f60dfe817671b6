-- Steps of a move of a customer to another cell. Each is one transaction and may be repeated; move-customer.ts has their order.
-- Only the owner calls them. The money is never in both cells: send takes it out of one, receive brings it in.

-- Stops the admission of a customer: gateways refuse its keys for now. Returns the move; that of an earlier call, if it has not
-- ended or has brought the customer there. Locks the balance, then the leases that it recalls. Raises raise_exception when the
-- customer cannot move.
CREATE OR REPLACE FUNCTION begin_cell_move(p_customer uuid, p_cell text) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
  v_move cell_move;
  v_obstacle text;
BEGIN
  PERFORM lock_balances(ARRAY[p_customer]);
  SELECT * INTO v_move FROM cell_move WHERE customer_id = p_customer AND state IN ('stopped', 'sent');
  IF FOUND THEN
    IF v_move.cell <> p_cell THEN RAISE EXCEPTION 'it is moving to % already', v_move.cell; END IF;
    RETURN v_move.move_id;
  END IF;
  SELECT * INTO v_move FROM cell_move WHERE customer_id = p_customer AND state IN ('done', 'received') ORDER BY at DESC LIMIT 1;
  IF v_move.state = 'done' AND v_move.cell = p_cell THEN RETURN v_move.move_id; END IF;
  v_obstacle := obstacle_to_move(p_customer, p_cell);
  IF v_obstacle IS NOT NULL THEN RAISE EXCEPTION '%', v_obstacle; END IF;
  v_move.move_id := gen_random_uuid();
  INSERT INTO cell_move (move_id, customer_id, direction, cell, state) VALUES (v_move.move_id, p_customer, 'out', p_cell, 'stopped');
  PERFORM mark_cell_keys(p_customer, true, NULL);
  PERFORM recall_bulk_leases(ARRAY[p_customer], '00000000-0000-0000-0000-000000000000', false);
  RETURN v_move.move_id;
END $$;

-- Takes the balance of a stopped customer out of this cell, ends what is left of it here, and returns what the other cell needs;
-- NULL: the move is done. Locks the move, then the balance. Raises raise_exception while requests hold money.
CREATE OR REPLACE FUNCTION send_cell_move(p_move uuid) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_move cell_move;
  v_parcel jsonb;
  v_amount bigint;
  v_promo bigint;
BEGIN
  SELECT * INTO STRICT v_move FROM cell_move WHERE move_id = p_move FOR UPDATE;
  IF v_move.state <> 'stopped' THEN RETURN (SELECT parcel FROM cell_parcel WHERE move_id = p_move); END IF;
  PERFORM lock_balances(ARRAY[v_move.customer_id]);
  IF EXISTS (SELECT FROM lease WHERE customer_id = v_move.customer_id) THEN RAISE EXCEPTION 'requests of the customer still run'; END IF;
  SELECT posted_nanos INTO v_amount FROM balance WHERE customer_id = v_move.customer_id;
  v_promo := least(v_amount, coalesce((SELECT remains FROM promotion_days(ARRAY[v_move.customer_id]) ORDER BY day DESC LIMIT 1), 0));
  v_parcel := parcel_of(v_move.customer_id) || jsonb_build_object('own_nanos', v_amount - v_promo, 'promo_nanos', v_promo);
  PERFORM post_cell_move(p_move::text, v_move.customer_id, -(v_amount - v_promo), -v_promo, 'moved to the cell ' || v_move.cell);
  UPDATE cell_move SET state = 'sent', amount_nanos = v_amount, at = clock_timestamp() WHERE move_id = p_move;
  INSERT INTO cell_parcel (move_id, parcel) VALUES (p_move, v_parcel);
  -- The customer is an archive here: no rule warns of its empty balance, and nobody changes what no longer counts.
  UPDATE customer SET disabled_at = coalesce(disabled_at, now()) WHERE customer_id = v_move.customer_id;
  UPDATE alert_rule SET disabled_at = now() WHERE customer_id = v_move.customer_id AND disabled_at IS NULL;
  DELETE FROM membership WHERE customer_id = v_move.customer_id;
  RETURN v_parcel;
END $$;

-- Ends a move whose other cell has received it: from now on, keys are passed on to that one. Locks the move.
CREATE OR REPLACE FUNCTION finish_cell_move(p_move uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_move cell_move;
BEGIN
  SELECT * INTO STRICT v_move FROM cell_move WHERE move_id = p_move FOR UPDATE;
  IF v_move.state <> 'sent' THEN RETURN; END IF;
  UPDATE cell_move SET state = 'done' WHERE move_id = p_move;
  DELETE FROM cell_parcel WHERE move_id = p_move;
  PERFORM mark_cell_keys(v_move.customer_id, false, v_move.cell);
END $$;

-- Ends a move that the other cell has refused, or has not seen: the customer goes on here, as if nothing had happened. Locks the
-- move, then the balance.
CREATE OR REPLACE FUNCTION undo_cell_move(p_move uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_move cell_move;
  v_parcel jsonb;
BEGIN
  SELECT * INTO STRICT v_move FROM cell_move WHERE move_id = p_move FOR UPDATE;
  IF v_move.state NOT IN ('stopped', 'sent') THEN RETURN; END IF;
  PERFORM lock_balances(ARRAY[v_move.customer_id]);
  DELETE FROM cell_parcel WHERE move_id = p_move RETURNING parcel INTO v_parcel;
  IF v_move.state = 'sent' THEN
    PERFORM post_cell_move(p_move || ':undone', v_move.customer_id, (v_parcel->>'own_nanos')::bigint,
      (v_parcel->>'promo_nanos')::bigint, 'did not move to the cell ' || v_move.cell);
    UPDATE customer c SET disabled_at = p.disabled_at
      FROM jsonb_populate_recordset(NULL::customer, v_parcel->'customer') p WHERE c.customer_id = p.customer_id;
    UPDATE alert_rule r SET disabled_at = NULL
      FROM jsonb_populate_recordset(NULL::alert_rule, rows_of(v_parcel, 'alert_rule')) p WHERE r.rule_id = p.rule_id;
    INSERT INTO membership SELECT * FROM jsonb_populate_recordset(NULL::membership, rows_of(v_parcel, 'membership'));
  END IF;
  UPDATE cell_move SET state = 'undone' WHERE move_id = p_move;
  PERFORM mark_cell_keys(v_move.customer_id, false, NULL);
END $$;

-- Why a customer cannot move; NULL: nothing stands in the way.
CREATE OR REPLACE FUNCTION obstacle_to_move(p_customer uuid, p_cell text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN own_cell() IS NULL THEN 'this cell has no name; run switchyard cell link'
    WHEN own_cell() = p_cell THEN 'it is in this cell'
    WHEN NOT EXISTS (SELECT FROM balance WHERE customer_id = p_customer) THEN 'it has no account here'
    WHEN last_cell_of(p_customer) <> own_cell() THEN 'it has moved to ' || last_cell_of(p_customer)
    WHEN EXISTS (SELECT FROM customer WHERE customer_id = p_customer AND deleted_at IS NOT NULL) THEN 'it is deleted'
    WHEN EXISTS (SELECT FROM balance WHERE customer_id = p_customer AND debt_nanos > 0) THEN 'it has a debt'
    WHEN EXISTS (SELECT FROM payment WHERE customer_id = p_customer AND state IN ('open', 'processing')) THEN 'it has a payment under way'
    WHEN EXISTS (SELECT FROM payment_reversal WHERE customer_id = p_customer AND state = 'asked') THEN 'it has a refund under way'
    WHEN EXISTS (SELECT FROM grant_request WHERE customer_id = p_customer AND state = 'waiting') THEN 'it has a grant that waits for a decision'
    WHEN EXISTS (SELECT FROM hoster_account WHERE customer_id = p_customer) THEN 'a hoster of this cell moves earnings to it'
    WHEN EXISTS (SELECT FROM house_customer WHERE customer_id = p_customer) THEN 'it is the house account of this cell' END
$$;

-- The cell that a customer of this ledger is in now.
CREATE OR REPLACE FUNCTION last_cell_of(p_customer uuid) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT CASE state WHEN 'done' THEN cell ELSE own_cell() END FROM cell_move
    WHERE customer_id = p_customer AND state IN ('done', 'received') ORDER BY at DESC LIMIT 1), own_cell())
$$;

-- Notes the state of all keys of a customer for the other cells, and lets the nodes of this one notice it.
CREATE OR REPLACE FUNCTION mark_cell_keys(p_customer uuid, p_is_moving boolean, p_moved_to text) RETURNS void
LANGUAGE sql AS $$
  UPDATE cell_key SET is_moving = p_is_moving, moved_to = p_moved_to
   WHERE cell = own_cell() AND key_hash IN (SELECT unnest(hashes_of_key(k)) FROM api_key k WHERE customer_id = p_customer);
  UPDATE control_version SET version = version + 1 WHERE topic = 'access'
$$;

-- What another cell needs to serve a customer, as JSON of whole rows.
CREATE OR REPLACE FUNCTION parcel_of(p_customer uuid) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH people AS (
    SELECT person_id FROM membership WHERE customer_id = p_customer
    UNION SELECT unnest(ARRAY[person_id, former_person_id]) FROM api_key WHERE customer_id = p_customer
    UNION SELECT person_id FROM member_limit WHERE customer_id = p_customer
  )
  SELECT jsonb_build_object(
    'customer', (SELECT jsonb_agg(c) FROM customer c WHERE customer_id = p_customer),
    -- Roles on the installation are those of a cell.
    'person', (SELECT jsonb_agg(to_jsonb(p) || '{"installation_role": null, "invited_role": null, "invited_by": null, "invited_at": null}')
      FROM person p JOIN people USING (person_id)),
    'person_passkey', (SELECT jsonb_agg(k) FROM person_passkey k JOIN people USING (person_id)),
    'person_recovery_code', (SELECT jsonb_agg(r) FROM person_recovery_code r JOIN people USING (person_id)),
    'person_identity', (SELECT jsonb_agg(i) FROM person_identity i JOIN people USING (person_id)),
    'membership', (SELECT jsonb_agg(m) FROM membership m WHERE customer_id = p_customer),
    'member_limit', (SELECT jsonb_agg(l) FROM member_limit l WHERE customer_id = p_customer),
    'api_key', (SELECT jsonb_agg(k) FROM api_key k WHERE customer_id = p_customer AND revoked_at IS NULL),
    'key_spend', (SELECT jsonb_agg(s) FROM key_spend s WHERE customer_id = p_customer AND is_window_open(window_start)),
    'member_spend', (SELECT jsonb_agg(s) FROM member_spend s WHERE customer_id = p_customer AND is_window_open(window_start)),
    'alert_rule', (SELECT jsonb_agg(r) FROM alert_rule r WHERE customer_id = p_customer AND disabled_at IS NULL),
    'idempotency', (SELECT jsonb_agg(i) FROM idempotency i WHERE customer_id = p_customer AND state = 'done' AND expires_at > now()))
$$;

-- Whether a window of a spend limit may still count: no window is longer than a month, unless it never ends.
CREATE OR REPLACE FUNCTION is_window_open(p_start date) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT p_start = '-infinity' OR p_start > current_date - 32 $$;

-- Books what moves with a customer as one transaction: its own and its promotion credit, positive when it arrives. Nothing for
-- zero.
CREATE OR REPLACE FUNCTION post_cell_move(p_ref text, p_customer uuid, p_own bigint, p_promo bigint, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  IF p_own + p_promo = 0 THEN RETURN; END IF;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('cell_move', p_ref, p_reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT v_tx, kind, p_customer, amount
    FROM (VALUES ('customer', p_own + p_promo), ('cell_clearing', -p_own), ('cell_promo', -p_promo)) AS a(kind, amount) WHERE amount <> 0;
  IF p_own + p_promo < 0 THEN
    INSERT INTO credit_taken (customer_id, tx_id, amount_nanos) VALUES (p_customer, v_tx, -(p_own + p_promo));
  END IF;
  UPDATE balance SET posted_nanos = posted_nanos + p_own + p_promo WHERE customer_id = p_customer;
END $$;

-- The rows of a table in a parcel.
CREATE OR REPLACE FUNCTION rows_of(p_parcel jsonb, p_table text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(nullif(p_parcel->p_table, 'null'), '[]') $$;
