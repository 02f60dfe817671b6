-- What promotion credit pays to hosters comes from a budget of the operator. It is found by day, from sums, long before it can be paid: requests
-- and settlements do no more work than before. docs/payouts.md describes the rules.

-- ---------------------------------------------------------------- ledger
-- `promotion_excess` moves from the hoster to platform_promo: what promotion credit paid beyond the budget, or what an operator withheld. NOT VALID:
-- the old rows satisfied a stricter check, and reading them all would take minutes.
ALTER TABLE ledger_tx DROP CONSTRAINT ledger_tx_kind_check;
ALTER TABLE ledger_tx ADD CONSTRAINT ledger_tx_kind_check CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund',
  'payment', 'voucher', 'reversal', 'reversal_returned', 'debt_payment', 'processor_fee',
  'payout', 'payout_paid', 'payout_returned', 'earnings_moved', 'clawback', 'clawback_returned', 'opening_balance', 'promotion_excess')) NOT VALID;

-- ---------------------------------------------------------------- tables
-- Days until `closed_day` are done; those before this migration count as paid with own money. `found_day`: the requests until this day
-- were looked at. One row.
CREATE TABLE promotion_progress (
  closed_day    date NOT NULL,
  found_day     date NOT NULL
);
INSERT INTO promotion_progress SELECT today - 1, today FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) d;

-- The part of a hoster's earnings of one UTC day that the promotion credit of one customer paid.
CREATE TABLE promotion_share (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  day           date NOT NULL,
  customer_id   uuid NOT NULL,
  share_nanos   bigint NOT NULL CHECK (share_nanos > 0),
  -- `clear`: nothing relates the customer to the hoster. `waiting`: an operator decides.
  state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'clear', 'waiting', 'released', 'withheld')),
  PRIMARY KEY (hoster_id, day, customer_id)
);
CREATE INDEX promotion_share_day ON promotion_share (day);

-- A day of a hoster past the hold of promotional earnings. Its rows in promotion_share keep their amounts from then on.
CREATE TABLE promotion_day (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  day           date NOT NULL,
  share_nanos   bigint NOT NULL,
  -- What the budget pays of it.
  budget_nanos  bigint NOT NULL CHECK (budget_nanos BETWEEN 0 AND share_nanos),
  -- What the promotion account has taken back: the rest, and what was withheld.
  taken_nanos   bigint NOT NULL DEFAULT 0 CHECK (taken_nanos BETWEEN 0 AND share_nanos),
  -- The payout that has what is left. NULL: it is in none yet.
  payout_id     uuid REFERENCES payout,
  PRIMARY KEY (hoster_id, day)
);
CREATE INDEX promotion_day_payout ON promotion_day (payout_id) WHERE payout_id IS NOT NULL;

-- Promotional earnings that related customers paid. A batch with a payout to the hoster waits for the decision.
CREATE TABLE promotion_review (
  review_id     uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  share_nanos   bigint NOT NULL,
  -- [{customer_id, evidence, detail}], as it was then.
  evidence      jsonb NOT NULL,
  opened_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  state         text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'released', 'withheld')),
  reason        text,
  -- NULL with a decision: the command line.
  decided_by    uuid,
  decided_at    timestamptz,
  CHECK ((state = 'waiting') = (decided_at IS NULL))
);
CREATE UNIQUE INDEX promotion_review_waiting ON promotion_review (hoster_id) WHERE state = 'waiting';
CREATE INDEX promotion_review_opened ON promotion_review (opened_at DESC, review_id);

-- Customers without promotion credit: it is given when an account is opened, and only a refund brings it back. The search leaves them out, because the
-- history of 10,000 customers of hosters takes 14 seconds.
CREATE TABLE promotion_used_up (
  customer_id   uuid PRIMARY KEY,
  -- From the next day on, the customer has none, unless a refund came later.
  day           date NOT NULL,
  noted_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The settings that payouts follow.
CREATE TYPE payout_rules AS (hold_days integer, promotion_hold_days integer, promotion_hoster_day_nanos bigint, promotion_day_nanos bigint,
  promotion_needs_payers boolean);

-- ---------------------------------------------------------------- with the functions of this version
SELECT note_promotion_used_up(ARRAY(SELECT customer_id FROM balance), (SELECT closed_day + 1 FROM promotion_progress));
