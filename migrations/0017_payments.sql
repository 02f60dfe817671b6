-- Payments: top-ups, vouchers, reversals, debt, saved payment methods and automatic top-ups. The functions follow the locking
-- rules at the top of 0002_money.sql and are the only writers of payment, payment_event, payment_reversal, voucher and
-- credit_taken.

-- ---------------------------------------------------------------- debt
-- What a customer owes after a payment was taken back that had been spent. Here, so that an admission reads no other table.
-- While a customer owes something, no money is free: pay_debt takes whatever becomes free.
ALTER TABLE balance
  ADD COLUMN debt_nanos bigint NOT NULL DEFAULT 0 CHECK (debt_nanos >= 0),
  ADD CONSTRAINT debt_is_paid_first CHECK (debt_nanos = 0 OR posted_nanos = leased_nanos);

-- NOT VALID: the old rows satisfied a stricter check, and reading them all would take minutes.
ALTER TABLE ledger_tx DROP CONSTRAINT ledger_tx_kind_check;
ALTER TABLE ledger_tx ADD CONSTRAINT ledger_tx_kind_check CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund',
  'payment', 'voucher', 'reversal', 'reversal_returned', 'debt_payment', 'processor_fee')) NOT VALID;
ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_account_kind_check;
ALTER TABLE ledger_entry ADD CONSTRAINT ledger_entry_account_kind_check CHECK (account_kind IN ('customer', 'hoster_payable',
  'platform_revenue', 'platform_promo', 'cash', 'customer_debt', 'processor_fee')) NOT VALID;

-- What was taken from customers other than charges, for statements: an index of the few lines among millions of charges.
CREATE TABLE credit_taken (
  customer_id   uuid NOT NULL,
  tx_id         bigint NOT NULL REFERENCES ledger_tx,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  PRIMARY KEY (customer_id, tx_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_taken FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

-- Pays the debt with whatever becomes free: new credit, and the rest of leases that close. A trigger, so that no function that
-- frees money can forget it. An update of a balance holds its lock.
CREATE FUNCTION pay_debt() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  v_paid bigint := least(NEW.debt_nanos, NEW.posted_nanos - NEW.leased_nanos);
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('debt_payment', gen_random_uuid()::text, 'debt paid') RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', NEW.customer_id, -v_paid), (v_tx, 'customer_debt', NEW.customer_id, v_paid);
  INSERT INTO credit_taken (customer_id, tx_id, amount_nanos) VALUES (NEW.customer_id, v_tx, v_paid);
  NEW.posted_nanos := NEW.posted_nanos - v_paid;
  NEW.debt_nanos := NEW.debt_nanos - v_paid;
  RETURN NEW;
END $$;
CREATE TRIGGER pay_debt BEFORE UPDATE ON balance FOR EACH ROW
  WHEN (NEW.debt_nanos > 0 AND NEW.posted_nanos > NEW.leased_nanos) EXECUTE FUNCTION pay_debt();

-- ---------------------------------------------------------------- admission
-- As in 0002, with the debt.

-- Moves the windows of a locked balance to the present. Windows only move forward: when the clock was set
-- back a little, the later window goes on counting instead of the earlier one opening again. A window far
-- ahead of the clock is not kept.
CREATE OR REPLACE FUNCTION open_windows(p_balance balance, p_now timestamptz) RETURNS account_windows
LANGUAGE plpgsql AS $$
DECLARE
  v_minute timestamptz := date_trunc('minute', p_now, 'UTC');
  v_today date := (p_now AT TIME ZONE 'UTC')::date;
  v account_windows;
BEGIN
  v.customer := p_balance.customer_id;
  -- Less the debt: then less than nothing is free, and not even a request that costs nothing is admitted.
  v.posted := p_balance.posted_nanos - p_balance.debt_nanos;
  v.leased := p_balance.leased_nanos;
  IF p_balance.minute >= v_minute AND p_balance.minute <= v_minute + interval '2 minutes' THEN
    v.minute := p_balance.minute;
    v.minute_used := p_balance.minute_requests;
  ELSE
    v.minute := v_minute;
    -- Zero, except when a clock that was set back reaches a minute again: its bulk leases may still use, or
    -- give back, their slots.
    SELECT coalesce(sum(o.slots), 0) INTO v.minute_used
      FROM lease o WHERE o.customer_id = v.customer AND o.slot_minute = v_minute AND o.slots IS NOT NULL;
  END IF;
  IF p_balance.day >= v_today AND p_balance.day <= v_today + 1 THEN
    v.day := p_balance.day;
    v.day_used := p_balance.day_requests;
    v.day_spent := p_balance.day_spent_nanos;
    v.day_leased := p_balance.day_leased_nanos;
    v.day_cap := p_balance.day_cap_nanos;
  ELSE
    v := open_day(v, p_balance, v_today);
  END IF;
  v.minute_ends_ms := epoch_ms(v.minute + interval '1 minute');
  v.day_ends_ms := epoch_ms((v.day + 1)::timestamp AT TIME ZONE 'UTC');
  RETURN v;
END $$;

-- Why a request that needs at least `p_floor` is refused for money. `p_key_left` is what the key's spend
-- limit leaves beyond its spend; NULL without a limit. `posted` is the balance less the charges of bulk
-- leases that are not folded yet; for 'account_in_debt', it is the debt, negative.
CREATE OR REPLACE FUNCTION money_refusal(w account_windows, p_floor bigint, p_cap bigint, p_key_left bigint, OUT verdict text, OUT posted bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_unfolded bigint;
  v_unfolded_today bigint;
BEGIN
  -- Less than nothing is free: only with a debt. See open_windows.
  IF w.posted < w.leased THEN
    verdict := 'account_in_debt';
    posted := w.posted - w.leased;
    RETURN;
  END IF;
  SELECT coalesce(sum(o.settled_nanos), 0), coalesce(sum(o.settled_nanos) FILTER (WHERE o.cap_day = w.day), 0) INTO v_unfolded, v_unfolded_today
    FROM lease o WHERE o.customer_id = w.customer AND o.slots IS NOT NULL;
  posted := w.posted - v_unfolded;
  verdict := CASE
    WHEN posted < p_floor THEN 'insufficient_credits'
    WHEN p_cap - w.day_spent - v_unfolded_today < p_floor THEN 'daily_spend_cap_reached'
    WHEN p_key_left < p_floor THEN 'key_spend_limit_reached'
    -- Only until the customer's running requests have ended.
    ELSE 'in_flight_budget'
  END;
END $$;

-- ---------------------------------------------------------------- tables

-- A top-up. Its id is the ref of its ledger transaction, so its credit is given once.
CREATE TABLE payment (
  payment_id    uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  driver        text NOT NULL CHECK (driver IN ('manual', 'voucher', 'stripe')),
  -- `auto_top_up`: the gateway started it, with a saved payment method.
  purpose       text NOT NULL CHECK (purpose IN ('top_up', 'auto_top_up')),
  -- `open`: waits for the payer. `processing`: the provider has not decided. `failed`, `expired` and `cancelled` payments become
  -- `paid` if the money arrives after all.
  state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'processing', 'paid', 'failed', 'expired', 'cancelled')),
  -- The credit. Taxes and fees come on top of it and are never credit.
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  -- What the provider must report before taxes, in the smallest unit of the currency.
  amount_minor  bigint NOT NULL CHECK (amount_minor > 0),
  currency      text NOT NULL,
  -- False: in the provider's test mode.
  is_live       boolean NOT NULL,
  -- A short code that people quote.
  reference     text NOT NULL UNIQUE,
  -- How the provider names the payment; NULL until it has answered.
  provider_ref  text,
  -- For a charge of a saved method.
  method_id     uuid,
  -- The page of the provider where the payer pays.
  redirect_url  text,
  receipt_url   text,
  invoice_url   text,
  -- Shown to the customer: why it failed.
  failure       text,
  -- Shown to operators: how the report of the provider differs from this row. Such a report is booked nowhere.
  mismatch      text,
  idempotency_key text,
  -- The person who started it. NULL for automatic ones.
  person_id     uuid,
  -- The first of two operators who confirmed a large manual payment.
  confirmed_by  uuid,
  created_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  paid_at       timestamptz,
  -- When the provider is asked next. NULL: not any more.
  next_look_at  timestamptz,
  -- Grows with every report that was booked: an older report than the last one is not booked.
  version       bigint NOT NULL DEFAULT 0,
  -- The ledger transaction of the credit. NULL: none was given.
  tx_id         bigint UNIQUE REFERENCES ledger_tx,
  -- The fees of the provider that are in the ledger.
  fee_nanos     bigint NOT NULL DEFAULT 0,
  CHECK ((state = 'paid') = (tx_id IS NOT NULL))
);
CREATE INDEX payment_customer_created ON payment (customer_id, created_at DESC, payment_id);
CREATE INDEX payment_created ON payment (created_at DESC, payment_id);
CREATE UNIQUE INDEX payment_idempotency ON payment (customer_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX payment_provider_ref ON payment (driver, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX payment_next_look ON payment (next_look_at) WHERE next_look_at IS NOT NULL;
-- One attempt at a time.
CREATE UNIQUE INDEX payment_auto_open ON payment (customer_id) WHERE purpose = 'auto_top_up' AND state IN ('open', 'processing');

-- Events of providers. An event is only a hint that something has changed; what has changed is asked for. It stays unhandled until
-- the answer is booked, in the same transaction.
CREATE TABLE payment_event (
  driver        text NOT NULL,
  event_id      text NOT NULL,
  type          text NOT NULL,
  -- What to ask for.
  provider_ref  text NOT NULL,
  received_at   timestamptz NOT NULL DEFAULT now(),
  handled_at    timestamptz,
  PRIMARY KEY (driver, event_id)
);
CREATE INDEX payment_event_waiting ON payment_event (received_at) WHERE handled_at IS NULL;

-- Money of a payment that went back to the payer: a refund, or a dispute (chargeback) that the payer's bank decides.
CREATE TABLE payment_reversal (
  reversal_id   uuid PRIMARY KEY,
  payment_id    uuid NOT NULL REFERENCES payment,
  customer_id   uuid NOT NULL,
  kind          text NOT NULL CHECK (kind IN ('refund', 'dispute')),
  -- `asked`: the credit is taken, and the provider has not confirmed the refund. `refused`: it will not refund, and the credit is back.
  state         text NOT NULL CHECK (state IN ('asked', 'done', 'refused')),
  -- How the provider names it; NULL until it has answered.
  provider_ref  text,
  -- What was asked for in a refund of ours, in the unit of the payment, with its part of the taxes. NULL for others.
  asked_minor   bigint CHECK (asked_minor > 0),
  -- What was taken and given back so far.
  taken_nanos   bigint NOT NULL,
  returned_nanos bigint NOT NULL DEFAULT 0,
  reason        text NOT NULL,
  at            timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),
  UNIQUE (payment_id, provider_ref),
  CHECK (taken_nanos >= returned_nanos AND returned_nanos >= 0)
);
CREATE INDEX payment_reversal_payment ON payment_reversal (payment_id);
CREATE INDEX payment_reversal_asked ON payment_reversal (at) WHERE state = 'asked';

-- A code that its bearer redeems once. The code has 125 random bits; the table holds their SHA-256.
CREATE TABLE voucher (
  voucher_id    uuid PRIMARY KEY,
  code_hash     bytea NOT NULL UNIQUE CHECK (length(code_hash) = 32),
  -- The last characters of the code, to recognise it.
  hint          text NOT NULL,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  note          text NOT NULL,
  -- NULL: the command line.
  made_by       uuid,
  made_at       timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz NOT NULL,
  revoked_at    timestamptz,
  payment_id    uuid UNIQUE REFERENCES payment,
  redeemed_at   timestamptz,
  CHECK ((payment_id IS NULL) = (redeemed_at IS NULL)),
  CHECK (revoked_at IS NULL OR redeemed_at IS NULL)
);
CREATE INDEX voucher_made ON voucher (made_at DESC, voucher_id);

-- A customer as a payment provider knows it.
CREATE TABLE payment_account (
  customer_id   uuid NOT NULL REFERENCES customer,
  driver        text NOT NULL,
  provider_ref  text NOT NULL,
  PRIMARY KEY (customer_id, driver)
);

-- A card or account that the provider keeps for a customer. The gateway never sees its number.
CREATE TABLE payment_method (
  method_id     uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  driver        text NOT NULL,
  provider_ref  text NOT NULL,
  -- Such as visa.
  brand         text NOT NULL,
  last4         text NOT NULL,
  expires       text NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  removed_at    timestamptz,
  UNIQUE (customer_id, driver, provider_ref)
);

-- A customer agreed to be charged when the balance falls below a threshold. No purchase writes here.
CREATE TABLE auto_top_up (
  customer_id   uuid PRIMARY KEY REFERENCES customer,
  method_id     uuid NOT NULL REFERENCES payment_method,
  threshold_nanos bigint NOT NULL CHECK (threshold_nanos > 0),
  -- Whole cents.
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0 AND amount_nanos % 10000000 = 0),
  -- The most that is charged in a UTC month.
  monthly_max_nanos bigint NOT NULL CHECK (monthly_max_nanos >= amount_nanos),
  consented_by  uuid NOT NULL,
  consented_at  timestamptz NOT NULL,
  -- After a refused charge or a dispute, until a person turns it on again.
  paused_at     timestamptz,
  pause_reason  text,
  CHECK ((paused_at IS NULL) = (pause_reason IS NULL))
);

CREATE TRIGGER note_change AFTER INSERT ON payment FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE TRIGGER note_state AFTER UPDATE ON payment FOR EACH ROW
  WHEN ((OLD.state, OLD.redirect_url, OLD.receipt_url, OLD.invoice_url, OLD.failure, OLD.mismatch)
    IS DISTINCT FROM (NEW.state, NEW.redirect_url, NEW.receipt_url, NEW.invoice_url, NEW.failure, NEW.mismatch))
  EXECUTE FUNCTION note_customer_change('payments');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON payment_reversal FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON payment_method FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON auto_top_up FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');

-- ---------------------------------------------------------------- parts

-- Locks the balance of a payment's customer, then the payment. A row of NULLs when there is no such payment.
CREATE FUNCTION lock_payment(p_payment uuid) RETURNS payment
LANGUAGE plpgsql AS $$
DECLARE
  v payment;
BEGIN
  -- The customer of a payment never changes.
  PERFORM FROM balance WHERE customer_id = (SELECT customer_id FROM payment WHERE payment_id = p_payment) FOR NO KEY UPDATE;
  SELECT * INTO v FROM payment WHERE payment_id = p_payment FOR UPDATE;
  RETURN v;
END $$;

-- Moves cash to a locked balance. Returns the transaction.
CREATE FUNCTION post_cash(p_kind text, p_ref text, p_customer uuid, p_amount bigint, p_reason text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
BEGIN
  INSERT INTO ledger_tx (kind, ref, reason) VALUES (p_kind, p_ref, p_reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'customer', p_customer, p_amount),
    (v_tx, 'cash', '00000000-0000-0000-0000-000000000000', -p_amount);
  UPDATE balance SET posted_nanos = posted_nanos + p_amount WHERE customer_id = p_customer;
  RETURN v_tx;
END $$;

-- Gives the credit of a locked payment, once.
CREATE FUNCTION give_payment_credit(p payment, p_kind text, p_ref text, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payment SET state = 'paid', paid_at = now(), failure = NULL, redirect_url = NULL,
      tx_id = post_cash(p_kind, p_ref, p.customer_id, p.amount_nanos, p_reason)
    WHERE payment_id = p.payment_id;
END $$;

-- What reversals have taken from a payment and not given back.
CREATE FUNCTION reversed_nanos(p_payment uuid) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(taken_nanos - returned_nanos), 0)::bigint FROM payment_reversal WHERE payment_id = p_payment
$$;

-- Moves what a reversal has taken, less what it has returned, to `p_target`. Takes what is free from the locked balance and the
-- rest as debt. Returns how much more was taken; negative when something was given back.
CREATE FUNCTION move_reversal(p_reversal uuid, p_target bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v payment_reversal;
  v_taken bigint;
  v_free bigint;
  v_tx bigint;
BEGIN
  SELECT * INTO STRICT v FROM payment_reversal WHERE reversal_id = p_reversal FOR UPDATE;
  v_taken := p_target - (v.taken_nanos - v.returned_nanos);
  IF v_taken = 0 THEN
    RETURN 0;
  END IF;
  IF v_taken < 0 THEN
    PERFORM post_cash('reversal_returned', p_reversal || ':' || v.returned_nanos - v_taken, v.customer_id, -v_taken, v.reason);
    UPDATE payment_reversal SET returned_nanos = returned_nanos - v_taken, updated_at = now() WHERE reversal_id = p_reversal;
    RETURN v_taken;
  END IF;
  SELECT least(posted_nanos - leased_nanos, v_taken) INTO v_free FROM balance WHERE customer_id = v.customer_id;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('reversal', p_reversal || ':' || v.taken_nanos + v_taken, v.reason) RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
    SELECT v_tx, e.kind, e.account, e.amount FROM (VALUES
      ('customer', v.customer_id, -v_free),
      ('customer_debt', v.customer_id, v_free - v_taken),
      ('cash', '00000000-0000-0000-0000-000000000000'::uuid, v_taken)
    ) AS e(kind, account, amount) WHERE e.amount <> 0;
  IF v_free > 0 THEN
    INSERT INTO credit_taken (customer_id, tx_id, amount_nanos) VALUES (v.customer_id, v_tx, v_free);
  END IF;
  UPDATE balance SET posted_nanos = posted_nanos - v_free, debt_nanos = debt_nanos + v_taken - v_free WHERE customer_id = v.customer_id;
  UPDATE payment_reversal SET taken_nanos = taken_nanos + v_taken, updated_at = now() WHERE reversal_id = p_reversal;
  IF v_taken > v_free THEN
    -- Nodes admit no more requests from leases that they hold.
    PERFORM recall_bulk_leases(ARRAY[v.customer_id], '00000000-0000-0000-0000-000000000000', false);
  END IF;
  RETURN v_taken;
END $$;

-- ---------------------------------------------------------------- top-ups

-- Starts a top-up, once for each idempotency key of a customer. Verdicts: 'started'; 'existing', with the earlier payment;
-- 'key_reused': the key was used for another amount or driver; 'too_many': 20 are open; 'no_account'.
CREATE FUNCTION start_payment(p_payment uuid, p_customer uuid, p_driver text, p_amount bigint, p_amount_minor bigint, p_currency text,
  p_is_live boolean, p_reference text, p_idempotency_key text, p_person uuid, p_expires_at timestamptz, p_next_look_at timestamptz)
RETURNS TABLE (verdict text, payment uuid)
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment;
BEGIN
  -- Top-ups of one customer start one after the other.
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'no_account', NULL::uuid;
    RETURN;
  END IF;
  SELECT * INTO v FROM payment p WHERE p.customer_id = p_customer AND p.idempotency_key = p_idempotency_key;
  IF FOUND THEN
    RETURN QUERY SELECT CASE WHEN v.amount_nanos = p_amount AND v.driver = p_driver THEN 'existing' ELSE 'key_reused' END, v.payment_id;
    RETURN;
  END IF;
  IF (SELECT count(*) FROM payment p WHERE p.customer_id = p_customer AND p.state IN ('open', 'processing')) >= 20 THEN
    RETURN QUERY SELECT 'too_many', NULL::uuid;
    RETURN;
  END IF;
  INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference,
      idempotency_key, person_id, expires_at, next_look_at)
    VALUES (p_payment, p_customer, p_driver, 'top_up', p_amount, p_amount_minor, p_currency, p_is_live, p_reference,
      p_idempotency_key, p_person, p_expires_at, p_next_look_at);
  RETURN QUERY SELECT 'started', p_payment;
END $$;

-- Notes how the provider names a payment, and where the payer pays. A second answer changes nothing.
CREATE FUNCTION note_payment_started(p_payment uuid, p_provider_ref text, p_redirect_url text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment SET provider_ref = p_provider_ref, redirect_url = CASE WHEN state = 'open' THEN p_redirect_url END
    WHERE payment_id = p_payment AND provider_ref IS NULL
$$;

-- Closes a payment that waits for its payer. Returns whether it was open. Money that arrives later is still booked.
CREATE FUNCTION close_payment(p_payment uuid, p_state text, p_failure text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payment SET state = p_state, failure = p_failure, redirect_url = NULL
    WHERE payment_id = p_payment AND state = 'open' AND p_state IN ('failed', 'expired', 'cancelled');
  RETURN FOUND;
END $$;

-- Books that the money of a manual payment arrived. Verdicts: 'paid', 'paid_before', 'not_manual', 'no_payment'. For the owner of
-- the tables: the gateway role calls confirm_payment.
CREATE FUNCTION book_manual_payment(p_payment uuid) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
BEGIN
  IF v.payment_id IS NULL THEN
    RETURN 'no_payment';
  ELSIF v.driver <> 'manual' THEN
    RETURN 'not_manual';
  ELSIF v.tx_id IS NOT NULL THEN
    RETURN 'paid_before';
  END IF;
  PERFORM give_payment_credit(v, 'payment', v.payment_id::text, 'payment ' || v.reference);
  RETURN 'paid';
END $$;

CREATE FUNCTION payment_detail(p payment) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('amount_usd', trim_scale(p.amount_nanos / 1e9)::text, 'reference', p.reference)
$$;

-- Like book_manual_payment, for an operator, with an entry in the audit log. As with request_grant, a second operator must confirm
-- as well when one operator gives one customer more than grant_alone_max_nanos in 24 hours. Other verdicts: 'waiting', 'not_operator'.
CREATE FUNCTION confirm_payment(p_operator uuid, p_payment uuid, p_address text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
  v_recent numeric;
  v_verdict text;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  ELSIF v.driver = 'manual' AND v.tx_id IS NULL AND coalesce(v.confirmed_by, p_operator) = p_operator AND has_other_operator(p_operator) THEN
    SELECT (SELECT coalesce(sum(p.amount_nanos), 0) FROM payment p
        WHERE p.customer_id = v.customer_id AND p.confirmed_by = p_operator AND p.paid_at > now() - interval '24 hours')
      + (SELECT coalesce(sum(g.amount_nanos), 0) FROM grant_request g
        WHERE g.customer_id = v.customer_id AND g.requested_by = p_operator AND g.state = 'granted' AND g.requested_at > now() - interval '24 hours')
      INTO v_recent;
    IF v_recent + v.amount_nanos > grant_alone_max_nanos() THEN
      IF v.confirmed_by IS NULL THEN
        UPDATE payment SET confirmed_by = p_operator WHERE payment_id = p_payment;
        PERFORM add_audit_entry(p_operator, 'payment.first_confirmation', p_payment::text, v.customer_id, payment_detail(v), p_address);
      END IF;
      RETURN 'waiting';
    END IF;
  END IF;
  v_verdict := book_manual_payment(p_payment);
  IF v_verdict = 'paid' THEN
    UPDATE payment SET confirmed_by = p_operator WHERE payment_id = p_payment AND confirmed_by IS NULL;
    PERFORM add_audit_entry(p_operator, 'payment.confirmed', p_payment::text, v.customer_id, payment_detail(v), p_address);
  END IF;
  RETURN v_verdict;
END $$;

-- ---------------------------------------------------------------- reports of providers

-- Books the difference between what the provider reports and what the books say. The order of reports does not matter, nor
-- whether some are doubled or lost. `p_fact` has these fields:
--   state              'open', 'processing', 'paid', 'failed', 'expired' or 'cancelled'
--   payment_id         our id, as the provider stores it
--   amount_minor, currency, is_live   must be those of the row
--   total_minor        what the payer paid, with taxes
--   failure, receipt_url, invoice_url
--   fee_nanos          the fees so far; NULL: unknown
--   reversals          [{ref, kind, minor, reversal_id, reason}]: what went back to the payer and did not return; `reversal_id` for refunds of ours
-- Results: 'booked', 'unchanged', 'mismatch' (nothing is booked, operators see why), 'stale' (another report was booked since
-- the provider was asked; ask again), 'no_payment'.
CREATE FUNCTION book_payment_report(p_payment uuid, p_driver text, p_version bigint, p_fact jsonb, p_next_look_at timestamptz)
RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
  v_mismatch text;
  v_is_changed boolean := false;
  v_fee bigint;
BEGIN
  IF v.payment_id IS NULL THEN
    RETURN 'no_payment';
  ELSIF v.version <> p_version THEN
    RETURN 'stale';
  END IF;
  v_mismatch := payment_mismatch(v, p_driver, p_fact);
  UPDATE payment SET version = version + 1, mismatch = v_mismatch, next_look_at = p_next_look_at WHERE payment_id = p_payment;
  IF v_mismatch IS NOT NULL THEN
    RETURN 'mismatch';
  END IF;
  IF v.tx_id IS NULL AND p_fact->>'state' = 'paid' THEN
    PERFORM give_payment_credit(v, 'payment', v.payment_id::text, 'payment ' || v.reference);
    v_is_changed := true;
  ELSIF v.tx_id IS NULL AND (v.state <> p_fact->>'state' OR v.failure IS DISTINCT FROM p_fact->>'failure') THEN
    UPDATE payment SET state = p_fact->>'state', failure = p_fact->>'failure',
        redirect_url = CASE WHEN p_fact->>'state' = 'open' THEN redirect_url END
      WHERE payment_id = p_payment;
    v_is_changed := true;
  END IF;
  UPDATE payment SET receipt_url = coalesce(p_fact->>'receipt_url', receipt_url), invoice_url = coalesce(p_fact->>'invoice_url', invoice_url)
    WHERE payment_id = p_payment;
  IF v.tx_id IS NOT NULL OR p_fact->>'state' = 'paid' THEN
    v_is_changed := book_reported_reversals(v, p_fact) OR v_is_changed;
    v_fee := coalesce((p_fact->>'fee_nanos')::bigint, v.fee_nanos) - v.fee_nanos;
    IF v_fee <> 0 THEN
      PERFORM post_processor_fee(p_payment, v.fee_nanos + v_fee, v_fee);
      v_is_changed := true;
    END IF;
  END IF;
  RETURN CASE WHEN v_is_changed THEN 'booked' ELSE 'unchanged' END;
END $$;

-- How a report differs from the row of the payment; NULL when it does not. The row decides how much credit a payment is worth.
CREATE FUNCTION payment_mismatch(p payment, p_driver text, p_fact jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT nullif(concat_ws('; ',
    CASE WHEN p.driver <> p_driver THEN format('driver %s, not %s', p_driver, p.driver) END,
    CASE WHEN p.payment_id::text IS DISTINCT FROM p_fact->>'payment_id' THEN format('payment %s', coalesce(p_fact->>'payment_id', 'without our id')) END,
    CASE WHEN p.amount_minor IS DISTINCT FROM (p_fact->>'amount_minor')::bigint THEN format('amount %s, not %s', p_fact->>'amount_minor', p.amount_minor) END,
    CASE WHEN p.currency IS DISTINCT FROM p_fact->>'currency' THEN format('currency %s, not %s', p_fact->>'currency', p.currency) END,
    CASE WHEN p.is_live IS DISTINCT FROM (p_fact->>'is_live')::boolean THEN format('live %s, not %s', p_fact->>'is_live', p.is_live) END
  ), '')
$$;

-- Books the reversals of a report. Returns whether something changed. A reversal takes at most what the payment gave and
-- others have not taken.
CREATE FUNCTION book_reported_reversals(p payment, p_fact jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v payment_reversal;
  v_target bigint;
  v_is_changed boolean := false;
BEGIN
  FOR r IN
    SELECT * FROM jsonb_to_recordset(coalesce(p_fact->'reversals', '[]')) AS f(ref text, kind text, minor bigint, reversal_id uuid, reason text)
    -- Those that give back come first, so that others can take it.
    ORDER BY minor, ref
  LOOP
    SELECT * INTO v FROM payment_reversal o
      WHERE o.payment_id = p.payment_id AND (o.provider_ref = r.ref OR (o.provider_ref IS NULL AND o.reversal_id = r.reversal_id)) FOR UPDATE;
    IF NOT FOUND THEN
      CONTINUE WHEN r.minor = 0;
      v.reversal_id := gen_random_uuid();
      INSERT INTO payment_reversal (reversal_id, payment_id, customer_id, kind, state, provider_ref, taken_nanos, reason)
        VALUES (v.reversal_id, p.payment_id, p.customer_id, r.kind, 'done', r.ref, 0, r.reason);
      v.asked_minor := NULL;
      v.taken_nanos := 0;
      v.returned_nanos := 0;
      v_is_changed := true;
    END IF;
    v_target := CASE
      WHEN r.minor = 0 THEN 0
      -- What an operator asked to refund was taken then.
      WHEN r.minor = v.asked_minor AND v.returned_nanos = 0 THEN v.taken_nanos
      -- The credit's part of what went back: the rest is its part of the taxes.
      ELSE div(p.amount_nanos::numeric * least(r.minor, (p_fact->>'total_minor')::bigint), (p_fact->>'total_minor')::bigint)::bigint END;
    v_target := least(v_target, p.amount_nanos - (reversed_nanos(p.payment_id) - (v.taken_nanos - v.returned_nanos)));
    v_is_changed := move_reversal(v.reversal_id, v_target) <> 0 OR v_is_changed;
    UPDATE payment_reversal o SET provider_ref = r.ref, state = CASE WHEN r.minor = 0 AND o.kind = 'refund' THEN 'refused' ELSE 'done' END,
        updated_at = now()
      WHERE o.reversal_id = v.reversal_id AND (o.provider_ref IS NULL OR o.state = 'asked' OR (r.minor = 0 AND o.kind = 'refund' AND o.state <> 'refused'));
    IF r.kind = 'dispute' AND r.minor > 0 THEN
      PERFORM pause_auto_top_up(p.customer_id, 'A payment was disputed.');
    END IF;
  END LOOP;
  RETURN v_is_changed;
END $$;

-- Books a change of the provider's fees. They are the platform's cost and never change a balance.
CREATE FUNCTION post_processor_fee(p_payment uuid, p_total bigint, p_change bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_tx bigint;
  v_number bigint;
BEGIN
  SELECT version INTO v_number FROM payment WHERE payment_id = p_payment;
  INSERT INTO ledger_tx (kind, ref, reason) VALUES ('processor_fee', p_payment || ':' || v_number, 'fees of the payment provider')
    RETURNING tx_id INTO v_tx;
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos) VALUES
    (v_tx, 'processor_fee', '00000000-0000-0000-0000-000000000000', -p_change),
    (v_tx, 'cash', '00000000-0000-0000-0000-000000000000', p_change);
  UPDATE payment SET fee_nanos = p_total WHERE payment_id = p_payment;
END $$;

-- Notes an event. Returns whether it waits: false when it was handled before.
CREATE FUNCTION note_payment_event(p_driver text, p_event text, p_type text, p_provider_ref text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payment_event (driver, event_id, type, provider_ref) VALUES (p_driver, p_event, p_type, p_provider_ref) ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM payment_event WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL);
END $$;

-- Call it in the transaction that books what the event hinted at.
CREATE FUNCTION finish_payment_event(p_driver text, p_event text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment_event SET handled_at = now() WHERE driver = p_driver AND event_id = p_event AND handled_at IS NULL
$$;

-- ---------------------------------------------------------------- reversals that operators order

-- Takes credit back for a refund of unspent credit, before the provider is asked to pay. With `p_is_dispute`, for a chargeback of
-- a manual payment: it may leave a debt. For the owner of the tables: the gateway role calls reverse_payment_by_operator.
-- Verdicts: 'taken'; 'duplicate': this id was used before; 'not_paid'; 'above_payment'; 'spent': less is free; 'not_manual': a
-- dispute of another payment is its provider's to report; 'no_payment'.
CREATE FUNCTION reverse_payment(p_reversal uuid, p_payment uuid, p_amount bigint, p_asked_minor bigint, p_is_dispute boolean, p_reason text)
RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment := lock_payment(p_payment);
BEGIN
  IF v.payment_id IS NULL THEN
    RETURN 'no_payment';
  ELSIF EXISTS (SELECT FROM payment_reversal WHERE reversal_id = p_reversal) THEN
    RETURN 'duplicate';
  ELSIF v.tx_id IS NULL THEN
    RETURN 'not_paid';
  ELSIF p_is_dispute AND v.driver = 'stripe' THEN
    RETURN 'not_manual';
  ELSIF p_amount > v.amount_nanos - reversed_nanos(p_payment) THEN
    RETURN 'above_payment';
  ELSIF NOT p_is_dispute AND p_amount > (SELECT posted_nanos - leased_nanos FROM balance WHERE customer_id = v.customer_id) THEN
    RETURN 'spent';
  END IF;
  INSERT INTO payment_reversal (reversal_id, payment_id, customer_id, kind, state, asked_minor, taken_nanos, reason)
    VALUES (p_reversal, p_payment, v.customer_id, CASE WHEN p_is_dispute THEN 'dispute' ELSE 'refund' END,
      CASE WHEN v.driver = 'stripe' THEN 'asked' ELSE 'done' END, p_asked_minor, 0, p_reason);
  PERFORM move_reversal(p_reversal, p_amount);
  IF p_is_dispute THEN
    PERFORM pause_auto_top_up(v.customer_id, 'A payment was disputed.');
  END IF;
  RETURN 'taken';
END $$;

-- The same with an entry in the audit log. Another verdict: 'not_operator'.
CREATE FUNCTION reverse_payment_by_operator(p_operator uuid, p_reversal uuid, p_payment uuid, p_amount bigint, p_asked_minor bigint,
  p_is_dispute boolean, p_reason text, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_verdict text;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  v_verdict := reverse_payment(p_reversal, p_payment, p_amount, p_asked_minor, p_is_dispute, p_reason);
  IF v_verdict = 'taken' THEN
    PERFORM add_audit_entry(p_operator, CASE WHEN p_is_dispute THEN 'payment.disputed' ELSE 'payment.refunded' END, p_payment::text, customer_id,
        jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text, 'reference', reference, 'reason', p_reason), p_address)
      FROM payment WHERE payment_id = p_payment;
  END IF;
  RETURN v_verdict;
END $$;

-- Gives back what a reversal took: the provider refused the refund, or a dispute of a manual payment was won. Returns whether
-- something was given back.
CREATE FUNCTION return_reversal(p_reversal uuid) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v payment;
  v_is_returned boolean;
BEGIN
  v := lock_payment((SELECT payment_id FROM payment_reversal WHERE reversal_id = p_reversal));
  IF v.payment_id IS NULL THEN
    RETURN false;
  END IF;
  v_is_returned := move_reversal(p_reversal, 0) <> 0;
  UPDATE payment_reversal SET state = 'refused' WHERE reversal_id = p_reversal AND kind = 'refund';
  RETURN v_is_returned;
END $$;

-- The same for an operator, with an entry in the audit log, for manual payments and vouchers.
CREATE FUNCTION return_reversal_by_operator(p_operator uuid, p_reversal uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) OR NOT EXISTS (
      SELECT FROM payment_reversal r JOIN payment USING (payment_id) WHERE r.reversal_id = p_reversal AND driver <> 'stripe')
    OR NOT return_reversal(p_reversal) THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(p_operator, 'payment.reversal_returned', payment_id::text, customer_id,
      jsonb_build_object('amount_usd', trim_scale(returned_nanos / 1e9)::text, 'reason', reason), p_address)
    FROM payment_reversal WHERE reversal_id = p_reversal;
  RETURN true;
END $$;

-- ---------------------------------------------------------------- vouchers

CREATE FUNCTION make_voucher(p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text, p_person uuid, p_expires_at timestamptz)
RETURNS void
LANGUAGE sql AS $$
  INSERT INTO voucher (voucher_id, code_hash, hint, amount_nanos, note, made_by, expires_at)
    VALUES (p_voucher, p_code_hash, p_hint, p_amount, p_note, p_person, p_expires_at)
$$;

-- For an operator, with an entry in the audit log. A voucher is worth money, so the limit of grants holds: where there is another
-- operator, one alone makes at most grant_alone_max_nanos in 24 hours. Verdicts: 'made', 'above_limit', 'not_operator'.
CREATE FUNCTION make_voucher_by_operator(p_operator uuid, p_voucher uuid, p_code_hash bytea, p_hint text, p_amount bigint, p_note text,
  p_expires_at timestamptz, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  -- Vouchers of one operator are made one after the other.
  PERFORM FROM person WHERE person_id = p_operator FOR NO KEY UPDATE;
  IF has_other_operator(p_operator) AND p_amount > grant_alone_max_nanos() - (
      SELECT coalesce(sum(amount_nanos), 0) FROM voucher
      WHERE made_by = p_operator AND made_at > now() - interval '24 hours' AND (revoked_at IS NULL OR payment_id IS NOT NULL)) THEN
    RETURN 'above_limit';
  END IF;
  PERFORM make_voucher(p_voucher, p_code_hash, p_hint, p_amount, p_note, p_operator, p_expires_at);
  PERFORM add_audit_entry(p_operator, 'voucher.made', p_voucher::text, NULL,
    jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text, 'hint', p_hint, 'note', p_note), p_address);
  RETURN 'made';
END $$;

-- Returns whether the voucher could still be redeemed until now.
CREATE FUNCTION revoke_voucher(p_voucher uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE voucher SET revoked_at = now() WHERE voucher_id = p_voucher AND revoked_at IS NULL AND redeemed_at IS NULL;
  RETURN FOUND;
END $$;

CREATE FUNCTION revoke_voucher_by_operator(p_operator uuid, p_voucher uuid, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) OR NOT revoke_voucher(p_voucher) THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(p_operator, 'voucher.revoked', p_voucher::text, NULL, jsonb_build_object('hint', hint), p_address)
    FROM voucher WHERE voucher_id = p_voucher;
  RETURN true;
END $$;

-- Redeems a voucher. Verdicts: 'redeemed'; 'duplicate': this customer redeemed it before; 'used', 'expired', 'revoked';
-- 'unknown'; 'no_account'.
CREATE FUNCTION redeem_voucher(p_payment uuid, p_customer uuid, p_code_hash bytea, p_reference text, p_person uuid)
RETURNS TABLE (verdict text, payment uuid)
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v voucher;
  v_payment payment;
BEGIN
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'no_account', NULL::uuid;
    RETURN;
  END IF;
  SELECT * INTO v FROM voucher WHERE code_hash = p_code_hash FOR UPDATE;
  verdict := CASE
    WHEN v.voucher_id IS NULL THEN 'unknown'
    WHEN v.payment_id IS NOT NULL THEN
      CASE WHEN (SELECT p.customer_id FROM payment p WHERE p.payment_id = v.payment_id) = p_customer THEN 'duplicate' ELSE 'used' END
    WHEN v.revoked_at IS NOT NULL THEN 'revoked'
    WHEN v.expires_at <= now() THEN 'expired'
    ELSE 'redeemed' END;
  IF verdict = 'redeemed' THEN
    INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference, person_id)
      -- A voucher has no provider. Its amount may be less than a cent, so the unit is a nano-USD.
      VALUES (p_payment, p_customer, 'voucher', 'top_up', v.amount_nanos, v.amount_nanos, 'usd', true, p_reference, p_person)
      RETURNING * INTO v_payment;
    PERFORM give_payment_credit(v_payment, 'voucher', v.voucher_id::text, 'voucher ' || v.hint);
    UPDATE voucher SET payment_id = p_payment, redeemed_at = now() WHERE voucher_id = v.voucher_id;
    payment := p_payment;
  ELSIF verdict = 'duplicate' THEN
    payment := v.payment_id;
  END IF;
  RETURN NEXT;
END $$;

-- ---------------------------------------------------------------- automatic top-ups

CREATE FUNCTION pause_auto_top_up(p_customer uuid, p_reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE auto_top_up SET paused_at = now(), pause_reason = p_reason WHERE customer_id = p_customer AND paused_at IS NULL;
  RETURN FOUND;
END $$;

-- Starts an automatic top-up if one is due: the balance is below the threshold, none is open, and the ceiling of the UTC month has
-- room for it. The rows are locked, so that the ceiling is exact. Returns whether it started. Its id is the idempotency key of the charge.
CREATE FUNCTION start_auto_top_up(p_payment uuid, p_customer uuid, p_is_live boolean, p_reference text,
  p_next_look_at timestamptz, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  b balance;
  v auto_top_up;
  m payment_method;
BEGIN
  SELECT * INTO b FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  SELECT * INTO v FROM auto_top_up WHERE customer_id = p_customer FOR UPDATE;
  SELECT * INTO m FROM payment_method WHERE method_id = v.method_id AND removed_at IS NULL;
  IF v.customer_id IS NULL OR v.paused_at IS NOT NULL OR m.method_id IS NULL OR b.debt_nanos > 0
    OR EXISTS (SELECT FROM customer WHERE customer_id = p_customer AND disabled_at IS NOT NULL)
    OR b.posted_nanos - (SELECT coalesce(sum(l.settled_nanos), 0) FROM lease l WHERE l.customer_id = p_customer AND l.slots IS NOT NULL) >= v.threshold_nanos
    OR EXISTS (SELECT FROM payment p WHERE p.customer_id = p_customer AND p.purpose = 'auto_top_up' AND p.state IN ('open', 'processing'))
    OR v.amount_nanos > v.monthly_max_nanos - (
      SELECT coalesce(sum(p.amount_nanos), 0) FROM payment p
      WHERE p.customer_id = p_customer AND p.purpose = 'auto_top_up' AND p.state = 'paid'
        AND p.created_at >= date_trunc('month', p_now, 'UTC')) THEN
    RETURN false;
  END IF;
  INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference, method_id, next_look_at, created_at)
    VALUES (p_payment, p_customer, m.driver, 'auto_top_up', v.amount_nanos, v.amount_nanos / 10000000, 'usd', p_is_live, p_reference, v.method_id, p_next_look_at, p_now);
  RETURN true;
END $$;

-- ---------------------------------------------------------------- sums over all customers
ALTER TABLE platform_money_day
  ADD COLUMN paid_nanos bigint NOT NULL DEFAULT 0,
  ADD COLUMN reversed_nanos bigint NOT NULL DEFAULT 0;

-- As in 0012, with payments.
CREATE OR REPLACE FUNCTION sum_platform_days(p_from date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from timestamptz := p_from::timestamp AT TIME ZONE 'UTC';
BEGIN
  -- Two sums at once would insert the same days.
  PERFORM pg_advisory_xact_lock(x'73797064'::int);  -- "sypd" in ASCII
  DELETE FROM platform_day WHERE day >= p_from;
  INSERT INTO platform_day
    SELECT day, model_id, provider, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), sum(latency_ms_sum)
    FROM usage_day WHERE day >= p_from GROUP BY day, model_id, provider HAVING sum(requests) <> 0;
  DELETE FROM platform_money_day WHERE day >= p_from;
  INSERT INTO platform_money_day (day, granted_nanos, signup_credit_nanos, refunded_nanos, refunded_share_nanos, writeoff_nanos, paid_nanos, reversed_nanos)
    SELECT day, coalesce(sum(granted), 0), coalesce(sum(signup), 0), coalesce(sum(refunded), 0), coalesce(sum(share), 0), coalesce(sum(writeoff), 0),
      coalesce(sum(paid), 0), coalesce(sum(reversed), 0)
    FROM (
      SELECT (t.at AT TIME ZONE 'UTC')::date AS day, CASE WHEN t.kind = 'credit' THEN -e.amount_nanos END AS granted,
        CASE WHEN t.kind = 'signup_credit' THEN -e.amount_nanos END AS signup,
        NULL::bigint AS refunded, NULL::bigint AS share, NULL::bigint AS writeoff,
        CASE WHEN t.kind IN ('payment', 'voucher') THEN -e.amount_nanos END AS paid,
        CASE WHEN t.kind IN ('reversal', 'reversal_returned') THEN e.amount_nanos END AS reversed
      FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      -- The index of 0012.
      WHERE t.kind <> 'settle' AND t.at >= v_from AND e.account_kind IN ('cash', 'platform_promo')
      UNION ALL
      SELECT (at AT TIME ZONE 'UTC')::date, NULL, NULL, amount_nanos, hoster_share_nanos, NULL, NULL, NULL FROM refund WHERE at >= v_from
      UNION ALL
      SELECT (started_at AT TIME ZONE 'UTC')::date, NULL, NULL, NULL, NULL, writeoff_nanos, NULL, NULL FROM usage_event
      WHERE writeoff_nanos > 0 AND started_at >= v_from
    ) AS changes
    GROUP BY day;
END $$;

-- ---------------------------------------------------------------- rights
-- Without book_manual_payment, reverse_payment and make_voucher: in the gateway, only operators do this, and the log has it.
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['payment', 'payment_event', 'payment_reversal', 'voucher', 'credit_taken']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_functions() || ARRAY['start_payment', 'note_payment_started', 'close_payment', 'confirm_payment',
      'book_payment_report', 'note_payment_event', 'finish_payment_event', 'reverse_payment_by_operator', 'return_reversal',
      'return_reversal_by_operator', 'make_voucher_by_operator', 'revoke_voucher_by_operator', 'redeem_voucher', 'pause_auto_top_up',
      'start_auto_top_up']::name[]));
END $$;
