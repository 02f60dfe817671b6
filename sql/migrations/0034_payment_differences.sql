-- What a payment provider has and the books do not, or the other way around. A charge can stay without its credit when its answer is lost, and a
-- payment that was charged twice has one credit.

-- The customer at the provider that a saved method belongs to. Charges are made and looked for there: the customer in payment_account may be a later one.
ALTER TABLE payment_method ADD COLUMN account_ref text;
UPDATE payment_method m SET account_ref = a.provider_ref FROM payment_account a WHERE a.customer_id = m.customer_id AND a.driver = m.driver;

-- The charge behind the credit of a payment, as the provider names it. NULL until the provider has reported it, and for other drivers.
ALTER TABLE payment ADD COLUMN charge_ref text;
-- A charge is credited once.
CREATE UNIQUE INDEX payment_charge_ref ON payment (driver, charge_ref) WHERE charge_ref IS NOT NULL;
CREATE INDEX payment_paid_at ON payment (driver, paid_at) WHERE paid_at IS NOT NULL;

CREATE TABLE payment_difference (
  driver        text NOT NULL,
  -- A charge, refund or dispute as the provider names it. For `credit`, our id of the payment.
  ref           text NOT NULL,
  -- `credit`: we gave it.
  kind          text NOT NULL CHECK (kind IN ('charge', 'refund', 'dispute', 'credit')),
  -- `unknown_payment`: no payment of ours has its id. `second_charge`: the payment has the credit of another charge. `not_booked`: the books
  -- refuse its report; the payment says why. `no_charge`: the provider has no charge for the credit.
  problem       text NOT NULL CHECK (problem IN ('unknown_payment', 'second_charge', 'not_booked', 'no_charge')),
  -- Our payment. NULL: unknown.
  payment_id    uuid REFERENCES payment,
  -- The charge that it belongs to, as the provider names it.
  charge_ref    text,
  amount_minor  bigint NOT NULL,
  currency      text NOT NULL,
  -- When the provider made it, or we gave the credit.
  at            timestamptz NOT NULL,
  found_at      timestamptz NOT NULL DEFAULT now(),
  ended_at      timestamptz,
  -- `agreed`: provider and books agree by now. `returned`: the charge failed, or all of it went back to the payer. `accepted`: an operator says so.
  outcome       text CHECK (outcome IN ('agreed', 'returned', 'accepted')),
  note          text,
  PRIMARY KEY (driver, ref),
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX payment_difference_open ON payment_difference (found_at) WHERE ended_at IS NULL;
