-- A third role. The gateway role serves requests. The desk role signs people in, and books what they, operators and payment
-- providers order. So an SQL injection in the path of requests can start, book and pay nothing, and becomes nobody. When one role
-- does both jobs, it has the rights of both.

-- ---------------------------------------------------------------- payments
-- The credit of a payment is what its provider was asked for. NOT VALID: old rows need no reading.
ALTER TABLE payment ADD CONSTRAINT payment_amount_is_charged
  CHECK (driver <> 'stripe' OR (currency = 'usd' AND amount_nanos = amount_minor::numeric * 10000000)) NOT VALID;

-- ---------------------------------------------------------------- rights
-- True for the roles that do what the desk does.
ALTER TABLE gateway_role ADD COLUMN is_desk boolean NOT NULL DEFAULT true;
