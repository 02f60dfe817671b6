-- The constants of money. PostgreSQL puts the value in the place of each call when it plans a statement, so a name costs nothing.

-- The account_id of the accounts that exist once, such as 'cash', 'platform_promo' and 'platform_revenue'.
CREATE OR REPLACE FUNCTION platform_account() RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;

-- Providers count in cents.
CREATE OR REPLACE FUNCTION nanos_per_cent() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 10000000::bigint $$;

-- In the place of a limit that is not set: the largest bigint.
CREATE OR REPLACE FUNCTION unlimited_nanos() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 9223372036854775807 $$;
