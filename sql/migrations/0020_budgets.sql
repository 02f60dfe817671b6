-- Budgets of teams: spend limits of members, and labels of requests with their spend. A member's limit covers all keys that the
-- person made in the console. It works like the spend limit of a key: such keys are admitted by strict leases only, so spend and
-- holds are known under the lock of the balance, to the nano-USD, over all nodes.

-- ---------------------------------------------------------------- limits of members

-- The limit stays when the person leaves, because the keys stay. NULL means no limit: the row keeps the highest one.
CREATE TABLE member_limit (
  customer_id   uuid NOT NULL REFERENCES customer,
  person_id     uuid NOT NULL REFERENCES person ON DELETE CASCADE,
  spend_limit_nanos bigint CHECK (spend_limit_nanos >= 0),
  -- The highest limit that the member has had, as in api_key.
  highest_limit_nanos bigint NOT NULL,
  limit_reset   text NOT NULL DEFAULT 'none' CHECK (limit_reset IN ('none', 'daily', 'weekly', 'monthly')),
  PRIMARY KEY (customer_id, person_id)
);

-- What members with a limit have spent and hold, as key_spend has it for keys. Read and written only under the lock of the
-- customer's balance row.
CREATE TABLE member_spend (
  customer_id   uuid NOT NULL,
  person_id     uuid NOT NULL,
  window_start  date NOT NULL,
  spent_nanos   bigint NOT NULL DEFAULT 0 CHECK (spent_nanos >= 0),
  leased_nanos  bigint NOT NULL DEFAULT 0 CHECK (leased_nanos >= 0),
  PRIMARY KEY (customer_id, person_id, window_start)
) WITH (fillfactor = 50);

-- The member and the window of the limit that a lease counts against. NULL without a limit. Strict leases only.
ALTER TABLE lease ADD COLUMN member_id uuid, ADD COLUMN member_window date;

-- ---------------------------------------------------------------- labels

-- A label says what a request is for, such as a project. A request has the label of its header, else that of its key.
ALTER TABLE api_key ADD COLUMN label text CHECK (label ~ '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,63}$');

-- What requests with each label were charged, as in usage_key_day. A node adds at most 200 labels of a customer to a day; the
-- requests with further ones are summed under the empty label. Reports therefore read few rows, whatever clients send.
CREATE TABLE usage_label_day (
  customer_id   uuid NOT NULL,
  label         text NOT NULL,
  -- The UTC day the request began.
  day           date NOT NULL,
  node_shard    smallint NOT NULL,
  requests      bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  PRIMARY KEY (customer_id, day, label, node_shard)
) WITH (fillfactor = 70);
-- The days of all customers, for operators.
CREATE INDEX usage_label_day_day ON usage_label_day (day);

-- ---------------------------------------------------------------- usage rows

-- The view is made again with the new columns, which are NULL for most requests, so that their rows do not grow.
DROP VIEW IF EXISTS usage_row;
ALTER TABLE usage_event ADD COLUMN label text, ADD COLUMN member_id uuid, ADD COLUMN member_window date;
ALTER TABLE usage_frozen ADD COLUMN label text, ADD COLUMN member_id uuid, ADD COLUMN member_window date;

ALTER TABLE usage_closing ADD COLUMN label text, ADD COLUMN member_id uuid, ADD COLUMN member_window date;

ALTER TYPE settlement_asked ADD ATTRIBUTE label text;
ALTER TYPE unleased_settlement ADD ATTRIBUTE member uuid, ADD ATTRIBUTE member_window date;
ALTER TYPE settled_request ADD ATTRIBUTE label text;
ALTER TYPE settled_sum ADD ATTRIBUTE label text;
ALTER TYPE granted_lease ADD ATTRIBUTE member uuid, ADD ATTRIBUTE member_window date;
