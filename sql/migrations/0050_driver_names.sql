-- The program knows which drivers there are (src/base/domain/money-drivers.ts). Here a name only has a form, so that a further driver needs no
-- migration.

-- Ours are named, because they never change: any other driver has a provider, which reports its payments and must be asked for refunds.
-- Locks `payment` while it is written once more.
ALTER TABLE payment
  DROP CONSTRAINT payment_driver_check,
  DROP CONSTRAINT payment_amount_is_charged,
  ADD COLUMN has_provider boolean NOT NULL GENERATED ALWAYS AS (driver NOT IN ('manual', 'voucher')) STORED,
  ADD CONSTRAINT payment_driver_check CHECK (driver ~ '^[a-z][a-z0-9_]{0,31}$');
-- The credit of a payment is what its provider was asked for. NOT VALID: old rows need no reading.
ALTER TABLE payment ADD CONSTRAINT payment_amount_is_charged
  CHECK (NOT has_provider OR (currency = 'usd' AND amount_nanos = amount_minor::numeric * 10000000)) NOT VALID;

ALTER TABLE hoster_account DROP CONSTRAINT hoster_account_driver_check,
  ADD CONSTRAINT hoster_account_driver_check CHECK (driver ~ '^[a-z][a-z0-9_]{0,31}$');
ALTER TABLE payout_batch DROP CONSTRAINT payout_batch_driver_check,
  ADD CONSTRAINT payout_batch_driver_check CHECK (driver ~ '^[a-z][a-z0-9_]{0,31}$');
ALTER TABLE payout_change DROP CONSTRAINT payout_change_driver_check,
  ADD CONSTRAINT payout_change_driver_check CHECK (driver ~ '^[a-z][a-z0-9_]{0,31}$');
