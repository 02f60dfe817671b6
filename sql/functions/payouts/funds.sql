-- The functions of payouts follow the rules at the top of sql/functions/money/locks.sql, with one more: a function that moves
-- money of hosters locks their rows in `hoster`, in the order of hoster_id, after the balance rows and before the rows of payouts
-- and batches. Payouts come before their batches, and several batches in the order of batch_id; approve_payouts may lock its
-- batch first, since it has all hosters of the batch. Settlements and refunds do not lock hosters: a settlement only adds what is
-- still held back, and a refund may leave a hoster below zero.

-- Gives earnings to the balance of the hoster's customer, held ones too, once for each `p_move`; NULL moves all. Not those that
-- promotion credit paid: they would come back as own money. Verdicts: 'moved'; 'duplicate'; 'move_reused': the id was used for
-- another hoster or amount; 'frozen'; 'not_enough'; 'no_customer'; 'no_hoster'. Locks the balance, then the hoster, then the
-- search for promotional earnings, then the audit log.
CREATE OR REPLACE FUNCTION move_earnings(p_move uuid, p_hoster uuid, p_amount bigint, p_person uuid, p_address text, p_now timestamptz)
RETURNS TABLE (verdict text, amount bigint, customer uuid)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_hoster hoster;
  v_earlier record;
  v_balance bigint;
BEGIN
  SELECT a.customer_id INTO customer FROM hoster_account a WHERE a.hoster_id = p_hoster;
  PERFORM FROM balance WHERE customer_id = customer FOR NO KEY UPDATE;
  SELECT * INTO v_hoster FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  SELECT e.account_id, -e.amount_nanos AS amount, e.tx_id INTO v_earlier FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
    WHERE t.kind = 'earnings_moved' AND t.ref = p_move::text AND e.account_kind = 'hoster_payable';
  IF v_earlier.amount IS NOT NULL THEN
    amount := v_earlier.amount;
    verdict := CASE WHEN v_earlier.account_id = p_hoster AND coalesce(p_amount, amount) = amount THEN 'duplicate' ELSE 'move_reused' END;
    IF verdict = 'duplicate' THEN
      -- The hoster may have another customer since.
      SELECT e.account_id INTO customer FROM ledger_entry e WHERE e.tx_id = v_earlier.tx_id AND e.account_kind = 'customer';
    END IF;
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM find_promotion_shares(p_now);
  SELECT f.balance - f.promotional INTO v_balance FROM hoster_funds(ARRAY[p_hoster], 'infinity') f;
  amount := coalesce(p_amount, v_balance);
  verdict := CASE
    WHEN v_hoster.hoster_id IS NULL THEN 'no_hoster'
    -- It may have changed before the lock.
    WHEN customer IS NULL OR customer IS DISTINCT FROM (SELECT a.customer_id FROM hoster_account a WHERE a.hoster_id = p_hoster) THEN 'no_customer'
    WHEN v_hoster.payout_frozen_at IS NOT NULL THEN 'frozen'
    WHEN amount <= 0 OR amount > v_balance THEN 'not_enough'
    ELSE 'moved' END;
  IF verdict = 'moved' THEN
    PERFORM post_hoster('earnings_moved', p_move::text, p_hoster, -amount, 'customer', customer, 'earnings of ' || v_hoster.name);
    UPDATE balance SET posted_nanos = posted_nanos + amount WHERE customer_id = customer;
    PERFORM add_audit_entry(p_person, 'hoster.earnings_moved', p_hoster::text, customer, jsonb_build_object('amount_usd', trim_scale(amount / 1e9)::text), p_address);
  ELSE
    amount := greatest(v_balance, 0);
  END IF;
  RETURN NEXT;
END $$;

-- What these hosters have, or all of them with NULL. `balance`: all earnings that were not paid out, moved or taken. `held`:
-- those of days from `p_held_from` on, until `held_day`, and promotional ones of days that are not closed. `payable` is the rest.
-- `promotional`: earnings from promotion credit that are not decided yet. `promotional_day`: the last of their days that is not
-- closed. NULL: there are none, or all their days are closed and wait for an operator.
CREATE OR REPLACE FUNCTION hoster_funds(p_hosters uuid[], p_held_from date)
RETURNS TABLE (hoster uuid, balance bigint, held bigint, payable bigint, held_day date, promotional bigint, promotional_day date)
LANGUAGE sql STABLE AS $$
  SELECT h.hoster_id, total.balance, total.held, total.balance - total.held, earned.held_day,
    coalesce(promotion.unclosed, 0) + coalesce(promotion.undecided, 0), promotion.last_day
  FROM hoster h
  LEFT JOIN (
    SELECT hoster_id, sum(hoster_share_nanos - refunded_share_nanos)::bigint AS net,
      coalesce(sum(hoster_share_nanos - refunded_share_nanos) FILTER (WHERE day >= p_held_from), 0)::bigint AS held,
      max(day) FILTER (WHERE day >= p_held_from AND hoster_share_nanos > 0) AS held_day
    FROM hoster_line WHERE p_hosters IS NULL OR hoster_id = ANY (p_hosters) GROUP BY hoster_id
  ) earned USING (hoster_id)
  LEFT JOIN (
    SELECT hoster_id, sum(amount_nanos)::bigint AS net FROM hoster_movement WHERE p_hosters IS NULL OR hoster_id = ANY (p_hosters) GROUP BY hoster_id
  ) moved USING (hoster_id)
  LEFT JOIN (
    -- A day is closed when its row in promotion_day exists.
    SELECT share.hoster_id, sum(share.share_nanos) FILTER (WHERE closed.day IS NULL)::bigint AS unclosed,
      max(share.day) FILTER (WHERE closed.day IS NULL) AS last_day,
      -- Within the hold of all earnings, they are held already.
      sum(share.share_nanos) FILTER (WHERE closed.day IS NULL AND share.day < p_held_from)::bigint AS held_longer,
      sum(share.share_nanos) FILTER (WHERE closed.day IS NOT NULL AND share.state IN ('open', 'waiting'))::bigint AS undecided
    FROM promotion_share share LEFT JOIN promotion_day closed ON closed.hoster_id = share.hoster_id AND closed.day = share.day
    WHERE p_hosters IS NULL OR share.hoster_id = ANY (p_hosters) GROUP BY share.hoster_id
  ) promotion USING (hoster_id)
  CROSS JOIN LATERAL (
    SELECT coalesce(earned.net, 0) + coalesce(moved.net, 0) AS balance, coalesce(earned.held, 0) + coalesce(promotion.held_longer, 0) AS held
  ) total
  WHERE p_hosters IS NULL OR h.hoster_id = ANY (p_hosters)
$$;

-- Changes the account of a locked hoster by `p_amount`, against another account.
CREATE OR REPLACE FUNCTION post_hoster(p_kind text, p_ref text, p_hoster uuid, p_amount bigint, p_other_kind text, p_other uuid, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES (p_kind, p_ref, p_reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'hoster_payable', p_hoster, p_amount), (v_tx, p_other_kind, p_other, -p_amount);
  INSERT INTO hoster_movement (hoster_id, tx_id, amount_nanos) VALUES (p_hoster, v_tx, p_amount);
END $$;

-- The first day of requests that are held back at `p_now`. A day is payable when its last moment is `p_hold_days` old.
CREATE OR REPLACE FUNCTION held_from(p_now timestamptz, p_hold_days integer) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_hold_days = 0 THEN 'infinity'::date ELSE (p_now AT TIME ZONE 'UTC')::date - p_hold_days END
$$;

-- Locks these hosters, in the order of hoster_id. Every function that moves money of several hosters does so here, first.
CREATE OR REPLACE FUNCTION lock_hosters(p_hosters uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM hoster WHERE hoster_id = ANY (p_hosters) ORDER BY hoster_id FOR NO KEY UPDATE;
END $$;
