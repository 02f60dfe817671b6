-- Prices of customers, and what servers cost the operator, as it was when each request was settled.

-- ---------------------------------------------------------------- price groups

-- A discount, a markup, or own prices of single models, for customers and account tiers: docs/money.md.
CREATE TABLE price_group (
  name          text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  -- The current version.
  version       integer NOT NULL CHECK (version > 0),
  created_at    timestamptz NOT NULL DEFAULT now()
);

-- Versions never change, because receipts name them.
CREATE TABLE price_group_version (
  name          text NOT NULL REFERENCES price_group,
  version       integer NOT NULL CHECK (version > 0),
  -- As PriceRules in src/base/domain/price-group.ts. NULL: the group was removed.
  rules         jsonb CHECK (jsonb_typeof(rules) = 'object'),
  reason        text NOT NULL,
  at            timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, version)
);

-- NULL: the group of the account tier, or none.
ALTER TABLE customer ADD COLUMN price_group text REFERENCES price_group;
CREATE INDEX customer_price_group ON customer (price_group) WHERE price_group IS NOT NULL;

CREATE TABLE tier_price_group (
  account_tier  text PRIMARY KEY,
  price_group   text NOT NULL REFERENCES price_group
);

-- ---------------------------------------------------------------- usage rows

-- The view is made again with the new columns, which are NULL for most requests.
DROP VIEW IF EXISTS usage_row;
-- `upstream_cost_nanos`: what the cloud or server charges the operator. NULL: nothing, or it is not known.
ALTER TABLE usage_event ADD COLUMN price_group text, ADD COLUMN price_group_version integer, ADD COLUMN upstream_cost_nanos bigint;
ALTER TABLE usage_frozen ADD COLUMN price_group text, ADD COLUMN price_group_version integer, ADD COLUMN upstream_cost_nanos bigint;

ALTER TYPE settlement_asked ADD ATTRIBUTE price_group text, ADD ATTRIBUTE price_group_version integer, ADD ATTRIBUTE upstream_cost bigint;
ALTER TYPE settled_request ADD ATTRIBUTE endpoint text, ADD ATTRIBUTE upstream_cost bigint;
ALTER TYPE settled_sum ADD ATTRIBUTE endpoint text, ADD ATTRIBUTE upstream_cost bigint, ADD ATTRIBUTE costed bigint;

-- ---------------------------------------------------------------- sums

-- `costed_nanos`: charged for answers whose cost is known. The rest of what answers of clouds were charged has no known cost.
ALTER TABLE usage_day
  ADD COLUMN upstream_cost_nanos bigint NOT NULL DEFAULT 0, ADD COLUMN costed_nanos bigint NOT NULL DEFAULT 0;
ALTER TABLE usage_closing
  ADD COLUMN upstream_cost_nanos bigint NOT NULL DEFAULT 0, ADD COLUMN costed_nanos bigint NOT NULL DEFAULT 0;
ALTER TABLE platform_day
  ADD COLUMN upstream_cost_nanos bigint NOT NULL DEFAULT 0, ADD COLUMN costed_nanos bigint NOT NULL DEFAULT 0;

-- Sums of the usage rows per UTC day, server and model.
CREATE TABLE endpoint_day (
  day                 date NOT NULL,
  endpoint_id         text NOT NULL,
  model_id            text NOT NULL,
  provider            text NOT NULL,
  node_shard          smallint NOT NULL,
  requests            bigint NOT NULL,
  cost_nanos          bigint NOT NULL,
  hoster_share_nanos  bigint NOT NULL,
  fee_nanos           bigint NOT NULL,
  upstream_cost_nanos bigint NOT NULL,
  costed_nanos        bigint NOT NULL,
  PRIMARY KEY (day, endpoint_id, model_id, provider, node_shard)
) WITH (fillfactor = 70);
-- From this day on, endpoint_day has every request: an installation that served some before has the rest of today in it only.
INSERT INTO installation (name, value)
  SELECT 'endpoint_days_from', CASE WHEN EXISTS (SELECT FROM usage_day) THEN (now() AT TIME ZONE 'UTC')::date + 1 ELSE '2000-01-01' END::text;
