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

-- Notes a difference. Returns whether it is new, or open again. What an operator accepted stays so.
CREATE FUNCTION note_payment_difference(p_driver text, p_ref text, p_kind text, p_problem text, p_payment uuid, p_charge_ref text, p_amount_minor bigint,
  p_currency text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payment_difference AS d (driver, ref, kind, problem, payment_id, charge_ref, amount_minor, currency, at)
    VALUES (p_driver, p_ref, p_kind, p_problem, p_payment, p_charge_ref, p_amount_minor, p_currency, p_at)
    ON CONFLICT (driver, ref) DO UPDATE SET problem = excluded.problem, payment_id = excluded.payment_id, ended_at = NULL, outcome = NULL
      WHERE d.outcome IN ('agreed', 'returned') OR (d.ended_at IS NULL AND d.problem <> excluded.problem);
  RETURN FOUND;
END $$;

-- Ends a difference that is none any more.
CREATE FUNCTION end_payment_difference(p_driver text, p_ref text, p_is_returned boolean) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment_difference SET ended_at = now(), outcome = CASE WHEN p_is_returned THEN 'returned' ELSE 'agreed' END
    WHERE driver = p_driver AND ref = p_ref AND ended_at IS NULL
$$;

-- Ends a difference that an operator has dealt with outside of the books. Returns whether it was open. For the owner of the tables: a gateway that
-- hides a difference hides a theft.
CREATE FUNCTION accept_payment_difference(p_ref text, p_note text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE payment_difference SET ended_at = now(), outcome = 'accepted', note = p_note WHERE ref = p_ref AND ended_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM add_audit_entry(NULL, 'payment.difference_accepted', p_ref, NULL, jsonb_build_object('note', p_note), NULL);
  RETURN true;
END $$;

-- Lets a payment without a credit follow another charge of its own, such as one that appeared late. A report that was read before is stale then.
CREATE FUNCTION adopt_charge(p_payment uuid, p_provider_ref text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment SET provider_ref = p_provider_ref, version = version + 1
    WHERE payment_id = p_payment AND tx_id IS NULL AND provider_ref IS DISTINCT FROM p_provider_ref
$$;

-- Notes the charge behind a credit. Call it in the transaction that books the report.
CREATE FUNCTION note_payment_charge(p_payment uuid, p_charge_ref text) RETURNS void
LANGUAGE sql AS $$
  UPDATE payment SET charge_ref = p_charge_ref WHERE payment_id = p_payment AND tx_id IS NOT NULL AND charge_ref IS NULL
$$;

-- ---------------------------------------------------------------- rights
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['payment_difference']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION desk_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', desk_functions() || ARRAY['note_payment_difference', 'end_payment_difference', 'adopt_charge', 'note_payment_charge']::name[]));
END $$;
