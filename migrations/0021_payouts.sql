-- What hosters earn and how it is paid out. The functions follow the locking rules at the top of 0002_money.sql, with one more: a
-- function that moves money of hosters locks their rows in `hoster`, in the order of hoster_id, after the balance rows and before
-- the rows of batches and payouts. Settlements and refunds do not lock hosters: a settlement only adds what is still held back,
-- and a refund may leave a hoster below zero.

-- ---------------------------------------------------------------- ledger
-- `payout` moves from the hoster to payout_clearing, `payout_paid` from there to the hoster's bank, and `payout_returned` back to
-- the hoster. NOT VALID: the old rows satisfied a stricter check, and reading them all would take minutes.
ALTER TABLE ledger_tx DROP CONSTRAINT ledger_tx_kind_check;
ALTER TABLE ledger_tx ADD CONSTRAINT ledger_tx_kind_check CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund',
  'payment', 'voucher', 'reversal', 'reversal_returned', 'debt_payment', 'processor_fee',
  'payout', 'payout_paid', 'payout_returned', 'earnings_moved', 'clawback', 'clawback_returned')) NOT VALID;
-- `payout_clearing`: taken from hosters for payouts that are on their way. `hoster_clawback`: what hosters gave back.
ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_account_kind_check;
ALTER TABLE ledger_entry ADD CONSTRAINT ledger_entry_account_kind_check CHECK (account_kind IN ('customer', 'hoster_payable',
  'platform_revenue', 'platform_promo', 'cash', 'customer_debt', 'processor_fee', 'payout_clearing', 'hoster_clawback')) NOT VALID;

-- ---------------------------------------------------------------- earnings by hoster, model and day
CREATE TABLE hoster_day (
  hoster_id     uuid NOT NULL,
  -- The UTC day the requests began. Refunds count on the day of their request.
  day           date NOT NULL,
  model_id      text NOT NULL,
  requests      bigint NOT NULL,
  successes     bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos     bigint NOT NULL,
  refunded_nanos bigint NOT NULL,
  -- The hoster's part of the refunds.
  refunded_share_nanos bigint NOT NULL,
  PRIMARY KEY (hoster_id, day, model_id)
) WITH (fillfactor = 70);

-- What settlements and refunds add to hoster_day. They only insert here, because all nodes would wait for the one row of a hoster
-- and day there. A job folds these rows into hoster_day.
CREATE TABLE hoster_day_change (
  change_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  LIKE hoster_day
);
CREATE INDEX hoster_day_change_hoster ON hoster_day_change (hoster_id, day);
-- Rows live for a minute. Vacuum after a number of dead rows: see `lease` in 0001.
ALTER TABLE hoster_day_change SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- For readers. A line may have several rows.
CREATE VIEW hoster_line AS
  SELECT hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos,
    refunded_nanos, refunded_share_nanos FROM hoster_day
  UNION ALL
  SELECT hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos,
    refunded_nanos, refunded_share_nanos FROM hoster_day_change;

-- Sums up the changes of at most `p_limit` rows. Returns how many there were. Does not wait for rows that another session folds.
CREATE FUNCTION fold_hoster_days(p_limit integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_folded bigint;
BEGIN
  WITH folded AS (
    DELETE FROM hoster_day_change WHERE change_id IN (
      SELECT change_id FROM hoster_day_change ORDER BY change_id LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING *
  ), added AS (
    INSERT INTO hoster_day AS d
      SELECT hoster_id, day, model_id, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cost_nanos),
        sum(hoster_share_nanos), sum(fee_nanos), sum(refunded_nanos), sum(refunded_share_nanos)
      FROM folded GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
      ON CONFLICT (hoster_id, day, model_id) DO UPDATE SET
        requests = d.requests + excluded.requests, successes = d.successes + excluded.successes,
        input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
        cost_nanos = d.cost_nanos + excluded.cost_nanos, hoster_share_nanos = d.hoster_share_nanos + excluded.hoster_share_nanos,
        fee_nanos = d.fee_nanos + excluded.fee_nanos, refunded_nanos = d.refunded_nanos + excluded.refunded_nanos,
        refunded_share_nanos = d.refunded_share_nanos + excluded.refunded_share_nanos
  )
  SELECT count(*) INTO v_folded FROM folded;
  RETURN v_folded;
END $$;

-- As in 0002, and adds to the sums of hosters.
CREATE OR REPLACE FUNCTION post_charges(p_tx bigint, p_sums settled_sum[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT p_tx, e.kind, e.account, e.amount FROM (
      SELECT 'customer' AS kind, customer AS account, -sum(cost)::bigint AS amount FROM unnest(p_sums) GROUP BY customer
      UNION ALL
      SELECT 'hoster_payable', hoster, sum(hoster_share)::bigint FROM unnest(p_sums) WHERE hoster_share > 0 GROUP BY hoster
      UNION ALL
      SELECT 'platform_revenue', '00000000-0000-0000-0000-000000000000'::uuid, sum(fee)::bigint FROM unnest(p_sums)
    ) e WHERE e.amount <> 0;
  IF FOUND THEN
    INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (p_tx, 'settle', gen_random_uuid()::text);
  END IF;
  INSERT INTO hoster_day_change (hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos,
      hoster_share_nanos, fee_nanos, refunded_nanos, refunded_share_nanos)
    SELECT hoster, (hour AT TIME ZONE 'UTC')::date, model, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens),
      sum(cost), sum(hoster_share), sum(fee), 0, 0
    FROM unnest(p_sums) WHERE hoster IS NOT NULL GROUP BY 1, 2, 3;
END $$;

CREATE FUNCTION note_hoster_refund() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO hoster_day_change (hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos,
      hoster_share_nanos, fee_nanos, refunded_nanos, refunded_share_nanos)
    SELECT hoster_id, (started_at AT TIME ZONE 'UTC')::date, model_id, 0, 0, 0, 0, 0, 0, 0, NEW.amount_nanos, NEW.hoster_share_nanos
    FROM usage_event WHERE customer_id = NEW.customer_id AND request_id = NEW.request_id AND hoster_id IS NOT NULL;
  RETURN NULL;
END $$;
CREATE TRIGGER note_hoster AFTER INSERT ON refund FOR EACH ROW EXECUTE FUNCTION note_hoster_refund();

-- One pass over the rows of hosters: 20 million usage rows take about half a minute. Without hosters, nothing is read.
DO $$
BEGIN
  IF EXISTS (SELECT FROM hoster) THEN
    INSERT INTO hoster_day
      SELECT hoster_id, day, model_id, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cost), sum(share), sum(fee),
        sum(refunded), sum(refunded_share)
      FROM (
        SELECT hoster_id, (started_at AT TIME ZONE 'UTC')::date AS day, model_id, count(*) AS requests, count(*) FILTER (WHERE success) AS successes,
          sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share,
          sum(fee_nanos) AS fee, 0 AS refunded, 0 AS refunded_share
        FROM usage_row WHERE hoster_id IS NOT NULL GROUP BY 1, 2, 3
        UNION ALL
        SELECT hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, 0, 0
        FROM usage_closing WHERE hoster_id IS NOT NULL
        UNION ALL
        SELECT u.hoster_id, (u.started_at AT TIME ZONE 'UTC')::date, u.model_id, 0, 0, 0, 0, 0, 0, 0, r.amount_nanos, r.hoster_share_nanos
        FROM refund r JOIN usage_row u USING (customer_id, request_id) WHERE u.hoster_id IS NOT NULL
      ) parts GROUP BY 1, 2, 3;
  END IF;
END $$;

-- ---------------------------------------------------------------- other tables
-- What changed the account of a hoster besides charges and refunds: an index of the few lines among millions of charges.
CREATE TABLE hoster_movement (
  hoster_id     uuid NOT NULL,
  tx_id         bigint NOT NULL REFERENCES ledger_tx,
  -- Above zero: to the hoster.
  amount_nanos  bigint NOT NULL CHECK (amount_nanos <> 0),
  PRIMARY KEY (hoster_id, tx_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON hoster_movement FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

-- While set, nothing is paid to the hoster. What it earned stays its own.
ALTER TABLE hoster
  ADD COLUMN payout_frozen_at timestamptz,
  ADD COLUMN payout_freeze_reason text;

-- Where the money of a hoster goes.
CREATE TABLE hoster_account (
  hoster_id     uuid PRIMARY KEY REFERENCES hoster,
  -- The customer whose balance can be given earnings. NULL: none is set.
  customer_id   uuid REFERENCES customer,
  -- The columns below are NULL until the hoster names a payout account.
  driver        text CHECK (driver IN ('csv', 'stripe')),
  -- `pending`: the provider still asks the hoster for something. `refused`: another hoster has this account.
  state         text CHECK (state IN ('pending', 'ready', 'refused')),
  -- The account as the provider names it, or a bank account number without blanks.
  destination   text,
  -- The name of its holder. NULL where the provider knows it.
  holder        text,
  -- What the provider asks for, or why it is refused.
  note          text,
  updated_at    timestamptz NOT NULL DEFAULT now(),
  CHECK ((driver IS NULL) = (state IS NULL) AND (driver IS NULL) = (destination IS NULL))
);

-- Which hoster may be paid where: a bank account once named by a hoster stays that hoster's, also after it has left, so that nobody
-- leaves a bad name behind by joining again.
CREATE TABLE payout_identity (
  -- An account number, or what a provider tells bank accounts apart by.
  identity      text PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  at            timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE payout_batch (
  batch_id      uuid PRIMARY KEY,
  driver        text NOT NULL CHECK (driver IN ('csv', 'stripe')),
  is_live       boolean NOT NULL,
  -- `settled`: each payout has ended, and one of them was sent.
  state         text NOT NULL DEFAULT 'prepared' CHECK (state IN ('prepared', 'approved', 'settled', 'cancelled')),
  -- NULL: the command line.
  prepared_by   uuid,
  prepared_at   timestamptz NOT NULL DEFAULT now(),
  approved_by   uuid,
  approved_at   timestamptz
);
CREATE INDEX payout_batch_prepared ON payout_batch (prepared_at DESC, batch_id);

-- A transfer to one hoster. Its id is the idempotency key of the transfer.
CREATE TABLE payout (
  payout_id     uuid PRIMARY KEY,
  batch_id      uuid NOT NULL REFERENCES payout_batch,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  driver        text NOT NULL,
  is_live       boolean NOT NULL,
  -- `sending`: the provider or the bank may have it. `failed`, `cancelled` and `returned` payouts are payable again; they become
  -- `paid` if the provider reports so after all.
  state         text NOT NULL DEFAULT 'prepared' CHECK (state IN ('prepared', 'approved', 'sending', 'paid', 'failed', 'returned', 'cancelled')),
  -- As in hoster_account when it was prepared.
  destination   text NOT NULL,
  holder        text,
  -- Whole cents.
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0 AND amount_nanos % 10000000 = 0),
  currency      text NOT NULL DEFAULT 'usd',
  -- A short code on the bank statement.
  reference     text NOT NULL UNIQUE,
  provider_ref  text,
  failure       text,
  -- How the report of the provider differs from this row. Such a report is booked nowhere.
  mismatch      text,
  -- Taken from the hoster, and what of it has left: the rest is in payout_clearing.
  taken_nanos   bigint NOT NULL DEFAULT 0,
  paid_nanos    bigint NOT NULL DEFAULT 0,
  -- The ledger transactions so far.
  moves         integer NOT NULL DEFAULT 0,
  -- Grows with every report that was booked: an older report than the last one is not booked.
  version       bigint NOT NULL DEFAULT 0,
  created_at    timestamptz NOT NULL DEFAULT now(),
  sent_at       timestamptz,
  ended_at      timestamptz,
  -- When the provider is asked next. NULL: not any more.
  next_look_at  timestamptz,
  UNIQUE (batch_id, hoster_id)
);
CREATE INDEX payout_hoster ON payout (hoster_id, created_at DESC, payout_id);
CREATE UNIQUE INDEX payout_provider_ref ON payout (driver, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX payout_next_look ON payout (next_look_at) WHERE next_look_at IS NOT NULL;

-- As payment_event.
CREATE TABLE payout_event (
  driver        text NOT NULL,
  event_id      text NOT NULL,
  type          text NOT NULL,
  provider_ref  text NOT NULL,
  received_at   timestamptz NOT NULL DEFAULT now(),
  handled_at    timestamptz,
  PRIMARY KEY (driver, event_id)
);
CREATE INDEX payout_event_waiting ON payout_event (received_at) WHERE handled_at IS NULL;

-- Earnings that a hoster gave back, besides refunds.
CREATE TABLE clawback (
  clawback_id   uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  cause         text NOT NULL CHECK (cause IN ('dispute', 'fraud')),
  -- The disputed payment that paid for the requests.
  reversal_id   uuid REFERENCES payment_reversal,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  -- All of it at once: the dispute was won, or the fraud was none.
  returned_at   timestamptz,
  reason        text NOT NULL,
  -- NULL: the command line.
  made_by       uuid,
  at            timestamptz NOT NULL DEFAULT now(),
  CHECK ((cause = 'dispute') = (reversal_id IS NOT NULL))
);
CREATE INDEX clawback_hoster ON clawback (hoster_id, at DESC, clawback_id);
CREATE INDEX clawback_reversal ON clawback (reversal_id) WHERE reversal_id IS NOT NULL;

-- ---------------------------------------------------------------- parts

-- Locks these hosters. Every function that moves money of hosters does so here, first.
CREATE FUNCTION lock_hosters(p_hosters uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM hoster WHERE hoster_id = ANY (p_hosters) ORDER BY hoster_id FOR NO KEY UPDATE;
END $$;

-- What hosters have. `balance` is all that they earned and did not get yet; below zero they owe it. `held` is the part from
-- requests of `p_held_from` and later, until `held_day` is old enough. The rest, `payable`, is below zero when more was taken back
-- than later days have replaced. NULL for `p_hosters` means all.
CREATE FUNCTION hoster_funds(p_hosters uuid[], p_held_from date)
RETURNS TABLE (hoster uuid, balance bigint, held bigint, payable bigint, held_day date)
LANGUAGE sql STABLE AS $$
  SELECT h.hoster_id, coalesce(l.net, 0) + coalesce(m.net, 0), coalesce(l.held, 0), coalesce(l.net, 0) + coalesce(m.net, 0) - coalesce(l.held, 0), l.held_day
  FROM hoster h
  LEFT JOIN (
    SELECT hoster_id, sum(hoster_share_nanos - refunded_share_nanos)::bigint AS net,
      coalesce(sum(hoster_share_nanos - refunded_share_nanos) FILTER (WHERE day >= p_held_from), 0)::bigint AS held,
      max(day) FILTER (WHERE day >= p_held_from AND hoster_share_nanos > 0) AS held_day
    FROM hoster_line WHERE p_hosters IS NULL OR hoster_id = ANY (p_hosters) GROUP BY hoster_id
  ) l USING (hoster_id)
  LEFT JOIN (
    SELECT hoster_id, sum(amount_nanos)::bigint AS net FROM hoster_movement WHERE p_hosters IS NULL OR hoster_id = ANY (p_hosters) GROUP BY hoster_id
  ) m USING (hoster_id)
  WHERE p_hosters IS NULL OR h.hoster_id = ANY (p_hosters)
$$;

-- The first day of requests that are held back at `p_now`. A day is payable when its last moment is `p_hold_days` old.
CREATE FUNCTION held_from(p_now timestamptz, p_hold_days integer) RETURNS date
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_hold_days = 0 THEN 'infinity'::date ELSE (p_now AT TIME ZONE 'UTC')::date - p_hold_days END
$$;

-- Changes the account of a locked hoster by `p_amount`, against another account.
CREATE FUNCTION post_hoster(p_kind text, p_ref text, p_hoster uuid, p_amount bigint, p_other_kind text, p_other uuid, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES (p_kind, p_ref, p_reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'hoster_payable', p_hoster, p_amount), (v_tx, p_other_kind, p_other, -p_amount);
  INSERT INTO hoster_movement (hoster_id, tx_id, amount_nanos) VALUES (p_hoster, v_tx, p_amount);
END $$;

-- Locks the hoster of a payout, then the payout. A row of NULLs when there is no such payout.
CREATE FUNCTION lock_payout(p_payout uuid) RETURNS payout
LANGUAGE plpgsql AS $$
DECLARE
  v payout;
BEGIN
  -- The hoster of a payout never changes.
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE payout_id = p_payout));
  SELECT * INTO v FROM payout WHERE payout_id = p_payout FOR UPDATE;
  RETURN v;
END $$;

-- Moves what a locked payout has taken from its hoster, and what of it was paid, to these amounts, with a transaction for each step.
-- Returns whether something moved.
CREATE FUNCTION move_payout(p_payout uuid, p_taken bigint, p_paid bigint, p_reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  nil constant uuid := '00000000-0000-0000-0000-000000000000';
  v payout;
  v_moves integer;
  v_tx bigint;
BEGIN
  SELECT * INTO STRICT v FROM payout WHERE payout_id = p_payout;
  v_moves := v.moves;
  IF p_taken > v.taken_nanos THEN
    v_moves := v_moves + 1;
    PERFORM post_hoster('payout', p_payout || ':' || v_moves, v.hoster_id, v.taken_nanos - p_taken, 'payout_clearing', nil, p_reason);
  END IF;
  IF p_paid > v.paid_nanos THEN
    v_moves := v_moves + 1;
    INSERT INTO ledger_tx (kind, ref, reason) VALUES ('payout_paid', p_payout || ':' || v_moves, p_reason) RETURNING tx_id INTO v_tx;
    INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
      (v_tx, 'payout_clearing', nil, v.paid_nanos - p_paid), (v_tx, 'cash', nil, p_paid - v.paid_nanos);
  ELSIF p_paid < v.paid_nanos THEN
    v_moves := v_moves + 1;
    PERFORM post_hoster('payout_returned', p_payout || ':' || v_moves, v.hoster_id, v.paid_nanos - p_paid, 'cash', nil, p_reason);
    v.taken_nanos := v.taken_nanos - (v.paid_nanos - p_paid);
  END IF;
  IF p_taken < v.taken_nanos THEN
    v_moves := v_moves + 1;
    PERFORM post_hoster('payout_returned', p_payout || ':' || v_moves, v.hoster_id, v.taken_nanos - p_taken, 'payout_clearing', nil, p_reason);
  END IF;
  IF v_moves = v.moves THEN
    RETURN false;
  END IF;
  UPDATE payout SET taken_nanos = p_taken, paid_nanos = p_paid, moves = v_moves WHERE payout_id = p_payout;
  RETURN true;
END $$;

-- Ends a batch when all of its payouts have ended.
CREATE FUNCTION end_payout_batch(p_batch uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  -- Payouts of one batch end one after the other here, so that the last one sees the others.
  PERFORM FROM payout_batch WHERE batch_id = p_batch FOR UPDATE;
  UPDATE payout_batch SET state = CASE
      WHEN EXISTS (SELECT FROM payout WHERE batch_id = p_batch AND state <> 'cancelled') THEN 'settled' ELSE 'cancelled' END
    WHERE batch_id = p_batch AND NOT EXISTS (SELECT FROM payout WHERE batch_id = p_batch AND state IN ('prepared', 'approved', 'sending'));
END $$;

-- Gives a locked payout that was not sent back to its hoster.
CREATE FUNCTION drop_payout(p payout, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM move_payout(p.payout_id, 0, 0, 'payout ' || p.reference || ' cancelled');
  UPDATE payout SET state = 'cancelled', failure = p_reason, ended_at = now() WHERE payout_id = p.payout_id;
  PERFORM end_payout_batch(p.batch_id);
END $$;

-- ---------------------------------------------------------------- prepare
-- Makes a batch of what these hosters are owed past the hold. Returns a row for each hoster with a balance other than zero. Verdicts: 'prepared';
-- 'frozen'; 'below_minimum', also for debts; 'no_account'; 'account_not_ready'; 'other_driver'.
-- For the owner of the tables: the gateway role calls prepare_payouts_by_operator.
CREATE FUNCTION prepare_payouts(p_operator uuid, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_held_from date, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_hosters uuid[] := ARRAY(SELECT f.hoster FROM hoster_funds(NULL, p_held_from) f WHERE f.balance <> 0);
  v_total bigint := 0;
  v_count integer := 0;
BEGIN
  PERFORM lock_hosters(v_hosters);
  INSERT INTO payout_batch (batch_id, driver, is_live, prepared_by) VALUES (p_batch, p_driver, p_is_live, p_operator);
  FOR hoster, verdict, amount, payable IN
    SELECT f.hoster, CASE
        WHEN f.payable / 10000000 * 10000000 < greatest(p_minimum, 10000000) THEN 'below_minimum'
        WHEN h.payout_frozen_at IS NOT NULL THEN 'frozen'
        WHEN a.driver IS NULL THEN 'no_account'
        WHEN a.driver <> p_driver THEN 'other_driver'
        WHEN a.state <> 'ready' THEN 'account_not_ready'
        ELSE 'prepared' END,
      -- The part of a cent stays payable.
      f.payable / 10000000 * 10000000, f.payable
    FROM hoster_funds(v_hosters, p_held_from) f JOIN hoster h ON h.hoster_id = f.hoster LEFT JOIN hoster_account a ON a.hoster_id = f.hoster
    WHERE f.balance <> 0 ORDER BY f.hoster
  LOOP
    payout := NULL;
    IF verdict = 'prepared' THEN
      payout := gen_random_uuid();
      INSERT INTO payout (payout_id, batch_id, hoster_id, driver, is_live, destination, holder, amount_nanos, reference)
        SELECT payout, p_batch, a.hoster_id, p_driver, p_is_live, a.destination, a.holder, amount, 'PO-' || upper(right(payout::text, 12))
        FROM hoster_account a WHERE a.hoster_id = hoster;
      PERFORM move_payout(payout, amount, 0, 'payout PO-' || upper(right(payout::text, 12)));
      v_total := v_total + amount;
      v_count := v_count + 1;
    ELSE
      amount := 0;
    END IF;
    RETURN NEXT;
  END LOOP;
  IF v_count = 0 THEN
    DELETE FROM payout_batch WHERE batch_id = p_batch;
  ELSE
    PERFORM add_audit_entry(p_operator, 'payout.prepared', p_batch::text, NULL,
      jsonb_build_object('payouts', v_count, 'amount_usd', trim_scale(v_total / 1e9)::text, 'driver', p_driver), p_address);
  END IF;
END $$;

-- ---------------------------------------------------------------- approve
-- Above this sum in 24 hours, what one operator prepares and approves alone needs a second operator. 1,000 USD.
CREATE FUNCTION payout_alone_max_nanos() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 1000000000000::bigint $$;

-- Approves a batch. Verdicts: 'approved'; 'approved_before'; 'cancelled'; 'no_batch'; 'second_operator': the operator that prepared it cannot approve it
-- alone. The command line counts as one operator.
CREATE FUNCTION approve_payouts(p_operator uuid, p_batch uuid, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout_batch;
  v_total numeric;
  v_recent numeric;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE batch_id = p_batch));
  -- Approvals count one after the other, so that two at once cannot pass the limit together.
  PERFORM pg_advisory_xact_lock(x'73797061'::int);  -- "sypa" in ASCII; any number that no other lock uses
  SELECT * INTO v FROM payout_batch WHERE batch_id = p_batch FOR UPDATE;
  IF v.batch_id IS NULL THEN
    RETURN 'no_batch';
  ELSIF v.state <> 'prepared' THEN
    RETURN CASE WHEN v.state = 'cancelled' THEN 'cancelled' ELSE 'approved_before' END;
  END IF;
  SELECT coalesce(sum(amount_nanos), 0) INTO v_total FROM payout WHERE batch_id = p_batch AND state = 'prepared';
  IF v.prepared_by IS NOT DISTINCT FROM p_operator THEN
    SELECT coalesce(sum(p.amount_nanos), 0) INTO v_recent FROM payout_batch b JOIN payout p USING (batch_id)
      WHERE b.prepared_by IS NOT DISTINCT FROM p_operator AND b.approved_by IS NOT DISTINCT FROM p_operator
        AND b.approved_at > now() - interval '24 hours' AND p.state <> 'cancelled';
    IF v_recent + v_total > payout_alone_max_nanos() AND (CASE WHEN p_operator IS NOT NULL THEN has_other_operator(p_operator)
      ELSE EXISTS (SELECT FROM person o WHERE is_operator(o.person_id) AND has_other_operator(o.person_id)) END) THEN
      RETURN 'second_operator';
    END IF;
  END IF;
  UPDATE payout_batch SET state = 'approved', approved_by = p_operator, approved_at = now() WHERE batch_id = p_batch;
  UPDATE payout SET state = 'approved' WHERE batch_id = p_batch AND state = 'prepared';
  PERFORM add_audit_entry(p_operator, 'payout.approved', p_batch::text, NULL, jsonb_build_object('amount_usd', trim_scale(v_total / 1e9)::text), p_address);
  RETURN 'approved';
END $$;

-- Cancels the payouts of a batch that were not sent. Returns how many; NULL when there is no such batch.
CREATE FUNCTION cancel_payouts(p_operator uuid, p_batch uuid, p_address text) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout;
  v_count integer := 0;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM payout WHERE batch_id = p_batch));
  IF NOT EXISTS (SELECT FROM payout_batch WHERE batch_id = p_batch) THEN
    RETURN NULL;
  END IF;
  FOR v IN SELECT * FROM payout WHERE batch_id = p_batch AND state IN ('prepared', 'approved') ORDER BY payout_id FOR UPDATE LOOP
    PERFORM drop_payout(v, 'cancelled by an operator');
    v_count := v_count + 1;
  END LOOP;
  IF v_count > 0 THEN
    PERFORM add_audit_entry(p_operator, 'payout.cancelled', p_batch::text, NULL, jsonb_build_object('payouts', v_count), p_address);
  END IF;
  RETURN v_count;
END $$;

-- ---------------------------------------------------------------- settle
-- Call it before a payout is sent; only then may it be. Verdicts: 'begun', also when it was begun before; 'cancelled': since it was prepared, its hoster was frozen,
-- owes something or named another account; 'not_approved'; 'ended'; 'no_payout'.
CREATE FUNCTION begin_payout(p_payout uuid, p_next_look_at timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout := lock_payout(p_payout);
  v_refusal text;
BEGIN
  IF v.payout_id IS NULL THEN
    RETURN 'no_payout';
  ELSIF v.state = 'prepared' THEN
    RETURN 'not_approved';
  ELSIF v.state = 'sending' THEN
    RETURN 'begun';
  ELSIF v.state <> 'approved' THEN
    RETURN 'ended';
  END IF;
  v_refusal := CASE
    WHEN (SELECT payout_frozen_at IS NOT NULL FROM hoster WHERE hoster_id = v.hoster_id) THEN 'the hoster is frozen'
    WHEN (SELECT balance < 0 FROM hoster_funds(ARRAY[v.hoster_id], 'infinity')) THEN 'earnings were taken back since it was prepared'
    WHEN NOT EXISTS (
      SELECT FROM hoster_account a
      WHERE a.hoster_id = v.hoster_id AND a.driver = v.driver AND a.destination = v.destination AND a.state = 'ready') THEN 'the payout account has changed since it was prepared' END;
  IF v_refusal IS NOT NULL THEN
    PERFORM drop_payout(v, v_refusal);
    RETURN 'cancelled';
  END IF;
  UPDATE payout SET state = 'sending', sent_at = now(), next_look_at = p_next_look_at WHERE payout_id = p_payout;
  RETURN 'begun';
END $$;

-- Notes how the provider names a payout. A second answer changes nothing.
CREATE FUNCTION note_payout_sent(p_payout uuid, p_provider_ref text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payout SET provider_ref = p_provider_ref WHERE payout_id = p_payout AND provider_ref IS NULL
$$;

-- How a report differs from the row of the payout; NULL when it does not.
CREATE FUNCTION payout_mismatch(p payout, p_driver text, p_fact jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT nullif(concat_ws('; ',
    CASE WHEN p.driver <> p_driver THEN format('driver %s, not %s', p_driver, p.driver) END,
    CASE WHEN p_fact->>'state' = 'absent' AND p.paid_nanos > 0 THEN 'no such transfer' END,
    CASE WHEN p_fact->>'state' = 'paid' AND p.state IN ('prepared', 'approved') THEN 'paid before it was sent' END,
    CASE WHEN p_fact->>'state' = 'paid' THEN nullif(concat_ws('; ',
      CASE WHEN p.payout_id::text IS DISTINCT FROM p_fact->>'payout_id' THEN format('payout %s', coalesce(p_fact->>'payout_id', 'without our id')) END,
      CASE WHEN p.amount_nanos / 10000000 IS DISTINCT FROM (p_fact->>'amount_minor')::bigint
        THEN format('amount %s, not %s', p_fact->>'amount_minor', p.amount_nanos / 10000000) END,
      CASE WHEN p.currency IS DISTINCT FROM p_fact->>'currency' THEN format('currency %s, not %s', p_fact->>'currency', p.currency) END,
      CASE WHEN p.destination IS DISTINCT FROM p_fact->>'destination' THEN format('to %s, not %s', p_fact->>'destination', p.destination) END,
      CASE WHEN p.is_live IS DISTINCT FROM (p_fact->>'is_live')::boolean THEN format('live %s, not %s', p_fact->>'is_live', p.is_live) END), '') END
  ), '')
$$;

-- Books the difference between what the provider reports and what the books say. Fields of `p_fact`:
--   state          'paid', 'failed', 'pending', or 'absent': the provider does not know the payout
--   payout_id, amount_minor, currency, destination, is_live   for 'paid', must be those of the row
--   reversed_minor what of a paid payout came back
--   failure        shown to operators
-- Results as in book_payment_report, with 'no_payout'. A payout that failed, or was cancelled, and then arrived is taken from
-- the hoster again, which may owe it then.
CREATE FUNCTION book_payout_report(p_payout uuid, p_driver text, p_version bigint, p_fact jsonb, p_next_look_at timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v payout := lock_payout(p_payout);
  v_mismatch text;
  v_net bigint;
  v_state text;
  v_is_moved boolean;
BEGIN
  IF v.payout_id IS NULL THEN
    RETURN 'no_payout';
  ELSIF v.version <> p_version THEN
    RETURN 'stale';
  END IF;
  v_mismatch := payout_mismatch(v, p_driver, p_fact);
  UPDATE payout SET version = version + 1, mismatch = v_mismatch, next_look_at = p_next_look_at WHERE payout_id = p_payout;
  IF v_mismatch IS NOT NULL THEN
    RETURN 'mismatch';
  END IF;
  IF p_fact->>'state' = 'paid' THEN
    v_net := v.amount_nanos - least(coalesce((p_fact->>'reversed_minor')::bigint, 0) * 10000000, v.amount_nanos);
    v_state := CASE WHEN v_net = 0 THEN 'returned' ELSE 'paid' END;
  ELSIF p_fact->>'state' = 'failed' AND v.state IN ('sending', 'paid') THEN
    v_net := 0;
    v_state := CASE WHEN v.state = 'paid' THEN 'returned' ELSE 'failed' END;
  ELSE
    RETURN 'unchanged';
  END IF;
  v_is_moved := move_payout(p_payout, v_net, v_net, 'payout ' || v.reference || CASE WHEN v_state = 'paid' THEN '' ELSE ' ' || v_state END);
  IF v_is_moved OR v_state <> v.state THEN
    UPDATE payout SET state = v_state, failure = CASE WHEN v_state = 'paid' THEN NULL ELSE coalesce(p_fact->>'failure', failure) END, ended_at = now()
      WHERE payout_id = p_payout;
    PERFORM end_payout_batch(v.batch_id);
    RETURN 'booked';
  END IF;
  RETURN 'unchanged';
END $$;

-- What an operator knows of a payout that a bank made. Verdicts: 'booked', 'unchanged', 'not_csv', 'not_sent', 'no_payout'.
CREATE FUNCTION settle_bank_payout(p_operator uuid, p_payout uuid, p_is_paid boolean, p_failure text, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v payout := lock_payout(p_payout);
  v_result text;
BEGIN
  IF v.payout_id IS NULL THEN
    RETURN 'no_payout';
  ELSIF v.driver <> 'csv' THEN
    RETURN 'not_csv';
  ELSIF v.state IN ('prepared', 'approved', 'cancelled') THEN
    RETURN 'not_sent';
  END IF;
  v_result := book_payout_report(p_payout, 'csv', v.version, CASE WHEN p_is_paid
    THEN jsonb_build_object('state', 'paid', 'payout_id', p_payout, 'amount_minor', v.amount_nanos / 10000000, 'currency', v.currency,
      'destination', v.destination, 'is_live', v.is_live)
    ELSE jsonb_build_object('state', 'failed', 'failure', p_failure) END, NULL);
  IF v_result = 'booked' THEN
    PERFORM add_audit_entry(p_operator, CASE WHEN p_is_paid THEN 'payout.paid' ELSE 'payout.failed' END, p_payout::text, NULL,
      jsonb_build_object('amount_usd', trim_scale(v.amount_nanos / 1e9)::text, 'reference', v.reference, 'reason', p_failure), p_address);
  END IF;
  RETURN v_result;
END $$;

CREATE FUNCTION note_payout_event(p_driver text, p_event text, p_type text, p_provider_ref text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payout_event (driver, event_id, type, provider_ref) VALUES (p_driver, p_event, p_type, p_provider_ref) ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM payout_event WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL);
END $$;

-- Call it in the transaction that books what the event hinted at.
CREATE FUNCTION finish_payout_event(p_driver text, p_event text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payout_event SET handled_at = now() WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL
$$;

-- ---------------------------------------------------------------- accounts
-- Names the payout account of a hoster. `p_identities` are the bank accounts behind it, as far as known. Returns its state: 'refused' when another
-- hoster has one of them; NULL when there is no such hoster. `p_person` is NULL for the command line and for keys, and `p_is_own` false when
-- the provider reports a change, which is not in the audit log unless the state changes.
CREATE FUNCTION set_payout_account(p_hoster uuid, p_driver text, p_destination text, p_holder text, p_identities text[], p_is_ready boolean, p_note text,
  p_person uuid, p_address text)
RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v hoster_account;
  v_state text := CASE WHEN p_is_ready THEN 'ready' ELSE 'pending' END;
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  -- In the order of the identities, so that two calls never deadlock.
  INSERT INTO payout_identity (identity, hoster_id)
    SELECT DISTINCT i, p_hoster FROM unnest(p_identities || (p_driver || ':' || p_destination)) i ORDER BY i ON CONFLICT DO NOTHING;
  IF EXISTS (SELECT FROM payout_identity WHERE identity = ANY (p_identities || (p_driver || ':' || p_destination)) AND hoster_id <> p_hoster) THEN
    v_state := 'refused';
  END IF;
  SELECT * INTO v FROM hoster_account WHERE hoster_id = p_hoster;
  INSERT INTO hoster_account AS a (hoster_id, driver, state, destination, holder, note) VALUES (p_hoster, p_driver, v_state, p_destination, p_holder,
      CASE WHEN v_state = 'refused' THEN 'Another hoster is paid to this account.' ELSE p_note END)
    ON CONFLICT (hoster_id) DO UPDATE SET driver = excluded.driver, state = excluded.state, destination = excluded.destination, holder = excluded.holder,
      note = excluded.note, updated_at = now();
  IF (v.driver, v.state, v.destination, v.holder) IS DISTINCT FROM (p_driver, v_state, p_destination, p_holder) THEN
    PERFORM add_audit_entry(p_person, 'hoster.payout_account', p_hoster::text, NULL,
      jsonb_build_object('driver', p_driver, 'account', '…' || right(p_destination, 4), 'state', v_state), p_address);
  END IF;
  RETURN v_state;
END $$;

-- Sets the customer whose balance can be given earnings. Returns false when there is no such hoster, or no account of such a customer.
CREATE FUNCTION set_hoster_customer(p_hoster uuid, p_customer uuid, p_person uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  IF NOT FOUND OR NOT EXISTS (SELECT FROM balance WHERE customer_id = p_customer) THEN
    RETURN false;
  END IF;
  INSERT INTO hoster_account (hoster_id, customer_id) VALUES (p_hoster, p_customer)
    ON CONFLICT (hoster_id) DO UPDATE SET customer_id = excluded.customer_id, updated_at = now();
  PERFORM add_audit_entry(p_person, 'hoster.customer', p_hoster::text, p_customer, '{}', p_address);
  RETURN true;
END $$;

-- ---------------------------------------------------------------- earnings that are spent here
-- Gives earnings to the balance of the hoster's customer, held ones too, once for each `p_move`; NULL moves all. Verdicts: 'moved'; 'duplicate';
-- 'move_reused': the id was used for another hoster or amount; 'frozen'; 'not_enough'; 'no_customer'; 'no_hoster'.
CREATE FUNCTION move_earnings(p_move uuid, p_hoster uuid, p_amount bigint, p_person uuid, p_address text)
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
  SELECT e.account_id, -e.amount_nanos AS amount INTO v_earlier FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
    WHERE t.kind = 'earnings_moved' AND t.ref = p_move::text AND e.account_kind = 'hoster_payable';
  IF v_earlier.amount IS NOT NULL THEN
    amount := v_earlier.amount;
    verdict := CASE WHEN v_earlier.account_id = p_hoster AND coalesce(p_amount, amount) = amount THEN 'duplicate' ELSE 'move_reused' END;
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT f.balance INTO v_balance FROM hoster_funds(ARRAY[p_hoster], 'infinity') f;
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

-- ---------------------------------------------------------------- freezes and claw-backs
-- Freezes the payouts of a hoster, or with a NULL reason lifts that. Returns whether something changed.
CREATE FUNCTION freeze_payouts(p_operator uuid, p_hoster uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE hoster SET payout_frozen_at = CASE WHEN p_reason IS NOT NULL THEN now() END, payout_freeze_reason = p_reason
    WHERE hoster_id = p_hoster AND (payout_frozen_at IS NULL) = (p_reason IS NOT NULL);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(p_operator, CASE WHEN p_reason IS NULL THEN 'hoster.payouts_released' ELSE 'hoster.payouts_frozen' END, p_hoster::text, NULL,
    jsonb_build_object('reason', p_reason), p_address);
  RETURN true;
END $$;

-- Takes earnings back, for a disputed payment or for proven fraud. The hoster may owe them then. Verdicts: 'taken'; 'duplicate': this id was used
-- before; 'above_dispute': the reversal took less, or other claw-backs have its money; 'above_earnings': the hoster never earned that much;
-- 'no_dispute'; 'no_hoster'.
CREATE FUNCTION claw_back(p_operator uuid, p_clawback uuid, p_hoster uuid, p_amount bigint, p_reversal uuid, p_reason text, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v_dispute payment_reversal;
BEGIN
  PERFORM FROM hoster WHERE hoster_id = p_hoster FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN 'no_hoster';
  ELSIF EXISTS (SELECT FROM clawback WHERE clawback_id = p_clawback) THEN
    RETURN 'duplicate';
  END IF;
  IF p_reversal IS NOT NULL THEN
    -- Claw-backs of other hosters for the same dispute wait here.
    SELECT * INTO v_dispute FROM payment_reversal WHERE reversal_id = p_reversal AND kind = 'dispute' FOR UPDATE;
    IF NOT FOUND THEN
      RETURN 'no_dispute';
    ELSIF p_amount > v_dispute.taken_nanos - v_dispute.returned_nanos
      - (SELECT coalesce(sum(amount_nanos), 0) FROM clawback WHERE reversal_id = p_reversal AND returned_at IS NULL) THEN
      RETURN 'above_dispute';
    END IF;
  END IF;
  IF p_amount > (SELECT coalesce(sum(hoster_share_nanos - refunded_share_nanos), 0) FROM hoster_line WHERE hoster_id = p_hoster)
    - (SELECT coalesce(sum(amount_nanos), 0) FROM clawback WHERE hoster_id = p_hoster AND returned_at IS NULL) THEN
    RETURN 'above_earnings';
  END IF;
  INSERT INTO clawback (clawback_id, hoster_id, cause, reversal_id, amount_nanos, reason, made_by)
    VALUES (p_clawback, p_hoster, CASE WHEN p_reversal IS NULL THEN 'fraud' ELSE 'dispute' END, p_reversal, p_amount, p_reason, p_operator);
  PERFORM post_hoster('clawback', p_clawback::text, p_hoster, -p_amount, 'hoster_clawback', '00000000-0000-0000-0000-000000000000', p_reason);
  PERFORM add_audit_entry(p_operator, 'hoster.clawed_back', p_hoster::text, NULL, jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text,
    'cause', CASE WHEN p_reversal IS NULL THEN 'fraud' ELSE 'dispute' END, 'reversal', p_reversal, 'reason', p_reason), p_address);
  RETURN 'taken';
END $$;

-- Gives a claw-back back. Returns whether it was not given back before.
CREATE FUNCTION return_clawback(p_operator uuid, p_clawback uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v clawback;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM clawback WHERE clawback_id = p_clawback));
  UPDATE clawback SET returned_at = now() WHERE clawback_id = p_clawback AND returned_at IS NULL RETURNING * INTO v;
  IF v.clawback_id IS NULL THEN
    RETURN false;
  END IF;
  PERFORM post_hoster('clawback_returned', p_clawback::text, v.hoster_id, v.amount_nanos, 'hoster_clawback', '00000000-0000-0000-0000-000000000000', v.reason);
  PERFORM add_audit_entry(p_operator, 'hoster.clawback_returned', v.hoster_id::text, NULL,
    jsonb_build_object('amount_usd', trim_scale(v.amount_nanos / 1e9)::text, 'reason', v.reason), p_address);
  RETURN true;
END $$;

-- ---------------------------------------------------------------- for operators
-- The functions above for the gateway role, which must name an operator. Raise SY004 when the person is none.
CREATE FUNCTION require_operator(p_operator uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF p_operator IS NULL OR NOT is_operator(p_operator) THEN
    RAISE EXCEPTION 'the person is no operator' USING ERRCODE = 'SY004';
  END IF;
END $$;

CREATE FUNCTION prepare_payouts_by_operator(p_operator uuid, p_batch uuid, p_driver text, p_is_live boolean, p_minimum bigint, p_held_from date, p_address text)
RETURNS TABLE (hoster uuid, verdict text, payout uuid, amount bigint, payable bigint)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN QUERY SELECT * FROM prepare_payouts(p_operator, p_batch, p_driver, p_is_live, p_minimum, p_held_from, p_address);
END $$;

CREATE FUNCTION approve_payouts_by_operator(p_operator uuid, p_batch uuid, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN approve_payouts(p_operator, p_batch, p_address);
END $$;

CREATE FUNCTION cancel_payouts_by_operator(p_operator uuid, p_batch uuid, p_address text) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN cancel_payouts(p_operator, p_batch, p_address);
END $$;

CREATE FUNCTION settle_bank_payout_by_operator(p_operator uuid, p_payout uuid, p_is_paid boolean, p_failure text, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN settle_bank_payout(p_operator, p_payout, p_is_paid, p_failure, p_address);
END $$;

CREATE FUNCTION freeze_payouts_by_operator(p_operator uuid, p_hoster uuid, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN freeze_payouts(p_operator, p_hoster, p_reason, p_address);
END $$;

CREATE FUNCTION claw_back_by_operator(p_operator uuid, p_clawback uuid, p_hoster uuid, p_amount bigint, p_reversal uuid, p_reason text, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN claw_back(p_operator, p_clawback, p_hoster, p_amount, p_reversal, p_reason, p_address);
END $$;

CREATE FUNCTION return_clawback_by_operator(p_operator uuid, p_clawback uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM require_operator(p_operator);
  RETURN return_clawback(p_operator, p_clawback, p_address);
END $$;

-- ---------------------------------------------------------------- rights
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['hoster_day', 'hoster_day_change', 'hoster_movement', 'hoster_account', 'payout_identity',
      'payout_batch', 'payout', 'payout_event', 'clawback']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_functions() || ARRAY['fold_hoster_days', 'begin_payout', 'note_payout_sent', 'book_payout_report', 'note_payout_event',
      'finish_payout_event', 'set_payout_account', 'set_hoster_customer', 'move_earnings', 'prepare_payouts_by_operator', 'approve_payouts_by_operator',
      'cancel_payouts_by_operator', 'settle_bank_payout_by_operator', 'freeze_payouts_by_operator', 'claw_back_by_operator',
      'return_clawback_by_operator']::name[]));
END $$;
