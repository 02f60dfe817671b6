-- The tables. Money is bigint nano-USD (1e-9 USD), prices are picodollars per token, times are timestamptz.
-- Every key of a money table starts with the customer, so that customers can be sharded without changing a key.

-- ---------------------------------------------------------------- customers, hosters, users and keys
CREATE TABLE customer (
  customer_id   uuid PRIMARY KEY,
  email         text NOT NULL,
  account_tier  text NOT NULL,
  -- Override the limits of the account tier. NULL uses the tier's limit.
  requests_per_minute   integer CHECK (requests_per_minute > 0),
  requests_per_day      integer CHECK (requests_per_day > 0),
  daily_spend_cap_nanos bigint  CHECK (daily_spend_cap_nanos >= 0),
  -- While set, all keys of the customer are refused.
  disabled_at   timestamptz,
  -- A deleted customer keeps its row, because the ledger names it, but has neither keys nor an e-mail address of its own.
  deleted_at    timestamptz,
  created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX customer_email ON customer (lower(email));

CREATE TABLE hoster (
  hoster_id     uuid PRIMARY KEY,
  name          text NOT NULL UNIQUE,
  state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'active', 'suspended')),
  -- Set by the operator. Earned scores will be written to the same column.
  trust_score   double precision NOT NULL DEFAULT 0 CHECK (trust_score BETWEEN 0 AND 1),
  share_bps     integer NOT NULL CHECK (share_bps BETWEEN 0 AND 10000),
  created_at    timestamptz NOT NULL DEFAULT now()
);

-- A login of a customer, hoster or operator. The first start creates the operator.
CREATE TABLE app_user (
  user_id       uuid PRIMARY KEY,
  email         text NOT NULL,
  role          text NOT NULL CHECK (role IN ('operator', 'customer', 'hoster')),
  customer_id   uuid REFERENCES customer,
  hoster_id     uuid REFERENCES hoster,
  created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX app_user_email ON app_user (lower(email));

CREATE TABLE api_key (
  key_id        uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  name          text NOT NULL,
  -- SHA-256 of the whole key. Its 190 random bits need no salt and no slow hash.
  key_hash      bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
  -- The prefix and the last four characters, to recognize the key.
  hint          text NOT NULL,
  -- NULL means no limit.
  spend_limit_nanos bigint CHECK (spend_limit_nanos >= 0),
  -- The highest limit that the key has had. A window may have spent more than a limit that was lowered since.
  highest_limit_nanos bigint,
  -- When the limit resets, each time at 00:00 UTC: every day, on Mondays, on the first of the month, or never.
  limit_reset   text NOT NULL DEFAULT 'none' CHECK (limit_reset IN ('none', 'daily', 'weekly', 'monthly')),
  -- NULL allows every model.
  allowed_models text[],
  -- 'manage' may create, list and delete the keys of its customer.
  scopes        text[] NOT NULL DEFAULT '{}' CHECK (scopes <@ ARRAY['manage']),
  created_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  revoked_at    timestamptz
);
-- Revoked keys stay, since usage rows name them. The partial index keeps them out of lookups.
CREATE INDEX api_key_in_use ON api_key (customer_id) WHERE revoked_at IS NULL;

-- ---------------------------------------------------------------- supply
CREATE TABLE hoster_endpoint (
  endpoint_id   uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  base_url      text NOT NULL,
  -- AES-256-GCM under the master key, bound to the hoster by associated data. NULL when the endpoint needs no key.
  key_sealed    bytea,
  created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX hoster_endpoint_hoster ON hoster_endpoint (hoster_id);

-- Prices are never updated in place. A change closes the row and inserts the next version.
CREATE TABLE hoster_price (
  endpoint_id   uuid NOT NULL REFERENCES hoster_endpoint,
  model_id      text NOT NULL,
  version       integer NOT NULL CHECK (version > 0),
  upstream_model text NOT NULL,
  input_pico_per_token  bigint NOT NULL CHECK (input_pico_per_token >= 0),
  output_pico_per_token bigint NOT NULL CHECK (output_pico_per_token >= 0),
  context_tokens    integer NOT NULL CHECK (context_tokens > 0),
  max_output_tokens integer NOT NULL CHECK (max_output_tokens > 0),
  features      text[] NOT NULL DEFAULT '{}',
  valid_from    timestamptz NOT NULL DEFAULT now(),
  valid_until   timestamptz,
  PRIMARY KEY (endpoint_id, model_id, version)
);
CREATE UNIQUE INDEX hoster_price_current ON hoster_price (endpoint_id, model_id) WHERE valid_until IS NULL;

-- Incremented in the transaction of every change that running nodes must notice: keys, customers, hosters,
-- prices. Nodes poll it every second.
CREATE TABLE control_version (
  topic         text PRIMARY KEY CHECK (topic IN ('access', 'supply')),
  version       bigint NOT NULL DEFAULT 0
);
INSERT INTO control_version (topic) VALUES ('access'), ('supply');

-- Facts about this installation, such as the completed steps of the first run.
CREATE TABLE installation (
  name          text PRIMARY KEY,
  value         text NOT NULL
);

-- ---------------------------------------------------------------- money
-- One row per customer. Its lock is the only lock of the customer's money and limits. `leased` is the sum of
-- the open leases. `posted` does not yet include what bulk leases were charged since their last fold, so the
-- customer's credit is posted - sum(lease.settled). The windows of UTC minute and day are in the same row, so
-- they are exact for any number of nodes, and one update moves them with the money. The first admission of a
-- later window starts it at zero, and nothing has to be pruned.
CREATE TABLE balance (
  customer_id      uuid PRIMARY KEY REFERENCES customer,
  posted_nanos     bigint NOT NULL DEFAULT 0,
  leased_nanos     bigint NOT NULL DEFAULT 0,
  minute           timestamptz NOT NULL DEFAULT '-infinity',
  minute_requests  integer NOT NULL DEFAULT 0 CHECK (minute_requests >= 0),
  day              date    NOT NULL DEFAULT '-infinity',
  day_requests     integer NOT NULL DEFAULT 0 CHECK (day_requests >= 0),
  -- For the daily spend cap: what was charged to leases granted on `day` (for bulk leases: up to their last
  -- fold), and what the open ones hold.
  day_spent_nanos  bigint NOT NULL DEFAULT 0 CHECK (day_spent_nanos >= 0),
  day_leased_nanos bigint NOT NULL DEFAULT 0 CHECK (day_leased_nanos >= 0),
  -- The highest cap that an admission of that day had. Late charges keep within it too. NULL before the first
  -- admission.
  day_cap_nanos    bigint,
  CONSTRAINT no_overdraft CHECK (leased_nanos >= 0 AND posted_nanos >= leased_nanos)
  -- No index may contain the changing columns, so that every update stays in its page (HOT). Half of each page is
  -- free for that.
) WITH (fillfactor = 50);

-- What customers were charged on days other than the one in `balance`, since requests of another day may
-- still end. A day is in one of the two places. Read and written only under the lock of the customer's
-- balance row.
CREATE TABLE day_spend (
  customer_id   uuid NOT NULL,
  day           date NOT NULL,
  spent_nanos   bigint NOT NULL CHECK (spent_nanos >= 0),
  -- The highest cap of that day, as in `balance`. For a day without an admission: the cap that was known when
  -- it was charged.
  cap_nanos     bigint,
  PRIMARY KEY (customer_id, day)
);

-- What keys with a spend limit have spent and hold: one row per window of the limit. Keys without a limit
-- have no rows. Read and written only under the lock of the customer's balance row.
CREATE TABLE key_spend (
  customer_id   uuid NOT NULL,
  key_id        uuid NOT NULL,
  -- The UTC day on which the window began. -infinity for a limit that never resets.
  window_start  date NOT NULL,
  spent_nanos   bigint NOT NULL DEFAULT 0 CHECK (spent_nanos >= 0),
  leased_nanos  bigint NOT NULL DEFAULT 0 CHECK (leased_nanos >= 0),
  PRIMARY KEY (customer_id, key_id, window_start)
) WITH (fillfactor = 50);

-- One row per process start of a gateway, until its leases have ended. The id is never used again, so a lease
-- always names the one process that may use it. Every admission reads this table, so a row changes only when its
-- node starts or dies. Its functions are in sql/functions/money/nodes.sql.
CREATE TABLE node (
  node_id       uuid PRIMARY KEY,
  state         text NOT NULL DEFAULT 'alive' CHECK (state IN ('alive', 'dead')),
  started_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX node_state ON node (state);

-- The number of the latest heartbeat of each live node. A dead node has no row. The other nodes measure on their own
-- monotonic clocks how long a number stays the same: no clock of PostgreSQL decides whether a node is alive. The
-- rows change every second. They are not in `node`, because old versions of a row slow down its readers while a
-- long transaction, such as a dump, keeps them.
CREATE TABLE node_heartbeat (
  node_id       uuid PRIMARY KEY,
  heartbeats    integer NOT NULL
) WITH (fillfactor = 50);

-- Money that is held before a request is sent. A strict lease serves exactly one request and has its id. A
-- bulk lease lets its node admit requests of one customer in memory. It also holds request slots, which count
-- in the windows of the balance from the grant on. Only open leases have a row: the transaction that ends a
-- lease deletes it.
CREATE TABLE lease (
  lease_id      uuid PRIMARY KEY,
  customer_id   uuid NOT NULL,
  node_id       uuid NOT NULL,
  -- Strict leases only: the reaper writes these into the usage row when the node died.
  key_id        uuid,
  model_id      text,
  -- The window of the key's spend limit that the lease counts against. NULL for keys without a limit and for
  -- bulk leases.
  key_window    date,
  granted_nanos bigint NOT NULL,
  -- Bulk leases only: what requests were charged since the last fold. The ledger has these charges, but
  -- balance.posted and balance.leased still contain the money, so that a batch of settlements need not touch the
  -- balance row, which all nodes share.
  settled_nanos bigint NOT NULL DEFAULT 0,
  -- NULL marks a strict lease.
  slots         integer CHECK (slots >= 0),
  slot_minute   timestamptz,
  -- Bulk leases only: how many slots requests have used, and what running requests and uncommitted charges need, as
  -- the node last reported it. For reports of other nodes: no decision depends on these two.
  slots_used    integer NOT NULL DEFAULT 0,
  owed_nanos    bigint NOT NULL DEFAULT 0,
  -- The unused part is needed elsewhere: the node is asked to hand it back.
  recalled      boolean NOT NULL DEFAULT false,
  cap_day       date NOT NULL,
  granted_at    timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT never_overspent CHECK (settled_nanos >= 0 AND granted_nanos >= settled_nanos)
) WITH (fillfactor = 50);
CREATE INDEX lease_bulk ON lease (customer_id) WHERE slots IS NOT NULL;
CREATE INDEX lease_recalled ON lease (node_id) WHERE recalled;
-- Rows live for one request, so the table is small but changes fast. The few readers of all open leases
-- (reaper, audit) may scan it. Vacuum after a number of dead rows: a fraction of a nearly empty table is no
-- useful threshold.
ALTER TABLE lease SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- Double entry: every change of money is one transaction, and its entries sum to zero. Append only.
CREATE TABLE ledger_tx (
  tx_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind          text NOT NULL CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund')),
  ref           text NOT NULL,
  reason        text,
  at            timestamptz NOT NULL DEFAULT now(),
  UNIQUE (kind, ref)
);

CREATE TABLE ledger_entry (
  -- Always a row of ledger_tx, written in the same transaction by the functions of sql/functions/money/. A foreign key would
  -- look up each one again. The audit checks it.
  tx_id         bigint NOT NULL,
  account_kind  text NOT NULL CHECK (account_kind IN ('customer', 'hoster_payable', 'platform_revenue', 'platform_promo', 'cash')),
  -- The customer or hoster. The nil UUID for the platform's own accounts.
  account_id    uuid NOT NULL,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos <> 0),
  PRIMARY KEY (account_kind, account_id, tx_id)
);
CREATE INDEX ledger_entry_tx ON ledger_entry (tx_id);

-- ---------------------------------------------------------------- usage
-- One row per admitted request. UUIDv7 ids are ordered by time, so partitions by id are partitions by time,
-- and the primary key is in the order of time.
CREATE TABLE usage_event (
  -- Columns of 16, 8 and 4 bytes come before the others, so that no row has gaps between them. With a billion rows, a
  -- byte is a gigabyte.
  customer_id   uuid NOT NULL,
  request_id    uuid NOT NULL,
  key_id        uuid,
  hoster_id     uuid,
  started_at    timestamptz NOT NULL,
  -- The ledger transaction of the charge. NULL when the request cost nothing.
  tx_id         bigint,
  input_pico_per_token  bigint NOT NULL,
  output_pico_per_token bigint NOT NULL,
  hold_nanos    bigint NOT NULL,
  cost_nanos    bigint NOT NULL CHECK (cost_nanos >= 0 AND cost_nanos <= hold_nanos),
  hoster_share_nanos bigint NOT NULL CHECK (hoster_share_nanos >= 0),
  fee_nanos     bigint NOT NULL CHECK (fee_nanos >= 0),
  -- The part of the measured cost that is not charged: beyond the hold, or because the lease was gone.
  writeoff_nanos bigint NOT NULL DEFAULT 0 CHECK (writeoff_nanos >= 0),
  -- The version in hoster_price. NULL when the configuration sets the price.
  price_version integer,
  input_tokens  integer NOT NULL CHECK (input_tokens >= 0),
  output_tokens integer NOT NULL CHECK (output_tokens >= 0),
  reported_input_tokens  integer,
  reported_output_tokens integer,
  -- Counted by the gateway. NULL when no count was needed.
  counted_input_tokens   integer,
  counted_output_tokens  integer,
  latency_ms    integer NOT NULL CHECK (latency_ms >= 0),
  first_token_ms integer,
  -- The UTC day of the spend cap that the charge counts against: the day its lease was granted. NULL when the
  -- lease was gone and the request cost nothing.
  cap_day       date,
  -- The window of the key's spend limit that the charge counts against. NULL for keys without a limit.
  key_window    date,
  success       boolean NOT NULL,
  -- The model that served, or the requested one when none did.
  model_id      text NOT NULL,
  provider      text NOT NULL CHECK (provider IN ('local', 'hoster', 'cloud', 'none')),
  endpoint_id   text,
  usage_source  text NOT NULL CHECK (usage_source IN ('upstream', 'gateway', 'none')),
  outcome       text NOT NULL,
  finish_reason text,
  -- As in src/base/domain/stored-attempts.ts: usually a number. json instead of jsonb: no query reads its parts, and
  -- parsing it would cost a twentieth of a settlement.
  attempts      json NOT NULL DEFAULT '[]',
  -- The candidates and why they were ranked or excluded, as in src/base/domain/routing-note.ts. NULL when there
  -- was nothing to choose.
  routing       jsonb,
  PRIMARY KEY (customer_id, request_id),
  CHECK (cost_nanos = hoster_share_nanos + fee_nanos),
  CHECK (hoster_share_nanos = 0 OR hoster_id IS NOT NULL)
) PARTITION BY RANGE (request_id);
CREATE TABLE usage_event_default PARTITION OF usage_event DEFAULT;
-- For the audit, which reads the rows of a range of transactions. Rows are in the order of their transactions, so a few
-- kilobytes for each gigabyte of rows suffice.
CREATE INDEX usage_event_tx ON usage_event USING brin (tx_id) WITH (autosummarize = on);

-- Sums of the usage rows, written in the same transactions. Three tables, each no finer than a report
-- needs: with models, the hours would be 350,000 rows a year for a busy customer on two nodes, and reading such a
-- year took 0.4 s. All are sharded by node, so that nodes never wait for each other's rows.
-- Readers sum the shards.
CREATE TABLE usage_hour (
  customer_id   uuid NOT NULL,
  hour          timestamptz NOT NULL,
  node_shard    smallint NOT NULL,
  requests      bigint NOT NULL,
  successes     bigint NOT NULL,
  local_requests  bigint NOT NULL,
  hoster_requests bigint NOT NULL,
  cloud_requests  bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  -- Over successful requests only.
  latency_ms_sum bigint NOT NULL,
  PRIMARY KEY (customer_id, hour, node_shard)
) WITH (fillfactor = 70);

CREATE TABLE usage_day (
  customer_id   uuid NOT NULL,
  -- The UTC day the request began.
  day           date NOT NULL,
  model_id      text NOT NULL,
  provider      text NOT NULL,
  node_shard    smallint NOT NULL,
  requests      bigint NOT NULL,
  successes     bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos     bigint NOT NULL,
  -- Over successful requests only.
  latency_ms_sum bigint NOT NULL,
  PRIMARY KEY (customer_id, day, model_id, provider, node_shard)
) WITH (fillfactor = 70);

-- What each key was charged. No other table has that for keys without a spend limit. A separate table,
-- because usage_day with keys would have too many rows: see above.
CREATE TABLE usage_key_day (
  customer_id   uuid NOT NULL,
  key_id        uuid NOT NULL,
  -- The UTC day the request began.
  day           date NOT NULL,
  node_shard    smallint NOT NULL,
  requests      bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  PRIMARY KEY (customer_id, key_id, day, node_shard)
) WITH (fillfactor = 70);
