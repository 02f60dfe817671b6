-- Grants and vouchers that nobody paid for are promotion credit, as the signup credit is: the promotion account gives them, so what they pay to hosters
-- comes from its budget. Until now they counted as paid. What was granted and made before stays paid: nothing tells which of it was.

-- ---------------------------------------------------------------- grants
ALTER TABLE grant_request ADD COLUMN is_promotion boolean NOT NULL DEFAULT false;
ALTER TABLE grant_request ALTER COLUMN is_promotion DROP DEFAULT;

-- ---------------------------------------------------------------- vouchers
-- False for the vouchers of before: some were sold.
ALTER TABLE voucher ADD COLUMN is_promotion boolean NOT NULL DEFAULT false;
ALTER TABLE voucher ALTER COLUMN is_promotion DROP DEFAULT;
-- True if it redeemed a voucher that nobody paid for.
ALTER TABLE payment ADD COLUMN is_promotion boolean NOT NULL DEFAULT false CHECK (NOT is_promotion OR driver = 'voucher');
