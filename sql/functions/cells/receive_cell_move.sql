-- The other end of the moves in cell_moves.sql: what the cell does that receives one. Only the owner calls these.

-- Brings a customer of another cell here, once for each move, and serves its keys from now on. Returns whether it came now. A
-- customer that was here before comes back with what it has there. Locks the balance. Raises raise_exception for a move that was
-- refused, and unique_violation when an address or a key belongs to another customer or person.
CREATE OR REPLACE FUNCTION receive_cell_move(p_move uuid, p_from text, p_parcel jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_customer uuid := p_parcel->'customer'->0->>'customer_id';
  v_own bigint := p_parcel->>'own_nanos';
  v_promo bigint := p_parcel->>'promo_nanos';
BEGIN
  INSERT INTO cell_move (move_id, customer_id, direction, cell, state, amount_nanos, at)
    VALUES (p_move, v_customer, 'in', p_from, 'received', v_own + v_promo, clock_timestamp()) ON CONFLICT (move_id) DO NOTHING;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM cell_move WHERE move_id = p_move AND state = 'refused') THEN
      RAISE EXCEPTION 'the move was undone';
    END IF;
    RETURN false;
  END IF;
  PERFORM put_customer(p_parcel);
  PERFORM put_people(p_parcel);
  PERFORM put_access(p_parcel, v_customer);
  INSERT INTO balance (customer_id) VALUES (v_customer) ON CONFLICT DO NOTHING;
  PERFORM lock_balances(ARRAY[v_customer]);
  PERFORM post_cell_move(p_move::text, v_customer, v_own, v_promo, 'moved from the cell ' || p_from);
  UPDATE control_version SET version = version + 1 WHERE topic = 'access';
  RETURN true;
END $$;

-- Makes sure that a move never arrives, for its other cell to undo it. Returns false when it has arrived.
CREATE OR REPLACE FUNCTION refuse_cell_move(p_move uuid, p_customer uuid, p_from text) RETURNS boolean
LANGUAGE sql AS $$
  INSERT INTO cell_move (move_id, customer_id, direction, cell, state) VALUES (p_move, p_customer, 'in', p_from, 'refused')
    ON CONFLICT (move_id) DO NOTHING;
  SELECT state = 'refused' FROM cell_move WHERE move_id = p_move
$$;

-- The row of the customer, as it is in the other cell.
CREATE OR REPLACE FUNCTION put_customer(p_parcel jsonb) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO customer SELECT * FROM jsonb_populate_recordset(NULL::customer, p_parcel->'customer')
    ON CONFLICT (customer_id) DO UPDATE SET email = excluded.email, account_tier = excluded.account_tier,
      requests_per_minute = excluded.requests_per_minute, requests_per_day = excluded.requests_per_day,
      daily_spend_cap_nanos = excluded.daily_spend_cap_nanos, disabled_at = excluded.disabled_at,
      shares_requests = excluded.shares_requests, price_group = excluded.price_group
$$;

-- People who are here already keep what they have here.
CREATE OR REPLACE FUNCTION put_people(p_parcel jsonb) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO person SELECT * FROM jsonb_populate_recordset(NULL::person, rows_of(p_parcel, 'person')) ON CONFLICT (person_id) DO NOTHING;
  INSERT INTO person_passkey SELECT * FROM jsonb_populate_recordset(NULL::person_passkey, rows_of(p_parcel, 'person_passkey'))
    ON CONFLICT DO NOTHING;
  INSERT INTO person_recovery_code
    SELECT * FROM jsonb_populate_recordset(NULL::person_recovery_code, rows_of(p_parcel, 'person_recovery_code')) ON CONFLICT DO NOTHING;
  INSERT INTO person_identity SELECT * FROM jsonb_populate_recordset(NULL::person_identity, rows_of(p_parcel, 'person_identity'))
    ON CONFLICT DO NOTHING
$$;

-- Keys, limits with what they have counted, rules and answers of repeats. No usage row here proves what was spent elsewhere.
CREATE OR REPLACE FUNCTION put_access(p_parcel jsonb, p_customer uuid) RETURNS void
LANGUAGE sql AS $$
  DELETE FROM api_key WHERE customer_id = p_customer;
  DELETE FROM member_limit WHERE customer_id = p_customer;
  INSERT INTO membership SELECT * FROM jsonb_populate_recordset(NULL::membership, rows_of(p_parcel, 'membership')) ON CONFLICT DO NOTHING;
  INSERT INTO member_limit SELECT * FROM jsonb_populate_recordset(NULL::member_limit, rows_of(p_parcel, 'member_limit'));
  INSERT INTO api_key SELECT * FROM jsonb_populate_recordset(NULL::api_key, rows_of(p_parcel, 'api_key'));
  INSERT INTO key_spend AS k (customer_id, key_id, window_start, spent_nanos, before_nanos)
    SELECT customer_id, key_id, window_start, spent_nanos, spent_nanos
    FROM jsonb_populate_recordset(NULL::key_spend, rows_of(p_parcel, 'key_spend'))
    ON CONFLICT (customer_id, key_id, window_start) DO UPDATE SET spent_nanos = excluded.spent_nanos,
      before_nanos = k.before_nanos + excluded.spent_nanos - k.spent_nanos;
  INSERT INTO member_spend AS m (customer_id, person_id, window_start, spent_nanos, before_nanos)
    SELECT customer_id, person_id, window_start, spent_nanos, spent_nanos
    FROM jsonb_populate_recordset(NULL::member_spend, rows_of(p_parcel, 'member_spend'))
    ON CONFLICT (customer_id, person_id, window_start) DO UPDATE SET spent_nanos = excluded.spent_nanos,
      before_nanos = m.before_nanos + excluded.spent_nanos - m.spent_nanos;
  INSERT INTO alert_rule SELECT * FROM jsonb_populate_recordset(NULL::alert_rule, rows_of(p_parcel, 'alert_rule'))
    ON CONFLICT (rule_id) DO UPDATE SET disabled_at = NULL, is_below = excluded.is_below, crossings = excluded.crossings;
  INSERT INTO idempotency SELECT * FROM jsonb_populate_recordset(NULL::idempotency, rows_of(p_parcel, 'idempotency')) ON CONFLICT DO NOTHING
$$;
