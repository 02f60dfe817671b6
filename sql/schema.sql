-- All tables as the migrations leave them, to read. What each column means stands in sql/migrations. Functions and views: sql/functions.
-- `npm run schema` writes this file.

CREATE TABLE alarm (
  alarm_key text NOT NULL,
  kind text NOT NULL,
  severity text NOT NULL,
  message text NOT NULL,
  began_at timestamp with time zone NOT NULL,
  seen_at timestamp with time zone NOT NULL,
  ended_at timestamp with time zone,
  CONSTRAINT alarm_pkey PRIMARY KEY (alarm_key),
  CONSTRAINT alarm_severity_check CHECK ((severity = ANY (ARRAY['danger'::text, 'warn'::text])))
);

CREATE TABLE alert (
  alert_id uuid NOT NULL,
  rule_id uuid NOT NULL,
  kind text NOT NULL,
  occurrence text NOT NULL,
  facts jsonb NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  delivered_at timestamp with time zone,
  CONSTRAINT alert_pkey PRIMARY KEY (alert_id),
  CONSTRAINT alert_rule_id_occurrence_key UNIQUE (rule_id, occurrence),
  CONSTRAINT alert_rule_id_fkey FOREIGN KEY (rule_id) REFERENCES alert_rule(rule_id) ON DELETE CASCADE
);
CREATE INDEX alert_created ON alert USING btree (created_at);
CREATE INDEX alert_rule_time ON alert USING btree (rule_id, created_at);
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON alert FOR EACH ROW EXECUTE FUNCTION note_alert();

CREATE TABLE alert_delivery (
  alert_id uuid NOT NULL,
  attempt integer NOT NULL,
  outcome text NOT NULL,
  status integer,
  error text,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT alert_delivery_pkey PRIMARY KEY (alert_id, attempt),
  CONSTRAINT alert_delivery_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alert(alert_id) ON DELETE CASCADE,
  CONSTRAINT alert_delivery_attempt_check CHECK ((attempt > 0)),
  CONSTRAINT alert_delivery_outcome_check CHECK ((outcome = ANY (ARRAY['delivered'::text, 'logged'::text, 'failed'::text])))
);

CREATE TABLE alert_rule (
  rule_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  kind text NOT NULL,
  threshold_nanos bigint,
  channel text NOT NULL,
  target text NOT NULL,
  secret_sealed bytea,
  is_below boolean NOT NULL DEFAULT false,
  crossings bigint NOT NULL DEFAULT 0,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  disabled_at timestamp with time zone,
  CONSTRAINT alert_rule_pkey PRIMARY KEY (rule_id),
  CONSTRAINT alert_rule_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT alert_rule_channel_check CHECK ((channel = ANY (ARRAY['email'::text, 'webhook'::text]))),
  CONSTRAINT alert_rule_check CHECK (((kind = ANY (ARRAY['low_balance'::text, 'large_charge'::text])) = (threshold_nanos IS NOT NULL))),
  CONSTRAINT alert_rule_check1 CHECK (((kind <> 'large_charge'::text) OR (threshold_nanos >= 100000000))),
  CONSTRAINT alert_rule_check2 CHECK (((channel = 'webhook'::text) = (secret_sealed IS NOT NULL))),
  CONSTRAINT alert_rule_kind_check CHECK ((kind = ANY (ARRAY['low_balance'::text, 'daily_spend'::text, 'key_limit_reached'::text, 'large_charge'::text]))),
  CONSTRAINT alert_rule_threshold_nanos_check CHECK ((threshold_nanos > 0))
);
CREATE INDEX alert_rule_customer ON alert_rule USING btree (customer_id) WHERE (disabled_at IS NULL);
CREATE TRIGGER note_change AFTER INSERT OR DELETE OR UPDATE ON alert_rule FOR EACH ROW EXECUTE FUNCTION note_customer_change('alerts');

CREATE TABLE alert_watch (
  looked_at timestamp with time zone NOT NULL
);

CREATE TABLE api_key (
  key_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  name text NOT NULL,
  key_hash bytea NOT NULL,
  hint text NOT NULL,
  spend_limit_nanos bigint,
  highest_limit_nanos bigint,
  limit_reset text NOT NULL DEFAULT 'none'::text,
  allowed_models text[],
  scopes text[] NOT NULL DEFAULT '{}'::text[],
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  routing_defaults jsonb,
  person_id uuid,
  is_playground boolean NOT NULL DEFAULT false,
  label text,
  paused_at timestamp with time zone,
  former_key_hash bytea,
  former_hint text,
  former_expires_at timestamp with time zone,
  former_person_id uuid,
  paused_by_operator boolean NOT NULL DEFAULT false,
  records_content boolean NOT NULL DEFAULT false,
  CONSTRAINT api_key_key_hash_key UNIQUE (key_hash),
  CONSTRAINT api_key_pkey PRIMARY KEY (key_id),
  CONSTRAINT api_key_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT api_key_former_person_id_fkey FOREIGN KEY (former_person_id) REFERENCES person(person_id) ON DELETE SET NULL,
  CONSTRAINT api_key_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id),
  CONSTRAINT api_key_former_check CHECK ((((former_key_hash IS NULL) = (former_expires_at IS NULL)) AND ((former_key_hash IS NULL) = (former_hint IS NULL)))),
  CONSTRAINT api_key_former_key_hash_check CHECK ((length(former_key_hash) = 32)),
  CONSTRAINT api_key_key_hash_check CHECK ((length(key_hash) = 32)),
  CONSTRAINT api_key_label_check CHECK ((label ~ '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,63}$'::text)),
  CONSTRAINT api_key_limit_reset_check CHECK ((limit_reset = ANY (ARRAY['none'::text, 'daily'::text, 'weekly'::text, 'monthly'::text]))),
  CONSTRAINT api_key_operator_pause_check CHECK (((paused_at IS NOT NULL) OR (NOT paused_by_operator))),
  CONSTRAINT api_key_paused_former_check CHECK (((paused_at IS NULL) OR (former_key_hash IS NULL))),
  CONSTRAINT api_key_routing_defaults_check CHECK ((jsonb_typeof(routing_defaults) = 'object'::text)),
  CONSTRAINT api_key_scopes_check CHECK ((scopes <@ ARRAY['manage'::text])),
  CONSTRAINT api_key_spend_limit_nanos_check CHECK ((spend_limit_nanos >= 0))
);
CREATE INDEX api_key_customer ON api_key USING btree (customer_id);
CREATE UNIQUE INDEX api_key_former ON api_key USING btree (former_key_hash) WHERE (former_key_hash IS NOT NULL);
CREATE INDEX api_key_in_use ON api_key USING btree (customer_id) WHERE (revoked_at IS NULL);
CREATE INDEX api_key_playground ON api_key USING btree (customer_id, person_id) WHERE is_playground;
CREATE TRIGGER note_cell_key AFTER INSERT OR DELETE OR UPDATE ON api_key FOR EACH ROW EXECUTE FUNCTION note_cell_key();
CREATE TRIGGER note_change AFTER INSERT OR DELETE OR UPDATE ON api_key FOR EACH ROW EXECUTE FUNCTION note_customer_change('keys');
CREATE TRIGGER note_limit AFTER UPDATE ON api_key FOR EACH ROW WHEN (((old.spend_limit_nanos IS DISTINCT FROM new.spend_limit_nanos) OR (old.limit_reset IS DISTINCT FROM new.limit_reset))) EXECUTE FUNCTION note_customer_change('budgets');

CREATE TABLE audit_entry (
  entry_id bigint NOT NULL,
  at timestamp with time zone NOT NULL,
  person_id uuid,
  action text NOT NULL,
  subject text NOT NULL,
  customer_id uuid,
  detail jsonb NOT NULL,
  address text,
  hash bytea NOT NULL,
  address_salt bytea,
  address_proof bytea,
  CONSTRAINT audit_entry_pkey PRIMARY KEY (entry_id),
  CONSTRAINT audit_entry_entry_id_check CHECK ((entry_id > 0)),
  CONSTRAINT audit_entry_hash_check CHECK ((length(hash) = 32))
);
CREATE INDEX audit_entry_action ON audit_entry USING btree (action COLLATE "C", entry_id);
CREATE INDEX audit_entry_customer ON audit_entry USING btree (customer_id, entry_id) WHERE (customer_id IS NOT NULL);
CREATE INDEX audit_entry_person ON audit_entry USING btree (person_id, entry_id) WHERE (person_id IS NOT NULL);

CREATE TABLE auto_top_up (
  customer_id uuid NOT NULL,
  method_id uuid NOT NULL,
  threshold_nanos bigint NOT NULL,
  amount_nanos bigint NOT NULL,
  monthly_max_nanos bigint NOT NULL,
  consented_by uuid NOT NULL,
  consented_at timestamp with time zone NOT NULL,
  paused_at timestamp with time zone,
  pause_reason text,
  CONSTRAINT auto_top_up_pkey PRIMARY KEY (customer_id),
  CONSTRAINT auto_top_up_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT auto_top_up_method_id_fkey FOREIGN KEY (method_id) REFERENCES payment_method(method_id),
  CONSTRAINT auto_top_up_amount_nanos_check CHECK (((amount_nanos > 0) AND ((amount_nanos % (10000000)::bigint) = 0))),
  CONSTRAINT auto_top_up_check CHECK ((monthly_max_nanos >= amount_nanos)),
  CONSTRAINT auto_top_up_check1 CHECK (((paused_at IS NULL) = (pause_reason IS NULL))),
  CONSTRAINT auto_top_up_threshold_nanos_check CHECK ((threshold_nanos > 0))
);
CREATE TRIGGER note_change AFTER INSERT OR DELETE OR UPDATE ON auto_top_up FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');

CREATE TABLE balance (
  customer_id uuid NOT NULL,
  posted_nanos bigint NOT NULL DEFAULT 0,
  leased_nanos bigint NOT NULL DEFAULT 0,
  minute timestamp with time zone NOT NULL DEFAULT '-infinity'::timestamp with time zone,
  minute_requests integer NOT NULL DEFAULT 0,
  day date NOT NULL DEFAULT '-infinity'::date,
  day_requests integer NOT NULL DEFAULT 0,
  day_spent_nanos bigint NOT NULL DEFAULT 0,
  day_leased_nanos bigint NOT NULL DEFAULT 0,
  day_cap_nanos bigint,
  debt_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT balance_pkey PRIMARY KEY (customer_id),
  CONSTRAINT balance_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT balance_day_leased_nanos_check CHECK ((day_leased_nanos >= 0)),
  CONSTRAINT balance_day_requests_check CHECK ((day_requests >= 0)),
  CONSTRAINT balance_day_spent_nanos_check CHECK ((day_spent_nanos >= 0)),
  CONSTRAINT balance_debt_nanos_check CHECK ((debt_nanos >= 0)),
  CONSTRAINT balance_minute_requests_check CHECK ((minute_requests >= 0)),
  CONSTRAINT debt_is_paid_first CHECK (((debt_nanos = 0) OR (posted_nanos = leased_nanos))),
  CONSTRAINT no_overdraft CHECK (((leased_nanos >= 0) AND (posted_nanos >= leased_nanos)))
) WITH (fillfactor=50);
CREATE TRIGGER pay_debt BEFORE UPDATE ON balance FOR EACH ROW WHEN (((new.debt_nanos > 0) AND (new.posted_nanos > new.leased_nanos))) EXECUTE FUNCTION pay_debt();

CREATE TABLE cell_key (
  key_hash bytea NOT NULL,
  cell text NOT NULL,
  is_moving boolean NOT NULL DEFAULT false,
  moved_to text,
  CONSTRAINT cell_key_pkey PRIMARY KEY (key_hash, cell),
  CONSTRAINT cell_key_key_hash_check CHECK ((length(key_hash) = 32))
);

CREATE TABLE cell_move (
  move_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  direction text NOT NULL,
  cell text NOT NULL,
  state text NOT NULL,
  amount_nanos bigint NOT NULL DEFAULT 0,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT cell_move_pkey PRIMARY KEY (move_id),
  CONSTRAINT cell_move_amount_nanos_check CHECK ((amount_nanos >= 0)),
  CONSTRAINT cell_move_check CHECK (((direction = 'in'::text) = (state = ANY (ARRAY['received'::text, 'refused'::text])))),
  CONSTRAINT cell_move_direction_check CHECK ((direction = ANY (ARRAY['out'::text, 'in'::text]))),
  CONSTRAINT cell_move_state_check CHECK ((state = ANY (ARRAY['stopped'::text, 'sent'::text, 'done'::text, 'undone'::text, 'received'::text, 'refused'::text])))
);
CREATE INDEX cell_move_customer ON cell_move USING btree (customer_id);
CREATE UNIQUE INDEX cell_move_open ON cell_move USING btree (customer_id) WHERE (state = ANY (ARRAY['stopped'::text, 'sent'::text]));

CREATE TABLE cell_parcel (
  move_id uuid NOT NULL,
  parcel jsonb NOT NULL,
  CONSTRAINT cell_parcel_pkey PRIMARY KEY (move_id),
  CONSTRAINT cell_parcel_move_id_fkey FOREIGN KEY (move_id) REFERENCES cell_move(move_id)
);

CREATE TABLE clawback (
  clawback_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  cause text NOT NULL,
  reversal_id uuid,
  amount_nanos bigint NOT NULL,
  returned_at timestamp with time zone,
  reason text NOT NULL,
  made_by uuid,
  at timestamp with time zone NOT NULL DEFAULT now(),
  return_reason text,
  CONSTRAINT clawback_pkey PRIMARY KEY (clawback_id),
  CONSTRAINT clawback_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT clawback_reversal_id_fkey FOREIGN KEY (reversal_id) REFERENCES payment_reversal(reversal_id),
  CONSTRAINT clawback_amount_nanos_check CHECK ((amount_nanos > 0)),
  CONSTRAINT clawback_cause_check CHECK ((cause = ANY (ARRAY['dispute'::text, 'fraud'::text]))),
  CONSTRAINT clawback_check CHECK (((cause = 'dispute'::text) = (reversal_id IS NOT NULL)))
);
CREATE INDEX clawback_hoster ON clawback USING btree (hoster_id, at DESC, clawback_id);
CREATE INDEX clawback_reversal ON clawback USING btree (reversal_id) WHERE (reversal_id IS NOT NULL);

CREATE TABLE compared_answer (
  answer_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  hoster_id uuid NOT NULL,
  model_id text NOT NULL,
  source text NOT NULL,
  customer_id uuid,
  kind text NOT NULL,
  value double precision NOT NULL,
  is_counted boolean NOT NULL DEFAULT false,
  at timestamp with time zone NOT NULL,
  CONSTRAINT compared_answer_pkey PRIMARY KEY (answer_id),
  CONSTRAINT compared_answer_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT compared_answer_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT compared_answer_kind_check CHECK ((kind = ANY (ARRAY['gap'::text, 'words'::text, 'odds'::text, 'pair'::text]))),
  CONSTRAINT compared_answer_source_check CHECK ((source = ANY (ARRAY['shadow'::text, 'replay'::text, 'prompt'::text])))
);
CREATE INDEX compared_answer_at ON compared_answer USING btree (at);
CREATE INDEX compared_answer_latest ON compared_answer USING btree (model_id, kind, hoster_id, answer_id);
CREATE INDEX compared_answer_waiting ON compared_answer USING btree (hoster_id, model_id, answer_id) WHERE (NOT is_counted);

CREATE TABLE control_version (
  topic text NOT NULL,
  version bigint NOT NULL DEFAULT 0,
  CONSTRAINT control_version_pkey PRIMARY KEY (topic),
  CONSTRAINT control_version_topic_check CHECK ((topic = ANY (ARRAY['access'::text, 'supply'::text, 'settings'::text, 'master_key'::text])))
);

CREATE TABLE credit_evidence (
  tx_id bigint NOT NULL,
  mac bytea NOT NULL,
  CONSTRAINT credit_evidence_pkey PRIMARY KEY (tx_id),
  CONSTRAINT credit_evidence_tx_id_fkey FOREIGN KEY (tx_id) REFERENCES ledger_tx(tx_id),
  CONSTRAINT credit_evidence_mac_check CHECK ((length(mac) = 32))
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON credit_evidence FOR EACH STATEMENT EXECUTE FUNCTION refuse_evidence_rewrite();

CREATE TABLE credit_evidence_start (
  tx_id bigint NOT NULL,
  credits bigint NOT NULL,
  credit_nanos numeric NOT NULL,
  at timestamp with time zone NOT NULL,
  vouchers bigint NOT NULL,
  voucher_nanos numeric NOT NULL
);

CREATE TABLE credit_taken (
  customer_id uuid NOT NULL,
  tx_id bigint NOT NULL,
  amount_nanos bigint NOT NULL,
  CONSTRAINT credit_taken_pkey PRIMARY KEY (customer_id, tx_id),
  CONSTRAINT credit_taken_tx_id_fkey FOREIGN KEY (tx_id) REFERENCES ledger_tx(tx_id),
  CONSTRAINT credit_taken_amount_nanos_check CHECK ((amount_nanos > 0))
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON credit_taken FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CREATE TABLE customer (
  customer_id uuid NOT NULL,
  email text NOT NULL,
  account_tier text NOT NULL,
  requests_per_minute integer,
  requests_per_day integer,
  daily_spend_cap_nanos bigint,
  disabled_at timestamp with time zone,
  deleted_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  shares_requests boolean NOT NULL DEFAULT false,
  price_group text,
  CONSTRAINT customer_pkey PRIMARY KEY (customer_id),
  CONSTRAINT customer_price_group_fkey FOREIGN KEY (price_group) REFERENCES price_group(name),
  CONSTRAINT customer_daily_spend_cap_nanos_check CHECK ((daily_spend_cap_nanos >= 0)),
  CONSTRAINT customer_requests_per_day_check CHECK ((requests_per_day > 0)),
  CONSTRAINT customer_requests_per_minute_check CHECK ((requests_per_minute > 0))
);
CREATE INDEX customer_created ON customer USING btree (created_at, customer_id);
CREATE UNIQUE INDEX customer_email ON customer USING btree (lower(email));
CREATE INDEX customer_price_group ON customer USING btree (price_group) WHERE (price_group IS NOT NULL);

CREATE TABLE customer_change (
  customer_id uuid NOT NULL,
  topic text NOT NULL,
  version bigint NOT NULL DEFAULT 1,
  CONSTRAINT customer_change_pkey PRIMARY KEY (customer_id, topic),
  CONSTRAINT customer_change_topic_check CHECK ((topic = ANY (ARRAY['keys'::text, 'alerts'::text, 'people'::text, 'payments'::text, 'budgets'::text])))
) WITH (fillfactor=50);

CREATE TABLE day_spend (
  customer_id uuid NOT NULL,
  day date NOT NULL,
  spent_nanos bigint NOT NULL,
  cap_nanos bigint,
  CONSTRAINT day_spend_pkey PRIMARY KEY (customer_id, day),
  CONSTRAINT day_spend_spent_nanos_check CHECK ((spent_nanos >= 0))
);

CREATE TABLE endpoint_day (
  day date NOT NULL,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  provider text NOT NULL,
  node_shard smallint NOT NULL,
  requests bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  upstream_cost_nanos bigint NOT NULL,
  costed_nanos bigint NOT NULL,
  CONSTRAINT endpoint_day_pkey PRIMARY KEY (day, endpoint_id, model_id, provider, node_shard)
) WITH (fillfactor=70);

CREATE TABLE gateway_role (
  name name NOT NULL,
  is_desk boolean NOT NULL DEFAULT true,
  CONSTRAINT gateway_role_pkey PRIMARY KEY (name)
);

CREATE TABLE grant_request (
  grant_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  amount_nanos bigint NOT NULL,
  ref text NOT NULL,
  reason text NOT NULL,
  state text NOT NULL,
  requested_by uuid NOT NULL,
  requested_at timestamp with time zone NOT NULL DEFAULT now(),
  decided_by uuid,
  decided_at timestamp with time zone,
  is_promotion boolean NOT NULL,
  CONSTRAINT grant_request_pkey PRIMARY KEY (grant_id),
  CONSTRAINT grant_request_ref_key UNIQUE (ref),
  CONSTRAINT grant_request_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT grant_request_amount_nanos_check CHECK ((amount_nanos > 0)),
  CONSTRAINT grant_request_check CHECK (((state = 'waiting'::text) = (decided_at IS NULL))),
  CONSTRAINT grant_request_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'granted'::text, 'rejected'::text])))
);
CREATE INDEX grant_request_customer ON grant_request USING btree (customer_id, requested_at);
CREATE INDEX grant_request_time ON grant_request USING btree (requested_at DESC, grant_id);
CREATE INDEX grant_request_waiting ON grant_request USING btree (requested_at) WHERE (state = 'waiting'::text);

CREATE TABLE group_role (
  person_id uuid NOT NULL,
  issuer text NOT NULL,
  ends_at timestamp with time zone NOT NULL,
  CONSTRAINT group_role_pkey PRIMARY KEY (person_id),
  CONSTRAINT group_role_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE
);

CREATE TABLE group_role_rule (
  issuer text NOT NULL,
  role text NOT NULL,
  provider text NOT NULL,
  hours integer NOT NULL,
  CONSTRAINT group_role_rule_pkey PRIMARY KEY (issuer, role),
  CONSTRAINT group_role_rule_hours_check CHECK ((hours > 0)),
  CONSTRAINT group_role_rule_role_check CHECK ((role = ANY (ARRAY['operator'::text, 'auditor'::text])))
);

CREATE TABLE hoster (
  hoster_id uuid NOT NULL,
  name text NOT NULL,
  state text NOT NULL DEFAULT 'pending'::text,
  trust_score double precision NOT NULL DEFAULT 0,
  share_bps integer NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  domain text,
  active_since timestamp with time zone,
  payout_frozen_at timestamp with time zone,
  payout_freeze_reason text,
  trust_override double precision,
  has_contract boolean NOT NULL DEFAULT false,
  quarantined_at timestamp with time zone,
  quarantine_reason text,
  CONSTRAINT hoster_name_key UNIQUE (name),
  CONSTRAINT hoster_pkey PRIMARY KEY (hoster_id),
  CONSTRAINT hoster_share_bps_check CHECK (((share_bps >= 0) AND (share_bps <= 10000))),
  CONSTRAINT hoster_state_check CHECK ((state = ANY (ARRAY['applied'::text, 'pending'::text, 'verified'::text, 'active'::text, 'paused'::text, 'suspended'::text, 'retired'::text]))),
  CONSTRAINT hoster_trust_override_check CHECK (((trust_override >= (0)::double precision) AND (trust_override <= (1)::double precision))),
  CONSTRAINT hoster_trust_score_check CHECK (((trust_score >= (0)::double precision) AND (trust_score <= (1)::double precision)))
);
CREATE UNIQUE INDEX hoster_domain ON hoster USING btree (domain) WHERE ((domain IS NOT NULL) AND (state <> 'retired'::text));

CREATE TABLE hoster_account (
  hoster_id uuid NOT NULL,
  customer_id uuid,
  driver text,
  state text,
  destination text,
  holder text,
  note text,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  identities text[] NOT NULL DEFAULT '{}'::text[],
  CONSTRAINT hoster_account_pkey PRIMARY KEY (hoster_id),
  CONSTRAINT hoster_account_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT hoster_account_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_account_check CHECK ((((driver IS NULL) = (state IS NULL)) AND ((driver IS NULL) = (destination IS NULL)))),
  CONSTRAINT hoster_account_driver_check CHECK ((driver ~ '^[a-z][a-z0-9_]{0,31}$'::text)),
  CONSTRAINT hoster_account_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'ready'::text, 'refused'::text])))
);

CREATE TABLE hoster_appeal (
  appeal_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  text text NOT NULL,
  person_id uuid,
  key_id uuid,
  at timestamp with time zone NOT NULL DEFAULT now(),
  answer text,
  answered_by uuid,
  answered_at timestamp with time zone,
  CONSTRAINT hoster_appeal_pkey PRIMARY KEY (appeal_id),
  CONSTRAINT hoster_appeal_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id)
);
CREATE INDEX hoster_appeal_hoster ON hoster_appeal USING btree (hoster_id, at);
CREATE UNIQUE INDEX hoster_appeal_waiting ON hoster_appeal USING btree (hoster_id) WHERE (answered_at IS NULL);

CREATE TABLE hoster_attempt_day (
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  model_id text NOT NULL,
  outcome text NOT NULL,
  attempts bigint NOT NULL,
  CONSTRAINT hoster_attempt_day_pkey PRIMARY KEY (hoster_id, day, model_id, outcome)
) WITH (fillfactor=70);

CREATE TABLE hoster_audit (
  audit_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  hoster_id uuid,
  model_id text NOT NULL,
  kind text NOT NULL,
  passed boolean,
  e_value double precision NOT NULL,
  statistic double precision NOT NULL,
  sample integer NOT NULL,
  at timestamp with time zone NOT NULL,
  worst double precision,
  CONSTRAINT hoster_audit_pkey PRIMARY KEY (audit_id),
  CONSTRAINT hoster_audit_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_audit_kind_check CHECK ((kind = ANY (ARRAY['meter'::text, 'canary'::text, 'fingerprint'::text, 'agreement'::text, 'sampling'::text, 'shadow'::text])))
);
CREATE INDEX hoster_audit_at ON hoster_audit USING btree (at);
CREATE INDEX hoster_audit_hoster ON hoster_audit USING btree (hoster_id, audit_id);
CREATE INDEX hoster_audit_model ON hoster_audit USING btree (model_id, kind, audit_id);

CREATE TABLE hoster_comparison (
  hoster_id uuid NOT NULL,
  model_id text NOT NULL,
  passes integer NOT NULL,
  CONSTRAINT hoster_comparison_pkey PRIMARY KEY (hoster_id, model_id),
  CONSTRAINT hoster_comparison_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_comparison_passes_check CHECK ((passes >= 0))
);

CREATE TABLE hoster_customer_evidence (
  hoster_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  reliability_good double precision NOT NULL,
  reliability_bad double precision NOT NULL,
  reliability_squares double precision NOT NULL,
  conformance_good double precision NOT NULL,
  conformance_bad double precision NOT NULL,
  conformance_squares double precision NOT NULL,
  at timestamp with time zone NOT NULL,
  CONSTRAINT hoster_customer_evidence_pkey PRIMARY KEY (hoster_id, customer_id)
) WITH (fillfactor=70);

CREATE TABLE hoster_day (
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  model_id text NOT NULL,
  requests bigint NOT NULL,
  successes bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  refunded_nanos bigint NOT NULL,
  refunded_share_nanos bigint NOT NULL,
  CONSTRAINT hoster_day_pkey PRIMARY KEY (hoster_id, day, model_id)
) WITH (fillfactor=70);

CREATE TABLE hoster_day_change (
  change_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  model_id text NOT NULL,
  requests bigint NOT NULL,
  successes bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  refunded_nanos bigint NOT NULL,
  refunded_share_nanos bigint NOT NULL,
  CONSTRAINT hoster_day_change_pkey PRIMARY KEY (change_id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000);
CREATE INDEX hoster_day_change_hoster ON hoster_day_change USING btree (hoster_id, day);

CREATE TABLE hoster_endpoint (
  endpoint_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  base_url text NOT NULL,
  key_sealed bytea,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  transport text NOT NULL DEFAULT 'direct'::text,
  challenge_passed_at timestamp with time zone,
  next_audit_at timestamp with time zone,
  CONSTRAINT hoster_endpoint_pkey PRIMARY KEY (endpoint_id),
  CONSTRAINT hoster_endpoint_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_endpoint_agent_url CHECK (((transport = 'agent'::text) = (base_url = 'https://agent.invalid/v1'::text))),
  CONSTRAINT hoster_endpoint_transport_check CHECK ((transport = ANY (ARRAY['direct'::text, 'agent'::text])))
);
CREATE INDEX hoster_endpoint_hoster ON hoster_endpoint USING btree (hoster_id);

CREATE TABLE hoster_key (
  key_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  name text NOT NULL,
  key_hash bytea NOT NULL,
  hint text NOT NULL,
  scopes text[] NOT NULL,
  person_id uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  CONSTRAINT hoster_key_key_hash_key UNIQUE (key_hash),
  CONSTRAINT hoster_key_pkey PRIMARY KEY (key_id),
  CONSTRAINT hoster_key_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_key_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE SET NULL,
  CONSTRAINT hoster_key_key_hash_check CHECK ((length(key_hash) = 32)),
  CONSTRAINT hoster_key_scopes_check CHECK (((scopes <@ ARRAY['serve'::text, 'manage'::text, 'read'::text]) AND (cardinality(scopes) > 0)))
);
CREATE INDEX hoster_key_hoster ON hoster_key USING btree (hoster_id) WHERE (revoked_at IS NULL);

CREATE TABLE hoster_manifest (
  hoster_id uuid NOT NULL,
  version integer NOT NULL,
  body jsonb NOT NULL,
  source text NOT NULL,
  changes_prices boolean NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT hoster_manifest_pkey PRIMARY KEY (hoster_id, version),
  CONSTRAINT hoster_manifest_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_manifest_source_check CHECK ((source = ANY (ARRAY['sent'::text, 'read'::text]))),
  CONSTRAINT hoster_manifest_version_check CHECK ((version > 0))
);

CREATE TABLE hoster_member (
  hoster_id uuid NOT NULL,
  person_id uuid NOT NULL,
  role text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT hoster_member_pkey PRIMARY KEY (hoster_id, person_id),
  CONSTRAINT hoster_member_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_member_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT hoster_member_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'developer'::text, 'billing'::text, 'viewer'::text])))
);
CREATE INDEX hoster_member_person ON hoster_member USING btree (person_id);

CREATE TABLE hoster_model (
  model_id text NOT NULL,
  state text NOT NULL,
  reason text NOT NULL,
  person_id uuid,
  decided_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT hoster_model_pkey PRIMARY KEY (model_id),
  CONSTRAINT hoster_model_state_check CHECK ((state = ANY (ARRAY['approved'::text, 'refused'::text])))
);

CREATE TABLE hoster_movement (
  hoster_id uuid NOT NULL,
  tx_id bigint NOT NULL,
  amount_nanos bigint NOT NULL,
  CONSTRAINT hoster_movement_pkey PRIMARY KEY (hoster_id, tx_id),
  CONSTRAINT hoster_movement_tx_id_fkey FOREIGN KEY (tx_id) REFERENCES ledger_tx(tx_id),
  CONSTRAINT hoster_movement_amount_nanos_check CHECK ((amount_nanos <> 0))
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON hoster_movement FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CREATE TABLE hoster_payer (
  endpoint_id uuid NOT NULL,
  model_id text NOT NULL,
  price_version integer NOT NULL,
  customer_id uuid NOT NULL,
  answers double precision NOT NULL,
  paid_nanos bigint NOT NULL,
  is_related boolean NOT NULL DEFAULT false,
  last_at timestamp with time zone NOT NULL,
  CONSTRAINT hoster_payer_pkey PRIMARY KEY (endpoint_id, model_id, price_version, customer_id),
  CONSTRAINT hoster_payer_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES hoster_endpoint(endpoint_id)
) WITH (fillfactor=70);
CREATE INDEX hoster_payer_customer ON hoster_payer USING btree (customer_id);

CREATE TABLE hoster_price (
  endpoint_id uuid NOT NULL,
  model_id text NOT NULL,
  version integer NOT NULL,
  upstream_model text NOT NULL,
  input_pico_per_token bigint NOT NULL,
  output_pico_per_token bigint NOT NULL,
  context_tokens integer NOT NULL,
  max_output_tokens integer NOT NULL,
  features text[] NOT NULL DEFAULT '{}'::text[],
  valid_from timestamp with time zone NOT NULL DEFAULT now(),
  valid_until timestamp with time zone,
  cache_read_pico_per_token bigint,
  cache_write_pico_per_token bigint,
  max_concurrent integer,
  CONSTRAINT hoster_price_pkey PRIMARY KEY (endpoint_id, model_id, version),
  CONSTRAINT hoster_price_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES hoster_endpoint(endpoint_id),
  CONSTRAINT hoster_price_check CHECK (((cache_read_pico_per_token >= 0) AND (cache_read_pico_per_token <= input_pico_per_token))),
  CONSTRAINT hoster_price_check1 CHECK (((cache_write_pico_per_token >= 0) AND (cache_write_pico_per_token <= input_pico_per_token))),
  CONSTRAINT hoster_price_context_tokens_check CHECK ((context_tokens > 0)),
  CONSTRAINT hoster_price_input_pico_per_token_check CHECK ((input_pico_per_token >= 0)),
  CONSTRAINT hoster_price_max_concurrent_check CHECK (((max_concurrent >= 1) AND (max_concurrent <= 100000))),
  CONSTRAINT hoster_price_max_output_tokens_check CHECK ((max_output_tokens > 0)),
  CONSTRAINT hoster_price_output_pico_per_token_check CHECK ((output_pico_per_token >= 0)),
  CONSTRAINT hoster_price_version_check CHECK ((version > 0))
);
CREATE UNIQUE INDEX hoster_price_current ON hoster_price USING btree (endpoint_id, model_id) WHERE (valid_until IS NULL);

CREATE TABLE hoster_price_change (
  change_id uuid NOT NULL,
  endpoint_id uuid NOT NULL,
  model_id text NOT NULL,
  upstream_model text NOT NULL,
  input_pico_per_token bigint NOT NULL,
  output_pico_per_token bigint NOT NULL,
  cache_read_pico_per_token bigint,
  cache_write_pico_per_token bigint,
  context_tokens integer NOT NULL,
  max_output_tokens integer NOT NULL,
  features text[] NOT NULL,
  applies_at timestamp with time zone NOT NULL,
  state text NOT NULL DEFAULT 'scheduled'::text,
  probed_at timestamp with time zone,
  max_concurrent integer,
  CONSTRAINT hoster_price_change_pkey PRIMARY KEY (change_id),
  CONSTRAINT hoster_price_change_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES hoster_endpoint(endpoint_id),
  CONSTRAINT hoster_price_change_cache_read_pico_per_token_check CHECK ((cache_read_pico_per_token >= 0)),
  CONSTRAINT hoster_price_change_cache_write_pico_per_token_check CHECK ((cache_write_pico_per_token >= 0)),
  CONSTRAINT hoster_price_change_context_tokens_check CHECK ((context_tokens > 0)),
  CONSTRAINT hoster_price_change_input_pico_per_token_check CHECK ((input_pico_per_token >= 0)),
  CONSTRAINT hoster_price_change_max_concurrent_check CHECK (((max_concurrent >= 1) AND (max_concurrent <= 100000))),
  CONSTRAINT hoster_price_change_max_output_tokens_check CHECK ((max_output_tokens > 0)),
  CONSTRAINT hoster_price_change_output_pico_per_token_check CHECK ((output_pico_per_token >= 0)),
  CONSTRAINT hoster_price_change_state_check CHECK ((state = ANY (ARRAY['scheduled'::text, 'probing'::text, 'applied'::text, 'cancelled'::text])))
);
CREATE INDEX hoster_price_change_due ON hoster_price_change USING btree (applies_at) WHERE (state = 'scheduled'::text);
CREATE INDEX hoster_price_change_probing ON hoster_price_change USING btree (endpoint_id) WHERE (state = 'probing'::text);
CREATE UNIQUE INDEX hoster_price_change_waiting ON hoster_price_change USING btree (endpoint_id, model_id) WHERE (state = ANY (ARRAY['scheduled'::text, 'probing'::text]));

CREATE TABLE hoster_state_change (
  change_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  hoster_id uuid NOT NULL,
  from_state text,
  to_state text NOT NULL,
  actor text NOT NULL,
  person_id uuid,
  key_id uuid,
  reason text NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT hoster_state_change_pkey PRIMARY KEY (change_id),
  CONSTRAINT hoster_state_change_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT hoster_state_change_actor_check CHECK ((actor = ANY (ARRAY['hoster'::text, 'operator'::text, 'system'::text])))
);
CREATE INDEX hoster_state_change_hoster ON hoster_state_change USING btree (hoster_id, change_id);

CREATE TABLE hoster_tokens_day (
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  model_id text NOT NULL,
  requests bigint NOT NULL,
  reported_input bigint NOT NULL,
  counted_input bigint NOT NULL,
  billed_input bigint NOT NULL,
  reported_output bigint NOT NULL,
  counted_output bigint NOT NULL,
  billed_output bigint NOT NULL,
  CONSTRAINT hoster_tokens_day_pkey PRIMARY KEY (hoster_id, day, model_id)
) WITH (fillfactor=70);

CREATE TABLE hoster_trust (
  hoster_id uuid NOT NULL,
  evidence jsonb NOT NULL,
  requests bigint NOT NULL,
  typical_weight double precision NOT NULL,
  score jsonb,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT hoster_trust_pkey PRIMARY KEY (hoster_id),
  CONSTRAINT hoster_trust_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id)
);

CREATE TABLE hoster_trust_day (
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  shown jsonb NOT NULL,
  CONSTRAINT hoster_trust_day_pkey PRIMARY KEY (hoster_id, day),
  CONSTRAINT hoster_trust_day_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id)
);

CREATE TABLE hoster_verification (
  hoster_id uuid NOT NULL,
  nonce text NOT NULL,
  started_at timestamp with time zone NOT NULL,
  checked_at timestamp with time zone,
  report jsonb,
  CONSTRAINT hoster_verification_pkey PRIMARY KEY (hoster_id),
  CONSTRAINT hoster_verification_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id)
);

CREATE TABLE house_customer (
  customer_id uuid NOT NULL,
  key_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT house_customer_pkey PRIMARY KEY (customer_id),
  CONSTRAINT house_customer_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT house_customer_key_id_fkey FOREIGN KEY (key_id) REFERENCES api_key(key_id)
);

CREATE TABLE idempotency (
  customer_id uuid NOT NULL,
  key text NOT NULL,
  body_hash bytea NOT NULL,
  request_id uuid NOT NULL,
  node_id uuid NOT NULL,
  state text NOT NULL DEFAULT 'running'::text,
  cost_nanos bigint,
  answer_sealed bytea,
  claimed_at timestamp with time zone NOT NULL DEFAULT now(),
  heartbeats integer NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT idempotency_pkey PRIMARY KEY (customer_id, key),
  CONSTRAINT idempotency_body_hash_check CHECK ((length(body_hash) = 32)),
  CONSTRAINT idempotency_check CHECK (((state = 'done'::text) = (cost_nanos IS NOT NULL))),
  CONSTRAINT idempotency_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255))),
  CONSTRAINT idempotency_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text])))
);
CREATE INDEX idempotency_expiry ON idempotency USING btree (expires_at);

CREATE TABLE installation (
  name text NOT NULL,
  value text NOT NULL,
  CONSTRAINT installation_pkey PRIMARY KEY (name)
);

CREATE TABLE key_spend (
  customer_id uuid NOT NULL,
  key_id uuid NOT NULL,
  window_start date NOT NULL,
  spent_nanos bigint NOT NULL DEFAULT 0,
  leased_nanos bigint NOT NULL DEFAULT 0,
  before_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT key_spend_pkey PRIMARY KEY (customer_id, key_id, window_start),
  CONSTRAINT key_spend_before_nanos_check CHECK ((before_nanos >= 0)),
  CONSTRAINT key_spend_leased_nanos_check CHECK ((leased_nanos >= 0)),
  CONSTRAINT key_spend_spent_nanos_check CHECK ((spent_nanos >= 0))
) WITH (fillfactor=50);

CREATE UNLOGGED TABLE learned_offer (
  node_id uuid NOT NULL,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  at timestamp with time zone NOT NULL,
  learned jsonb NOT NULL,
  CONSTRAINT learned_offer_pkey PRIMARY KEY (node_id, endpoint_id, model_id)
) WITH (fillfactor=50);

CREATE TABLE learned_snapshot (
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  at timestamp with time zone NOT NULL,
  learned jsonb NOT NULL,
  CONSTRAINT learned_snapshot_pkey PRIMARY KEY (endpoint_id, model_id)
) WITH (fillfactor=50);

CREATE TABLE lease (
  lease_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  node_id uuid NOT NULL,
  key_id uuid,
  model_id text,
  key_window date,
  granted_nanos bigint NOT NULL,
  settled_nanos bigint NOT NULL DEFAULT 0,
  slots integer,
  slot_minute timestamp with time zone,
  slots_used integer NOT NULL DEFAULT 0,
  owed_nanos bigint NOT NULL DEFAULT 0,
  recalled boolean NOT NULL DEFAULT false,
  cap_day date NOT NULL,
  granted_at timestamp with time zone NOT NULL DEFAULT now(),
  member_id uuid,
  member_window date,
  CONSTRAINT lease_pkey PRIMARY KEY (lease_id),
  CONSTRAINT lease_slots_check CHECK ((slots >= 0)),
  CONSTRAINT never_overspent CHECK (((settled_nanos >= 0) AND (granted_nanos >= settled_nanos)))
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, fillfactor=50);
CREATE INDEX lease_bulk ON lease USING btree (customer_id) WHERE (slots IS NOT NULL);
CREATE INDEX lease_recalled ON lease USING btree (node_id) WHERE recalled;

CREATE TABLE ledger_entry (
  tx_id bigint NOT NULL,
  account_kind text NOT NULL,
  account_id uuid NOT NULL,
  amount_nanos bigint NOT NULL,
  CONSTRAINT ledger_entry_pkey PRIMARY KEY (account_kind, account_id, tx_id),
  CONSTRAINT ledger_entry_account_kind_check CHECK ((account_kind = ANY (ARRAY['customer'::text, 'hoster_payable'::text, 'platform_revenue'::text, 'platform_promo'::text, 'cash'::text, 'customer_debt'::text, 'processor_fee'::text, 'payout_clearing'::text, 'hoster_clawback'::text, 'cell_clearing'::text, 'cell_promo'::text]))) NOT VALID,
  CONSTRAINT ledger_entry_amount_nanos_check CHECK ((amount_nanos <> 0))
);
CREATE INDEX ledger_entry_given ON ledger_entry USING btree (account_id, tx_id) WHERE ((account_kind = 'customer'::text) AND (amount_nanos > 0));
CREATE INDEX ledger_entry_tx ON ledger_entry USING btree (tx_id);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CREATE TABLE ledger_tx (
  tx_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  kind text NOT NULL,
  ref text NOT NULL,
  reason text,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT ledger_tx_kind_ref_key UNIQUE (kind, ref),
  CONSTRAINT ledger_tx_pkey PRIMARY KEY (tx_id),
  CONSTRAINT ledger_tx_kind_check CHECK ((kind = ANY (ARRAY['signup_credit'::text, 'credit'::text, 'settle'::text, 'refund'::text, 'payment'::text, 'voucher'::text, 'reversal'::text, 'reversal_returned'::text, 'debt_payment'::text, 'processor_fee'::text, 'payout'::text, 'payout_paid'::text, 'payout_returned'::text, 'earnings_moved'::text, 'clawback'::text, 'clawback_returned'::text, 'opening_balance'::text, 'promotion_excess'::text, 'cell_move'::text]))) NOT VALID
);
CREATE INDEX ledger_tx_given ON ledger_tx USING btree (at) WHERE (kind <> 'settle'::text);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON ledger_tx FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CREATE TABLE master_key (
  mark text NOT NULL,
  state text NOT NULL,
  since timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT master_key_pkey PRIMARY KEY (mark),
  CONSTRAINT master_key_mark_check CHECK ((mark ~ '^[0-9a-f]{64}$'::text)),
  CONSTRAINT master_key_state_check CHECK ((state = ANY (ARRAY['next'::text, 'current'::text, 'former'::text, 'forgotten'::text])))
);
CREATE UNIQUE INDEX master_key_current ON master_key USING btree (state) WHERE (state = 'current'::text);
CREATE UNIQUE INDEX master_key_next ON master_key USING btree (state) WHERE (state = 'next'::text);

CREATE TABLE member_limit (
  customer_id uuid NOT NULL,
  person_id uuid NOT NULL,
  spend_limit_nanos bigint,
  highest_limit_nanos bigint NOT NULL,
  limit_reset text NOT NULL DEFAULT 'none'::text,
  CONSTRAINT member_limit_pkey PRIMARY KEY (customer_id, person_id),
  CONSTRAINT member_limit_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT member_limit_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT member_limit_limit_reset_check CHECK ((limit_reset = ANY (ARRAY['none'::text, 'daily'::text, 'weekly'::text, 'monthly'::text]))),
  CONSTRAINT member_limit_spend_limit_nanos_check CHECK ((spend_limit_nanos >= 0))
);
CREATE TRIGGER note_change AFTER INSERT OR DELETE OR UPDATE ON member_limit FOR EACH ROW EXECUTE FUNCTION note_customer_change('budgets');

CREATE TABLE member_spend (
  customer_id uuid NOT NULL,
  person_id uuid NOT NULL,
  window_start date NOT NULL,
  spent_nanos bigint NOT NULL DEFAULT 0,
  leased_nanos bigint NOT NULL DEFAULT 0,
  before_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT member_spend_pkey PRIMARY KEY (customer_id, person_id, window_start),
  CONSTRAINT member_spend_before_nanos_check CHECK ((before_nanos >= 0)),
  CONSTRAINT member_spend_leased_nanos_check CHECK ((leased_nanos >= 0)),
  CONSTRAINT member_spend_spent_nanos_check CHECK ((spent_nanos >= 0))
) WITH (fillfactor=50);

CREATE TABLE membership (
  customer_id uuid NOT NULL,
  person_id uuid NOT NULL,
  role text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT membership_pkey PRIMARY KEY (customer_id, person_id),
  CONSTRAINT membership_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT membership_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT membership_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'developer'::text, 'billing'::text, 'viewer'::text])))
);
CREATE INDEX membership_person ON membership USING btree (person_id);
CREATE TRIGGER note_change AFTER INSERT OR DELETE OR UPDATE ON membership FOR EACH ROW EXECUTE FUNCTION note_customer_change('people');

CREATE TABLE meter_ratio (
  model_id text NOT NULL,
  ratio jsonb NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT meter_ratio_pkey PRIMARY KEY (model_id)
);

CREATE TABLE meter_source (
  model_id text NOT NULL,
  endpoint_id text NOT NULL,
  hoster_id uuid,
  input real[] NOT NULL,
  output real[] NOT NULL,
  waiting jsonb NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT meter_source_pkey PRIMARY KEY (model_id, endpoint_id)
);

CREATE TABLE migration (
  version integer NOT NULL,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT migration_pkey PRIMARY KEY (version)
);

CREATE TABLE migration_functions (
  version integer NOT NULL,
  checksum text NOT NULL,
  applied_at timestamp with time zone NOT NULL
);

CREATE TABLE node (
  node_id uuid NOT NULL,
  state text NOT NULL DEFAULT 'alive'::text,
  started_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT node_pkey PRIMARY KEY (node_id),
  CONSTRAINT node_state_check CHECK ((state = ANY (ARRAY['alive'::text, 'dead'::text])))
);
CREATE INDEX node_state ON node USING btree (state);

CREATE TABLE node_heartbeat (
  node_id uuid NOT NULL,
  heartbeats integer NOT NULL,
  CONSTRAINT node_heartbeat_pkey PRIMARY KEY (node_id)
) WITH (fillfactor=50);

CREATE TABLE node_report (
  node_id uuid NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  version text NOT NULL,
  servers jsonb NOT NULL,
  agents jsonb NOT NULL DEFAULT '[]'::jsonb,
  disks jsonb NOT NULL DEFAULT '[]'::jsonb,
  master_keys jsonb NOT NULL DEFAULT '[]'::jsonb,
  CONSTRAINT node_report_pkey PRIMARY KEY (node_id)
);

CREATE TABLE operator_answer (
  key_id uuid NOT NULL,
  idempotency_key text NOT NULL,
  fingerprint bytea NOT NULL,
  answer bytea,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT operator_answer_pkey PRIMARY KEY (key_id, idempotency_key),
  CONSTRAINT operator_answer_key_id_fkey FOREIGN KEY (key_id) REFERENCES operator_key(key_id) ON DELETE CASCADE
);
CREATE INDEX operator_answer_age ON operator_answer USING btree (created_at);

CREATE TABLE operator_key (
  key_id uuid NOT NULL,
  person_id uuid NOT NULL,
  name text NOT NULL,
  key_hash bytea NOT NULL,
  hint text NOT NULL,
  scopes text[] NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  last_used_at timestamp with time zone,
  CONSTRAINT operator_key_key_hash_key UNIQUE (key_hash),
  CONSTRAINT operator_key_pkey PRIMARY KEY (key_id),
  CONSTRAINT operator_key_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT operator_key_key_hash_check CHECK ((length(key_hash) = 32)),
  CONSTRAINT operator_key_scopes_check CHECK (((scopes <@ ARRAY['read'::text, 'customers'::text, 'money'::text, 'supply'::text, 'settings'::text]) AND (cardinality(scopes) > 0)))
);
CREATE INDEX operator_key_person ON operator_key USING btree (person_id);

CREATE TABLE payment (
  payment_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  driver text NOT NULL,
  purpose text NOT NULL,
  state text NOT NULL DEFAULT 'open'::text,
  amount_nanos bigint NOT NULL,
  amount_minor bigint NOT NULL,
  currency text NOT NULL,
  is_live boolean NOT NULL,
  reference text NOT NULL,
  provider_ref text,
  method_id uuid,
  redirect_url text,
  receipt_url text,
  invoice_url text,
  failure text,
  mismatch text,
  idempotency_key text,
  person_id uuid,
  confirmed_by uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone,
  paid_at timestamp with time zone,
  next_look_at timestamp with time zone,
  version bigint NOT NULL DEFAULT 0,
  tx_id bigint,
  fee_nanos bigint NOT NULL DEFAULT 0,
  charge_ref text,
  is_promotion boolean NOT NULL DEFAULT false,
  has_provider boolean NOT NULL GENERATED ALWAYS AS ((driver <> ALL (ARRAY['manual'::text, 'voucher'::text]))) STORED,
  CONSTRAINT payment_pkey PRIMARY KEY (payment_id),
  CONSTRAINT payment_reference_key UNIQUE (reference),
  CONSTRAINT payment_tx_id_key UNIQUE (tx_id),
  CONSTRAINT payment_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT payment_tx_id_fkey FOREIGN KEY (tx_id) REFERENCES ledger_tx(tx_id),
  CONSTRAINT payment_amount_is_charged CHECK (((NOT has_provider) OR ((currency = 'usd'::text) AND ((amount_nanos)::numeric = ((amount_minor)::numeric * (10000000)::numeric))))) NOT VALID,
  CONSTRAINT payment_amount_minor_check CHECK ((amount_minor > 0)),
  CONSTRAINT payment_amount_nanos_check CHECK ((amount_nanos > 0)),
  CONSTRAINT payment_check CHECK (((state = 'paid'::text) = (tx_id IS NOT NULL))),
  CONSTRAINT payment_check1 CHECK (((NOT is_promotion) OR (driver = 'voucher'::text))),
  CONSTRAINT payment_driver_check CHECK ((driver ~ '^[a-z][a-z0-9_]{0,31}$'::text)),
  CONSTRAINT payment_purpose_check CHECK ((purpose = ANY (ARRAY['top_up'::text, 'auto_top_up'::text]))),
  CONSTRAINT payment_state_check CHECK ((state = ANY (ARRAY['open'::text, 'processing'::text, 'paid'::text, 'failed'::text, 'expired'::text, 'cancelled'::text])))
);
CREATE UNIQUE INDEX payment_auto_open ON payment USING btree (customer_id) WHERE ((purpose = 'auto_top_up'::text) AND (state = ANY (ARRAY['open'::text, 'processing'::text])));
CREATE UNIQUE INDEX payment_charge_ref ON payment USING btree (driver, charge_ref) WHERE (charge_ref IS NOT NULL);
CREATE INDEX payment_created ON payment USING btree (created_at DESC, payment_id);
CREATE INDEX payment_customer_created ON payment USING btree (customer_id, created_at DESC, payment_id);
CREATE UNIQUE INDEX payment_idempotency ON payment USING btree (customer_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX payment_next_look ON payment USING btree (next_look_at) WHERE (next_look_at IS NOT NULL);
CREATE INDEX payment_paid_at ON payment USING btree (driver, paid_at) WHERE (paid_at IS NOT NULL);
CREATE UNIQUE INDEX payment_provider_ref ON payment USING btree (driver, provider_ref) WHERE (provider_ref IS NOT NULL);
CREATE TRIGGER note_change AFTER INSERT ON payment FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE TRIGGER note_state AFTER UPDATE ON payment FOR EACH ROW WHEN (((((((old.state IS DISTINCT FROM new.state) OR (old.redirect_url IS DISTINCT FROM new.redirect_url)) OR (old.receipt_url IS DISTINCT FROM new.receipt_url)) OR (old.invoice_url IS DISTINCT FROM new.invoice_url)) OR (old.failure IS DISTINCT FROM new.failure)) OR (old.mismatch IS DISTINCT FROM new.mismatch))) EXECUTE FUNCTION note_customer_change('payments');

CREATE TABLE payment_account (
  customer_id uuid NOT NULL,
  driver text NOT NULL,
  provider_ref text NOT NULL,
  CONSTRAINT payment_account_pkey PRIMARY KEY (customer_id, driver),
  CONSTRAINT payment_account_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id)
);

CREATE TABLE payment_difference (
  driver text NOT NULL,
  ref text NOT NULL,
  kind text NOT NULL,
  problem text NOT NULL,
  payment_id uuid,
  charge_ref text,
  amount_minor bigint NOT NULL,
  currency text NOT NULL,
  at timestamp with time zone NOT NULL,
  found_at timestamp with time zone NOT NULL DEFAULT now(),
  ended_at timestamp with time zone,
  outcome text,
  note text,
  CONSTRAINT payment_difference_pkey PRIMARY KEY (driver, ref),
  CONSTRAINT payment_difference_payment_id_fkey FOREIGN KEY (payment_id) REFERENCES payment(payment_id),
  CONSTRAINT payment_difference_check CHECK (((ended_at IS NULL) = (outcome IS NULL))),
  CONSTRAINT payment_difference_kind_check CHECK ((kind = ANY (ARRAY['charge'::text, 'refund'::text, 'dispute'::text, 'credit'::text]))),
  CONSTRAINT payment_difference_outcome_check CHECK ((outcome = ANY (ARRAY['agreed'::text, 'returned'::text, 'accepted'::text]))),
  CONSTRAINT payment_difference_problem_check CHECK ((problem = ANY (ARRAY['unknown_payment'::text, 'second_charge'::text, 'not_booked'::text, 'no_charge'::text])))
);
CREATE INDEX payment_difference_open ON payment_difference USING btree (found_at) WHERE (ended_at IS NULL);

CREATE TABLE payment_event (
  driver text NOT NULL,
  event_id text NOT NULL,
  type text NOT NULL,
  provider_ref text NOT NULL,
  received_at timestamp with time zone NOT NULL DEFAULT now(),
  handled_at timestamp with time zone,
  CONSTRAINT payment_event_pkey PRIMARY KEY (driver, event_id)
);
CREATE INDEX payment_event_received ON payment_event USING btree (driver, received_at);
CREATE INDEX payment_event_waiting ON payment_event USING btree (received_at) WHERE (handled_at IS NULL);

CREATE TABLE payment_method (
  method_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  driver text NOT NULL,
  provider_ref text NOT NULL,
  brand text NOT NULL,
  last4 text NOT NULL,
  expires text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  removed_at timestamp with time zone,
  identity text,
  account_ref text,
  CONSTRAINT payment_method_customer_id_driver_provider_ref_key UNIQUE (customer_id, driver, provider_ref),
  CONSTRAINT payment_method_pkey PRIMARY KEY (method_id),
  CONSTRAINT payment_method_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id)
);
CREATE INDEX payment_method_identity ON payment_method USING btree (identity) WHERE (identity IS NOT NULL);
CREATE TRIGGER note_change AFTER INSERT OR DELETE OR UPDATE ON payment_method FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');

CREATE TABLE payment_reversal (
  reversal_id uuid NOT NULL,
  payment_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  kind text NOT NULL,
  state text NOT NULL,
  provider_ref text,
  asked_minor bigint,
  taken_nanos bigint NOT NULL,
  returned_nanos bigint NOT NULL DEFAULT 0,
  reason text NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT payment_reversal_payment_id_provider_ref_key UNIQUE (payment_id, provider_ref),
  CONSTRAINT payment_reversal_pkey PRIMARY KEY (reversal_id),
  CONSTRAINT payment_reversal_payment_id_fkey FOREIGN KEY (payment_id) REFERENCES payment(payment_id),
  CONSTRAINT payment_reversal_asked_minor_check CHECK ((asked_minor > 0)),
  CONSTRAINT payment_reversal_check CHECK (((taken_nanos >= returned_nanos) AND (returned_nanos >= 0))),
  CONSTRAINT payment_reversal_kind_check CHECK ((kind = ANY (ARRAY['refund'::text, 'dispute'::text]))),
  CONSTRAINT payment_reversal_state_check CHECK ((state = ANY (ARRAY['asked'::text, 'done'::text, 'refused'::text])))
);
CREATE INDEX payment_reversal_asked ON payment_reversal USING btree (at) WHERE (state = 'asked'::text);
CREATE INDEX payment_reversal_customer ON payment_reversal USING btree (customer_id);
CREATE INDEX payment_reversal_payment ON payment_reversal USING btree (payment_id);
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON payment_reversal FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');

CREATE TABLE payout (
  payout_id uuid NOT NULL,
  batch_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  driver text NOT NULL,
  is_live boolean NOT NULL,
  state text NOT NULL DEFAULT 'prepared'::text,
  destination text NOT NULL,
  holder text,
  amount_nanos bigint NOT NULL,
  currency text NOT NULL DEFAULT 'usd'::text,
  reference text NOT NULL,
  provider_ref text,
  failure text,
  mismatch text,
  taken_nanos bigint NOT NULL DEFAULT 0,
  paid_nanos bigint NOT NULL DEFAULT 0,
  moves integer NOT NULL DEFAULT 0,
  version bigint NOT NULL DEFAULT 0,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  sent_at timestamp with time zone,
  ended_at timestamp with time zone,
  next_look_at timestamp with time zone,
  CONSTRAINT payout_batch_id_hoster_id_key UNIQUE (batch_id, hoster_id),
  CONSTRAINT payout_pkey PRIMARY KEY (payout_id),
  CONSTRAINT payout_reference_key UNIQUE (reference),
  CONSTRAINT payout_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES payout_batch(batch_id),
  CONSTRAINT payout_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT payout_amount_nanos_check CHECK (((amount_nanos > 0) AND ((amount_nanos % (10000000)::bigint) = 0))),
  CONSTRAINT payout_state_check CHECK ((state = ANY (ARRAY['prepared'::text, 'approved'::text, 'sending'::text, 'paid'::text, 'failed'::text, 'returned'::text, 'cancelled'::text])))
);
CREATE INDEX payout_hoster ON payout USING btree (hoster_id, created_at DESC, payout_id);
CREATE INDEX payout_next_look ON payout USING btree (next_look_at) WHERE (next_look_at IS NOT NULL);
CREATE UNIQUE INDEX payout_provider_ref ON payout USING btree (driver, provider_ref) WHERE (provider_ref IS NOT NULL);

CREATE TABLE payout_batch (
  batch_id uuid NOT NULL,
  driver text NOT NULL,
  is_live boolean NOT NULL,
  state text NOT NULL DEFAULT 'prepared'::text,
  prepared_by uuid,
  prepared_at timestamp with time zone NOT NULL DEFAULT now(),
  approved_by uuid,
  approved_at timestamp with time zone,
  CONSTRAINT payout_batch_pkey PRIMARY KEY (batch_id),
  CONSTRAINT payout_batch_driver_check CHECK ((driver ~ '^[a-z][a-z0-9_]{0,31}$'::text)),
  CONSTRAINT payout_batch_state_check CHECK ((state = ANY (ARRAY['prepared'::text, 'approved'::text, 'settled'::text, 'cancelled'::text])))
);
CREATE INDEX payout_batch_prepared ON payout_batch USING btree (prepared_at DESC, batch_id);

CREATE TABLE payout_change (
  change_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  kind text NOT NULL,
  customer_id uuid,
  driver text,
  state text,
  destination text,
  holder text,
  note text,
  identities text[] NOT NULL,
  requested_by uuid,
  requested_at timestamp with time zone NOT NULL,
  effective_at timestamp with time zone NOT NULL,
  outcome text,
  ended_at timestamp with time zone,
  ended_by uuid,
  mailed_to uuid[] NOT NULL DEFAULT '{}'::uuid[],
  CONSTRAINT payout_change_pkey PRIMARY KEY (change_id),
  CONSTRAINT payout_change_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT payout_change_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT payout_change_check CHECK (((kind = 'customer'::text) = (customer_id IS NOT NULL))),
  CONSTRAINT payout_change_check1 CHECK (((kind = 'account'::text) = ((driver IS NOT NULL) AND (state IS NOT NULL) AND (destination IS NOT NULL)))),
  CONSTRAINT payout_change_check2 CHECK (((outcome IS NULL) = (ended_at IS NULL))),
  CONSTRAINT payout_change_driver_check CHECK ((driver ~ '^[a-z][a-z0-9_]{0,31}$'::text)),
  CONSTRAINT payout_change_kind_check CHECK ((kind = ANY (ARRAY['account'::text, 'customer'::text]))),
  CONSTRAINT payout_change_outcome_check CHECK ((outcome = ANY (ARRAY['applied'::text, 'stopped'::text, 'replaced'::text]))),
  CONSTRAINT payout_change_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'ready'::text, 'refused'::text])))
);
CREATE INDEX payout_change_destination ON payout_change USING btree (hoster_id, destination, requested_at);
CREATE INDEX payout_change_requested ON payout_change USING btree (requested_at);
CREATE UNIQUE INDEX payout_change_waiting ON payout_change USING btree (hoster_id, kind) WHERE (outcome IS NULL);

CREATE TABLE payout_event (
  driver text NOT NULL,
  event_id text NOT NULL,
  type text NOT NULL,
  provider_ref text NOT NULL,
  received_at timestamp with time zone NOT NULL DEFAULT now(),
  handled_at timestamp with time zone,
  CONSTRAINT payout_event_pkey PRIMARY KEY (driver, event_id)
);
CREATE INDEX payout_event_waiting ON payout_event USING btree (received_at) WHERE (handled_at IS NULL);

CREATE TABLE payout_identity (
  identity text NOT NULL,
  hoster_id uuid NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT payout_identity_pkey PRIMARY KEY (identity),
  CONSTRAINT payout_identity_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id)
);

CREATE TABLE person (
  person_id uuid NOT NULL,
  email text NOT NULL,
  email_verified_at timestamp with time zone,
  name text NOT NULL DEFAULT ''::text,
  password_hash text,
  installation_role text,
  disabled_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  totp_secret bytea,
  totp_pending bytea,
  totp_last_step bigint NOT NULL DEFAULT 0,
  invited_role text,
  invited_by uuid,
  invited_at timestamp with time zone,
  CONSTRAINT person_pkey PRIMARY KEY (person_id),
  CONSTRAINT person_installation_role_check CHECK ((installation_role = ANY (ARRAY['operator'::text, 'auditor'::text]))),
  CONSTRAINT person_invited_role_check CHECK ((invited_role = ANY (ARRAY['operator'::text, 'auditor'::text])))
);
CREATE UNIQUE INDEX person_email ON person USING btree (lower(email));
CREATE INDEX person_invited_by ON person USING btree (invited_by) WHERE (invited_by IS NOT NULL);
CREATE TRIGGER end_operator_keys AFTER UPDATE OF installation_role ON person FOR EACH ROW WHEN ((new.installation_role IS DISTINCT FROM old.installation_role)) EXECUTE FUNCTION end_operator_keys();
CREATE TRIGGER refuse_new_operator BEFORE INSERT ON person FOR EACH ROW WHEN ((new.installation_role IS NOT NULL)) EXECUTE FUNCTION refuse_operator_change();
CREATE TRIGGER refuse_operator_change BEFORE UPDATE ON person FOR EACH ROW WHEN (((new.installation_role IS DISTINCT FROM old.installation_role) OR ((old.installation_role IS NOT NULL) AND ((new.person_id IS DISTINCT FROM old.person_id) OR (new.disabled_at IS DISTINCT FROM old.disabled_at))))) EXECUTE FUNCTION refuse_operator_change();
CREATE TRIGGER refuse_operator_delete BEFORE DELETE ON person FOR EACH ROW WHEN ((old.installation_role IS NOT NULL)) EXECUTE FUNCTION refuse_operator_change();

CREATE TABLE person_device (
  person_id uuid NOT NULL,
  device_hash bytea NOT NULL,
  last_used_at timestamp with time zone NOT NULL,
  CONSTRAINT person_device_pkey PRIMARY KEY (person_id, device_hash),
  CONSTRAINT person_device_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT person_device_device_hash_check CHECK ((length(device_hash) = 32))
);
CREATE INDEX person_device_hash ON person_device USING btree (device_hash);

CREATE TABLE person_identity (
  issuer text NOT NULL,
  subject text NOT NULL,
  person_id uuid NOT NULL,
  provider text NOT NULL,
  email text,
  created_at timestamp with time zone NOT NULL,
  last_used_at timestamp with time zone NOT NULL,
  identity_id uuid NOT NULL DEFAULT gen_random_uuid(),
  CONSTRAINT person_identity_pkey PRIMARY KEY (issuer, subject),
  CONSTRAINT person_identity_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX person_identity_id ON person_identity USING btree (identity_id);
CREATE INDEX person_identity_person ON person_identity USING btree (person_id);

CREATE TABLE person_network (
  person_id uuid NOT NULL,
  network text NOT NULL,
  last_used_at timestamp with time zone NOT NULL,
  CONSTRAINT person_network_pkey PRIMARY KEY (person_id, network),
  CONSTRAINT person_network_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE
);
CREATE INDEX person_network_network ON person_network USING btree (network);

CREATE TABLE person_passkey (
  passkey_id uuid NOT NULL,
  person_id uuid NOT NULL,
  credential_id text NOT NULL,
  public_key bytea NOT NULL,
  sign_count bigint NOT NULL,
  transports text[] NOT NULL,
  name text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  last_used_at timestamp with time zone,
  CONSTRAINT person_passkey_credential_id_key UNIQUE (credential_id),
  CONSTRAINT person_passkey_pkey PRIMARY KEY (passkey_id),
  CONSTRAINT person_passkey_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE
);
CREATE INDEX person_passkey_person ON person_passkey USING btree (person_id);

CREATE TABLE person_recovery_code (
  person_id uuid NOT NULL,
  code_hash bytea NOT NULL,
  CONSTRAINT person_recovery_code_pkey PRIMARY KEY (person_id, code_hash),
  CONSTRAINT person_recovery_code_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT person_recovery_code_code_hash_check CHECK ((length(code_hash) = 32))
);

CREATE TABLE person_session (
  session_id uuid NOT NULL,
  token_hash bytea NOT NULL,
  person_id uuid NOT NULL,
  confirmed_at timestamp with time zone NOT NULL,
  last_seen_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  user_agent text NOT NULL,
  address text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  has_second_factor boolean NOT NULL DEFAULT false,
  previous_token_hash bytea,
  token_changed_at timestamp with time zone,
  is_from_host boolean NOT NULL DEFAULT false,
  CONSTRAINT person_session_pkey PRIMARY KEY (session_id),
  CONSTRAINT person_session_token_hash_key UNIQUE (token_hash),
  CONSTRAINT person_session_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT person_session_token_hash_check CHECK ((length(token_hash) = 32))
);
CREATE INDEX person_session_person ON person_session USING btree (person_id);
CREATE INDEX person_session_previous ON person_session USING btree (previous_token_hash) WHERE (previous_token_hash IS NOT NULL);

CREATE TABLE person_token (
  token_hash bytea NOT NULL,
  purpose text NOT NULL,
  person_id uuid,
  customer_id uuid,
  email text,
  role text,
  expires_at timestamp with time zone NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  token_id uuid NOT NULL DEFAULT gen_random_uuid(),
  made_by uuid,
  is_mailed boolean NOT NULL DEFAULT false,
  detail jsonb,
  hoster_id uuid,
  CONSTRAINT person_token_pkey PRIMARY KEY (token_hash),
  CONSTRAINT person_token_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT person_token_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id) ON DELETE CASCADE,
  CONSTRAINT person_token_made_by_fkey FOREIGN KEY (made_by) REFERENCES person(person_id) ON DELETE SET NULL,
  CONSTRAINT person_token_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT person_token_check CHECK (((purpose = ANY (ARRAY['welcome'::text, 'reset'::text, 'email'::text, 'second_factor'::text, 'passkey'::text])) = (person_id IS NOT NULL))),
  CONSTRAINT person_token_check2 CHECK (((purpose <> ALL (ARRAY['invite'::text, 'sign_up'::text, 'email'::text])) OR (email IS NOT NULL))),
  CONSTRAINT person_token_invite_check CHECK (
CASE
    WHEN (purpose = 'invite'::text) THEN ((role IS NOT NULL) AND ((customer_id IS NULL) OR (hoster_id IS NULL)) AND (((customer_id IS NULL) AND (hoster_id IS NULL)) = (role = ANY (ARRAY['operator'::text, 'auditor'::text]))))
    ELSE ((customer_id IS NULL) AND (hoster_id IS NULL))
END),
  CONSTRAINT person_token_purpose_check CHECK ((purpose = ANY (ARRAY['welcome'::text, 'invite'::text, 'sign_up'::text, 'reset'::text, 'email'::text, 'second_factor'::text, 'passkey'::text, 'passkey_sign_in'::text, 'oidc'::text]))),
  CONSTRAINT person_token_token_hash_check CHECK ((length(token_hash) = 32))
);
CREATE INDEX person_token_customer ON person_token USING btree (customer_id) WHERE (customer_id IS NOT NULL);
CREATE INDEX person_token_email ON person_token USING btree (lower(email), purpose) WHERE (email IS NOT NULL);
CREATE INDEX person_token_hoster ON person_token USING btree (hoster_id) WHERE (hoster_id IS NOT NULL);
CREATE UNIQUE INDEX person_token_id ON person_token USING btree (token_id);
CREATE INDEX person_token_invited_operators ON person_token USING btree (expires_at) WHERE ((purpose = 'invite'::text) AND (customer_id IS NULL) AND (hoster_id IS NULL));
CREATE INDEX person_token_person ON person_token USING btree (person_id, purpose) WHERE (person_id IS NOT NULL);

CREATE TABLE platform_customer_day (
  day date NOT NULL,
  customer_id uuid NOT NULL,
  requests bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  CONSTRAINT platform_customer_day_pkey PRIMARY KEY (day, customer_id)
) WITH (fillfactor=70);

CREATE TABLE platform_day (
  day date NOT NULL,
  model_id text NOT NULL,
  provider text NOT NULL,
  requests bigint NOT NULL,
  successes bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  latency_ms_sum bigint NOT NULL,
  upstream_cost_nanos bigint NOT NULL DEFAULT 0,
  costed_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT platform_day_pkey PRIMARY KEY (day, model_id, provider)
);

CREATE TABLE platform_money_day (
  day date NOT NULL,
  granted_nanos bigint NOT NULL,
  signup_credit_nanos bigint NOT NULL,
  refunded_nanos bigint NOT NULL,
  refunded_share_nanos bigint NOT NULL,
  writeoff_nanos bigint NOT NULL,
  paid_nanos bigint NOT NULL DEFAULT 0,
  reversed_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT platform_money_day_pkey PRIMARY KEY (day)
);

CREATE TABLE price_group (
  name text NOT NULL,
  version integer NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT price_group_pkey PRIMARY KEY (name),
  CONSTRAINT price_group_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'::text)),
  CONSTRAINT price_group_version_check CHECK ((version > 0))
);

CREATE TABLE price_group_version (
  name text NOT NULL,
  version integer NOT NULL,
  rules jsonb,
  reason text NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT price_group_version_pkey PRIMARY KEY (name, version),
  CONSTRAINT price_group_version_name_fkey FOREIGN KEY (name) REFERENCES price_group(name),
  CONSTRAINT price_group_version_rules_check CHECK ((jsonb_typeof(rules) = 'object'::text)),
  CONSTRAINT price_group_version_version_check CHECK ((version > 0))
);

CREATE TABLE promotion_day (
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  share_nanos bigint NOT NULL,
  budget_nanos bigint NOT NULL,
  taken_nanos bigint NOT NULL DEFAULT 0,
  payout_id uuid,
  CONSTRAINT promotion_day_pkey PRIMARY KEY (hoster_id, day),
  CONSTRAINT promotion_day_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT promotion_day_payout_id_fkey FOREIGN KEY (payout_id) REFERENCES payout(payout_id),
  CONSTRAINT promotion_day_check CHECK (((budget_nanos >= 0) AND (budget_nanos <= share_nanos))),
  CONSTRAINT promotion_day_check1 CHECK (((taken_nanos >= 0) AND (taken_nanos <= share_nanos)))
);
CREATE INDEX promotion_day_payout ON promotion_day USING btree (payout_id) WHERE (payout_id IS NOT NULL);

CREATE TABLE promotion_progress (
  closed_day date NOT NULL,
  found_day date NOT NULL
);

CREATE TABLE promotion_review (
  review_id uuid NOT NULL,
  hoster_id uuid NOT NULL,
  share_nanos bigint NOT NULL,
  evidence jsonb NOT NULL,
  opened_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  state text NOT NULL DEFAULT 'waiting'::text,
  reason text,
  decided_by uuid,
  decided_at timestamp with time zone,
  CONSTRAINT promotion_review_pkey PRIMARY KEY (review_id),
  CONSTRAINT promotion_review_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT promotion_review_check CHECK (((state = 'waiting'::text) = (decided_at IS NULL))),
  CONSTRAINT promotion_review_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'released'::text, 'withheld'::text])))
);
CREATE INDEX promotion_review_opened ON promotion_review USING btree (opened_at DESC, review_id);
CREATE UNIQUE INDEX promotion_review_waiting ON promotion_review USING btree (hoster_id) WHERE (state = 'waiting'::text);

CREATE TABLE promotion_share (
  hoster_id uuid NOT NULL,
  day date NOT NULL,
  customer_id uuid NOT NULL,
  share_nanos bigint NOT NULL,
  state text NOT NULL DEFAULT 'open'::text,
  CONSTRAINT promotion_share_pkey PRIMARY KEY (hoster_id, day, customer_id),
  CONSTRAINT promotion_share_hoster_id_fkey FOREIGN KEY (hoster_id) REFERENCES hoster(hoster_id),
  CONSTRAINT promotion_share_share_nanos_check CHECK ((share_nanos > 0)),
  CONSTRAINT promotion_share_state_check CHECK ((state = ANY (ARRAY['open'::text, 'clear'::text, 'waiting'::text, 'released'::text, 'withheld'::text])))
);
CREATE INDEX promotion_share_day ON promotion_share USING btree (day);

CREATE TABLE promotion_used_up (
  customer_id uuid NOT NULL,
  day date NOT NULL,
  noted_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT promotion_used_up_pkey PRIMARY KEY (customer_id)
);

CREATE TABLE provider (
  name text NOT NULL,
  version integer NOT NULL,
  secrets_sealed bytea,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  proposed_models jsonb NOT NULL DEFAULT '[]'::jsonb,
  asked_at timestamp with time zone,
  ask_problem text,
  CONSTRAINT provider_pkey PRIMARY KEY (name),
  CONSTRAINT provider_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'::text)),
  CONSTRAINT provider_proposed_models_check CHECK ((jsonb_typeof(proposed_models) = 'array'::text)),
  CONSTRAINT provider_version_check CHECK ((version > 0))
);

CREATE TABLE provider_version (
  name text NOT NULL,
  version integer NOT NULL,
  settings jsonb,
  reason text NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT provider_version_pkey PRIMARY KEY (name, version),
  CONSTRAINT provider_version_name_fkey FOREIGN KEY (name) REFERENCES provider(name),
  CONSTRAINT provider_version_settings_check CHECK ((jsonb_typeof(settings) = 'object'::text)),
  CONSTRAINT provider_version_version_check CHECK ((version > 0))
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON provider_version FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CREATE TABLE refund (
  customer_id uuid NOT NULL,
  request_id uuid NOT NULL,
  started_at timestamp with time zone NOT NULL,
  amount_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  reason text NOT NULL,
  at timestamp with time zone NOT NULL,
  tx_id bigint NOT NULL,
  CONSTRAINT refund_pkey PRIMARY KEY (customer_id, request_id),
  CONSTRAINT refund_tx_id_key UNIQUE (tx_id),
  CONSTRAINT refund_tx_id_fkey FOREIGN KEY (tx_id) REFERENCES ledger_tx(tx_id),
  CONSTRAINT refund_amount_nanos_check CHECK ((amount_nanos > 0)),
  CONSTRAINT refund_check CHECK ((amount_nanos = (hoster_share_nanos + fee_nanos))),
  CONSTRAINT refund_fee_nanos_check CHECK ((fee_nanos >= 0)),
  CONSTRAINT refund_hoster_share_nanos_check CHECK ((hoster_share_nanos >= 0))
);
CREATE INDEX refund_at ON refund USING btree (at);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON refund FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE TRIGGER note_hoster AFTER INSERT ON refund FOR EACH ROW EXECUTE FUNCTION note_hoster_refund();

CREATE TABLE request_content (
  request_id uuid NOT NULL,
  customer_id uuid NOT NULL,
  sealed bytea NOT NULL,
  CONSTRAINT request_content_pkey PRIMARY KEY (request_id)
) PARTITION BY RANGE (request_id);
CREATE INDEX request_content_customer ON ONLY request_content USING btree (customer_id);

CREATE TABLE role_change (
  change_id uuid NOT NULL,
  person_id uuid NOT NULL,
  role text,
  requested_by uuid NOT NULL,
  requested_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  state text NOT NULL,
  decided_by uuid,
  decided_at timestamp with time zone,
  CONSTRAINT role_change_pkey PRIMARY KEY (change_id),
  CONSTRAINT role_change_person_id_fkey FOREIGN KEY (person_id) REFERENCES person(person_id) ON DELETE CASCADE,
  CONSTRAINT role_change_role_check CHECK ((role = ANY (ARRAY['operator'::text, 'auditor'::text]))),
  CONSTRAINT role_change_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'applying'::text, 'done'::text, 'rejected'::text])))
);
CREATE UNIQUE INDEX role_change_waiting ON role_change USING btree (person_id) WHERE (state = 'waiting'::text);

CREATE TABLE seen_conversation (
  conversation text NOT NULL,
  hoster_id uuid NOT NULL,
  seen_at timestamp with time zone NOT NULL,
  CONSTRAINT seen_conversation_pkey PRIMARY KEY (conversation, hoster_id)
);
CREATE INDEX seen_conversation_at ON seen_conversation USING btree (seen_at);

CREATE TABLE server_day (
  day date NOT NULL,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  answered bigint NOT NULL,
  failed bigint NOT NULL,
  cost_nanos bigint NOT NULL DEFAULT 0,
  busy bigint NOT NULL DEFAULT 0,
  own_cost_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT server_day_pkey PRIMARY KEY (day, endpoint_id, model_id)
);

CREATE TABLE server_error (
  error_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  at timestamp with time zone NOT NULL,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  outcome text NOT NULL,
  status integer,
  text text NOT NULL,
  request_id uuid,
  customer_id uuid,
  CONSTRAINT server_error_pkey PRIMARY KEY (error_id)
);
CREATE INDEX server_error_request ON server_error USING btree (request_id);

CREATE TABLE server_health (
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  attempted_at timestamp with time zone NOT NULL,
  answered_in_row bigint NOT NULL,
  failed_in_row bigint NOT NULL,
  last_error jsonb,
  CONSTRAINT server_health_pkey PRIMARY KEY (endpoint_id, model_id)
) WITH (fillfactor=70);

CREATE TABLE server_incident (
  incident_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  node_id uuid,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  kind text NOT NULL,
  began_at timestamp with time zone NOT NULL,
  ended_at timestamp with time zone,
  CONSTRAINT server_incident_pkey PRIMARY KEY (incident_id),
  CONSTRAINT server_incident_kind_check CHECK ((kind = ANY (ARRAY['ejected'::text, 'credential_rejected'::text, 'failing'::text]))),
  CONSTRAINT server_incident_node_check CHECK (((node_id IS NULL) = (kind = 'failing'::text)))
);
CREATE INDEX server_incident_began ON server_incident USING btree (began_at);
CREATE UNIQUE INDEX server_incident_failing ON server_incident USING btree (endpoint_id, model_id) WHERE ((ended_at IS NULL) AND (kind = 'failing'::text));
CREATE UNIQUE INDEX server_incident_open ON server_incident USING btree (node_id, endpoint_id, model_id) WHERE (ended_at IS NULL);

CREATE TABLE server_minute (
  minute timestamp with time zone NOT NULL,
  endpoint_id text NOT NULL,
  model_id text NOT NULL,
  answered bigint NOT NULL,
  failed bigint NOT NULL,
  busy bigint NOT NULL,
  CONSTRAINT server_minute_pkey PRIMARY KEY (minute, endpoint_id, model_id)
);

CREATE TABLE settings_version (
  version integer NOT NULL,
  settings jsonb NOT NULL,
  reason text NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT settings_version_pkey PRIMARY KEY (version),
  CONSTRAINT settings_version_settings_check CHECK ((jsonb_typeof(settings) = 'object'::text)),
  CONSTRAINT settings_version_version_check CHECK ((version > 0))
);

CREATE TABLE shared_request_spend (
  day date NOT NULL,
  purpose text NOT NULL,
  customer_id uuid NOT NULL,
  spent_nanos bigint NOT NULL,
  CONSTRAINT shared_request_spend_pkey PRIMARY KEY (day, purpose, customer_id),
  CONSTRAINT shared_request_spend_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(customer_id),
  CONSTRAINT shared_request_spend_purpose_check CHECK ((purpose = ANY (ARRAY['shadow'::text, 'replay'::text]))),
  CONSTRAINT shared_request_spend_spent_nanos_check CHECK ((spent_nanos >= 0))
);

CREATE TABLE sign_in_throttle (
  subject text NOT NULL,
  failures integer NOT NULL,
  next_attempt_at timestamp with time zone NOT NULL,
  last_failure_at timestamp with time zone NOT NULL,
  CONSTRAINT sign_in_throttle_pkey PRIMARY KEY (subject),
  CONSTRAINT sign_in_throttle_failures_check CHECK ((failures > 0))
);
CREATE INDEX sign_in_throttle_age ON sign_in_throttle USING btree (last_failure_at);

CREATE TABLE signup_credit (
  mailbox_hash bytea NOT NULL,
  network text NOT NULL,
  granted_at timestamp with time zone NOT NULL,
  region text,
  CONSTRAINT signup_credit_pkey PRIMARY KEY (mailbox_hash),
  CONSTRAINT signup_credit_mailbox_hash_check CHECK ((length(mailbox_hash) = 32))
);
CREATE INDEX signup_credit_time ON signup_credit USING btree (granted_at);

CREATE TABLE tier_price_group (
  account_tier text NOT NULL,
  price_group text NOT NULL,
  CONSTRAINT tier_price_group_pkey PRIMARY KEY (account_tier),
  CONSTRAINT tier_price_group_price_group_fkey FOREIGN KEY (price_group) REFERENCES price_group(name)
);

CREATE TABLE trial (
  tx_id bigint NOT NULL,
  CONSTRAINT trial_tx_id_fkey FOREIGN KEY (tx_id) REFERENCES ledger_tx(tx_id) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE usage_archive (
  month date NOT NULL,
  from_id uuid NOT NULL,
  to_id uuid NOT NULL,
  frozen_at timestamp with time zone NOT NULL DEFAULT now(),
  archived_at timestamp with time zone,
  requests bigint,
  kept_requests bigint,
  cost_nanos bigint,
  file_name text,
  file_sha256 text,
  CONSTRAINT usage_archive_pkey PRIMARY KEY (month),
  CONSTRAINT usage_archive_check CHECK ((num_nulls(archived_at, requests, kept_requests, cost_nanos, file_name, file_sha256) = ANY (ARRAY[0, 6]))),
  CONSTRAINT usage_archive_month_check CHECK ((EXTRACT(day FROM month) = (1)::numeric))
);
CREATE INDEX usage_archive_ids ON usage_archive USING btree (from_id, to_id);

CREATE TABLE usage_closing (
  month date NOT NULL,
  customer_id uuid NOT NULL,
  day date NOT NULL,
  key_id uuid,
  model_id text NOT NULL,
  provider text NOT NULL,
  hoster_id uuid,
  cap_day date,
  key_window date,
  tx_block bigint,
  requests bigint NOT NULL,
  successes bigint NOT NULL,
  local_requests bigint NOT NULL,
  hoster_requests bigint NOT NULL,
  cloud_requests bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  latency_ms_sum bigint NOT NULL,
  cached_tokens bigint NOT NULL DEFAULT 0,
  label text,
  member_id uuid,
  member_window date,
  upstream_cost_nanos bigint NOT NULL DEFAULT 0,
  costed_nanos bigint NOT NULL DEFAULT 0
);
CREATE INDEX usage_closing_block ON usage_closing USING btree (tx_block);
CREATE INDEX usage_closing_customer ON usage_closing USING btree (customer_id, day);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON usage_closing FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CREATE TABLE usage_day (
  customer_id uuid NOT NULL,
  day date NOT NULL,
  model_id text NOT NULL,
  provider text NOT NULL,
  node_shard smallint NOT NULL,
  requests bigint NOT NULL,
  successes bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  latency_ms_sum bigint NOT NULL,
  cached_tokens bigint NOT NULL DEFAULT 0,
  upstream_cost_nanos bigint NOT NULL DEFAULT 0,
  costed_nanos bigint NOT NULL DEFAULT 0,
  CONSTRAINT usage_day_pkey PRIMARY KEY (customer_id, day, model_id, provider, node_shard)
) WITH (fillfactor=70);
CREATE INDEX usage_day_day ON usage_day USING btree (day);

CREATE TABLE usage_event (
  customer_id uuid NOT NULL,
  request_id uuid NOT NULL,
  key_id uuid,
  hoster_id uuid,
  started_at timestamp with time zone NOT NULL,
  tx_id bigint,
  input_pico_per_token bigint NOT NULL,
  output_pico_per_token bigint NOT NULL,
  hold_nanos bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  writeoff_nanos bigint NOT NULL DEFAULT 0,
  price_version integer,
  input_tokens integer NOT NULL,
  output_tokens integer NOT NULL,
  reported_input_tokens integer,
  reported_output_tokens integer,
  counted_input_tokens integer,
  counted_output_tokens integer,
  latency_ms integer NOT NULL,
  first_token_ms integer,
  cap_day date,
  key_window date,
  success boolean NOT NULL,
  model_id text NOT NULL,
  provider text NOT NULL,
  endpoint_id text,
  usage_source text NOT NULL,
  outcome text NOT NULL,
  finish_reason text,
  attempts json NOT NULL DEFAULT '[]'::json,
  routing jsonb,
  cache_read_pico_per_token bigint,
  cache_write_pico_per_token bigint,
  cache_read_tokens integer,
  cache_write_tokens integer,
  reasoning_tokens integer,
  other_parts json,
  label text,
  member_id uuid,
  member_window date,
  price_group text,
  price_group_version integer,
  upstream_cost_nanos bigint,
  CONSTRAINT usage_event_pkey PRIMARY KEY (customer_id, request_id),
  CONSTRAINT usage_event_check CHECK (((cost_nanos >= 0) AND (cost_nanos <= hold_nanos))),
  CONSTRAINT usage_event_check1 CHECK ((cost_nanos = (hoster_share_nanos + fee_nanos))),
  CONSTRAINT usage_event_check2 CHECK (((hoster_share_nanos = 0) OR (hoster_id IS NOT NULL))),
  CONSTRAINT usage_event_fee_nanos_check CHECK ((fee_nanos >= 0)),
  CONSTRAINT usage_event_hoster_share_nanos_check CHECK ((hoster_share_nanos >= 0)),
  CONSTRAINT usage_event_input_tokens_check CHECK ((input_tokens >= 0)),
  CONSTRAINT usage_event_latency_ms_check CHECK ((latency_ms >= 0)),
  CONSTRAINT usage_event_output_tokens_check CHECK ((output_tokens >= 0)),
  CONSTRAINT usage_event_provider_check CHECK ((provider = ANY (ARRAY['local'::text, 'hoster'::text, 'cloud'::text, 'none'::text]))),
  CONSTRAINT usage_event_usage_source_check CHECK ((usage_source = ANY (ARRAY['upstream'::text, 'gateway'::text, 'none'::text]))),
  CONSTRAINT usage_event_writeoff_nanos_check CHECK ((writeoff_nanos >= 0))
) PARTITION BY RANGE (request_id);
CREATE INDEX usage_event_large ON ONLY usage_event USING btree (customer_id, request_id) WHERE (cost_nanos >= 100000000);
CREATE INDEX usage_event_newest ON ONLY usage_event USING btree (started_at, request_id);
CREATE INDEX usage_event_started ON ONLY usage_event USING brin (started_at) WITH (autosummarize='on');
CREATE INDEX usage_event_tx ON ONLY usage_event USING brin (tx_id) WITH (autosummarize='on');
CREATE INDEX usage_event_writeoff ON ONLY usage_event USING btree (started_at) WHERE (writeoff_nanos > 0);

CREATE TABLE usage_frozen (
  customer_id uuid NOT NULL,
  request_id uuid NOT NULL,
  key_id uuid,
  hoster_id uuid,
  started_at timestamp with time zone NOT NULL,
  tx_id bigint,
  input_pico_per_token bigint NOT NULL,
  output_pico_per_token bigint NOT NULL,
  hold_nanos bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos bigint NOT NULL,
  writeoff_nanos bigint NOT NULL,
  price_version integer,
  input_tokens integer NOT NULL,
  output_tokens integer NOT NULL,
  reported_input_tokens integer,
  reported_output_tokens integer,
  counted_input_tokens integer,
  counted_output_tokens integer,
  latency_ms integer NOT NULL,
  first_token_ms integer,
  cap_day date,
  key_window date,
  success boolean NOT NULL,
  model_id text NOT NULL,
  provider text NOT NULL,
  endpoint_id text,
  usage_source text NOT NULL,
  outcome text NOT NULL,
  finish_reason text,
  attempts json NOT NULL,
  routing jsonb,
  cache_read_pico_per_token bigint,
  cache_write_pico_per_token bigint,
  cache_read_tokens integer,
  cache_write_tokens integer,
  reasoning_tokens integer,
  other_parts json,
  label text,
  member_id uuid,
  member_window date,
  price_group text,
  price_group_version integer,
  upstream_cost_nanos bigint
) PARTITION BY RANGE (request_id);

CREATE TABLE usage_hour (
  customer_id uuid NOT NULL,
  hour timestamp with time zone NOT NULL,
  node_shard smallint NOT NULL,
  requests bigint NOT NULL,
  successes bigint NOT NULL,
  local_requests bigint NOT NULL,
  hoster_requests bigint NOT NULL,
  cloud_requests bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  latency_ms_sum bigint NOT NULL,
  CONSTRAINT usage_hour_pkey PRIMARY KEY (customer_id, hour, node_shard)
) WITH (fillfactor=70);

CREATE TABLE usage_key_day (
  customer_id uuid NOT NULL,
  key_id uuid NOT NULL,
  day date NOT NULL,
  node_shard smallint NOT NULL,
  requests bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  CONSTRAINT usage_key_day_pkey PRIMARY KEY (customer_id, key_id, day, node_shard)
) WITH (fillfactor=70);
CREATE INDEX usage_key_day_customer ON usage_key_day USING btree (customer_id, day);
CREATE INDEX usage_key_day_day ON usage_key_day USING btree (day);

CREATE TABLE usage_label_day (
  customer_id uuid NOT NULL,
  label text NOT NULL,
  day date NOT NULL,
  node_shard smallint NOT NULL,
  requests bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  CONSTRAINT usage_label_day_pkey PRIMARY KEY (customer_id, day, label, node_shard)
) WITH (fillfactor=70);
CREATE INDEX usage_label_day_day ON usage_label_day USING btree (day);

CREATE TABLE voucher (
  voucher_id uuid NOT NULL,
  code_hash bytea NOT NULL,
  hint text NOT NULL,
  amount_nanos bigint NOT NULL,
  note text NOT NULL,
  made_by uuid,
  made_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  revoked_at timestamp with time zone,
  payment_id uuid,
  redeemed_at timestamp with time zone,
  mac bytea,
  is_promotion boolean NOT NULL,
  CONSTRAINT voucher_code_hash_key UNIQUE (code_hash),
  CONSTRAINT voucher_payment_id_key UNIQUE (payment_id),
  CONSTRAINT voucher_pkey PRIMARY KEY (voucher_id),
  CONSTRAINT voucher_payment_id_fkey FOREIGN KEY (payment_id) REFERENCES payment(payment_id),
  CONSTRAINT voucher_amount_nanos_check CHECK ((amount_nanos > 0)),
  CONSTRAINT voucher_check CHECK (((payment_id IS NULL) = (redeemed_at IS NULL))),
  CONSTRAINT voucher_check1 CHECK (((revoked_at IS NULL) OR (redeemed_at IS NULL))),
  CONSTRAINT voucher_code_hash_check CHECK ((length(code_hash) = 32)),
  CONSTRAINT voucher_mac_check CHECK ((length(mac) = 32))
);
CREATE INDEX voucher_made ON voucher USING btree (made_at DESC, voucher_id);

CREATE TYPE account_windows AS (
  customer uuid,
  posted bigint,
  leased bigint,
  minute timestamp with time zone,
  minute_used integer,
  minute_ends_ms double precision,
  day date,
  day_used integer,
  day_ends_ms double precision,
  day_spent bigint,
  day_leased bigint,
  day_cap bigint
);

CREATE TYPE admission_answer AS (
  item integer,
  verdict text,
  held bigint,
  slots integer,
  posted bigint,
  free bigint,
  cap_left bigint,
  key_spent bigint,
  key_left bigint,
  key_ends_ms double precision,
  member_spent bigint,
  member_left bigint,
  member_ends_ms double precision,
  held_elsewhere boolean,
  nodes integer,
  minute_used integer,
  day_used integer,
  minute_made integer,
  day_made integer,
  own_leases uuid[],
  minute_ends_ms double precision,
  day_ends_ms double precision,
  now_ms double precision
);

CREATE TYPE admission_asked AS (
  item integer,
  customer uuid,
  lease uuid,
  key uuid,
  minute_limit integer,
  day_limit integer,
  cap bigint,
  key_limit bigint,
  key_reset text,
  want bigint,
  floor bigint,
  slots integer,
  counted_until_ms double precision,
  member uuid,
  member_limit bigint,
  member_reset text,
  granted bigint,
  granted_slots integer,
  granted_minute timestamp with time zone
);

CREATE TYPE admission_decision AS (
  verdict text,
  held bigint,
  slots integer,
  counted_minute integer,
  counted_day integer,
  posted bigint
);

CREATE TYPE admission_state AS (
  windows account_windows,
  unused unused_slots,
  key_budgets spend_budget[],
  member_budgets spend_budget[],
  answer admission_answer,
  lease granted_lease
);

CREATE TYPE balance_move AS (
  customer uuid,
  cap_day date,
  cost bigint,
  released bigint
);

CREATE TYPE granted_lease AS (
  item integer,
  granted bigint,
  slots integer,
  slot_minute timestamp with time zone,
  cap_day date,
  key_window date,
  member uuid,
  member_window date
);

CREATE TYPE payout_rules AS (
  hold_days integer,
  promotion_hold_days integer,
  promotion_hoster_day_nanos bigint,
  promotion_day_nanos bigint,
  promotion_needs_payers boolean
);

CREATE TYPE settled_request AS (
  request uuid,
  customer uuid,
  bulk_lease uuid,
  cap_day date,
  hoster uuid,
  key uuid,
  model text,
  provider text,
  started_at timestamp with time zone,
  success boolean,
  input_tokens integer,
  output_tokens integer,
  cost bigint,
  hoster_share bigint,
  fee bigint,
  latency_ms integer,
  cached_tokens integer,
  label text,
  endpoint text,
  upstream_cost bigint
);

CREATE TYPE settled_sum AS (
  customer uuid,
  bulk_lease uuid,
  cap_day date,
  hoster uuid,
  key uuid,
  model text,
  provider text,
  hour timestamp with time zone,
  requests bigint,
  successes bigint,
  input_tokens bigint,
  output_tokens bigint,
  cost bigint,
  hoster_share bigint,
  fee bigint,
  latency_ms_sum bigint,
  cached_tokens bigint,
  label text,
  endpoint text,
  upstream_cost bigint,
  costed bigint
);

CREATE TYPE settlement_asked AS (
  version integer,
  request uuid,
  customer uuid,
  lease uuid,
  key uuid,
  started_ms bigint,
  model text,
  provider text,
  endpoint text,
  hoster uuid,
  input_tokens integer,
  output_tokens integer,
  reported_input_tokens integer,
  reported_output_tokens integer,
  counted_input_tokens integer,
  counted_output_tokens integer,
  usage_source text,
  input_price bigint,
  output_price bigint,
  price_version integer,
  hold bigint,
  cost bigint,
  hoster_share bigint,
  fee bigint,
  writeoff bigint,
  latency_ms integer,
  first_token_ms integer,
  success boolean,
  outcome text,
  finish_reason text,
  attempts json,
  routing jsonb,
  cache_read_tokens integer,
  cache_read_price bigint,
  cache_write_tokens integer,
  cache_write_price bigint,
  reasoning_tokens integer,
  other_parts json,
  label text,
  price_group text,
  price_group_version integer,
  upstream_cost bigint
);

CREATE TYPE spend_budget AS (
  customer uuid,
  spender uuid,
  window_start date,
  spent bigint,
  leased bigint,
  granted bigint
);

CREATE TYPE unleased_settlement AS (
  request uuid,
  effect text,
  cap_day date,
  key_window date,
  member uuid,
  member_window date
);

CREATE TYPE unused_slots AS (
  minute integer,
  day integer,
  own_leases uuid[]
);
