-- Payments: top-ups, vouchers, reversals, debt, saved payment methods and automatic top-ups. The functions of
-- sql/functions/payments/ are the only writers of payment, payment_event, payment_reversal, voucher and credit_taken.

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

-- ---------------------------------------------------------------- sums over all customers
ALTER TABLE platform_money_day
  ADD COLUMN paid_nanos bigint NOT NULL DEFAULT 0,
  ADD COLUMN reversed_nanos bigint NOT NULL DEFAULT 0;
