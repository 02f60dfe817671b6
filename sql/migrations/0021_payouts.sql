-- What hosters earn and how it is paid out: the tables of sql/functions/payouts/.

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

-- ---------------------------------------------------------------- other tables
-- What changed the account of a hoster besides charges and refunds: an index of the few lines among millions of charges.
CREATE TABLE hoster_movement (
  hoster_id     uuid NOT NULL,
  tx_id         bigint NOT NULL REFERENCES ledger_tx,
  -- Above zero: to the hoster.
  amount_nanos  bigint NOT NULL CHECK (amount_nanos <> 0),
  PRIMARY KEY (hoster_id, tx_id)
);

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

-- The same for payouts as payment_event for payments.
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

-- ---------------------------------------------------------------- with the functions of this version
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
