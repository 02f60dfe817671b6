-- The operator's console: grants with a second operator, and sums over all customers.

-- ---------------------------------------------------------------- grants
-- A credit that an operator asked for in the console. Written only by the functions below.
CREATE TABLE grant_request (
  grant_id      uuid PRIMARY KEY,
  customer_id   uuid NOT NULL REFERENCES customer,
  amount_nanos  bigint NOT NULL CHECK (amount_nanos > 0),
  -- Of the ledger transaction. A ref is granted once.
  ref           text NOT NULL UNIQUE,
  reason        text NOT NULL,
  -- `waiting`: a second operator must approve it.
  state         text NOT NULL CHECK (state IN ('waiting', 'granted', 'rejected')),
  requested_by  uuid NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT now(),
  decided_by    uuid,
  decided_at    timestamptz,
  CHECK ((state = 'waiting') = (decided_at IS NULL))
);
CREATE INDEX grant_request_waiting ON grant_request (requested_at) WHERE state = 'waiting';
CREATE INDEX grant_request_customer ON grant_request (customer_id, requested_at);

-- Above this sum in 24 hours, the credit that one operator gives one customer needs a second operator. 100 USD.
CREATE FUNCTION grant_alone_max_nanos() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 100000000000::bigint $$;

CREATE FUNCTION is_operator(p_person uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM person WHERE person_id = p_person AND installation_role = 'operator' AND disabled_at IS NULL)
$$;

-- Whether another operator could approve a grant of this one. An operator without any sign-in cannot.
CREATE FUNCTION has_other_operator(p_person uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM person p
     WHERE p.person_id <> p_person AND p.installation_role = 'operator' AND p.disabled_at IS NULL
       AND (p.password_hash IS NOT NULL OR EXISTS (SELECT FROM person_network n WHERE n.person_id = p.person_id)))
$$;

CREATE FUNCTION grant_detail(p_amount bigint, p_ref text, p_reason text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('amount_usd', trim_scale(p_amount / 1e9)::text, 'ref', p_ref, 'reason', p_reason)
$$;

-- Gives credit for an operator, or asks for a second one, and writes the audit log. The gateway role may call it, though it
-- may not call grant_credit: no credit is given here without an entry in the log that the gateway role cannot remove.
--
-- Values of the result:
-- 'granted'
-- 'waiting'       a second operator must approve it
-- 'duplicate'     the same credit was granted with this ref before; nothing changes
-- 'ref_taken'     the ref was used for another customer or amount, or was rejected; nothing changes
-- 'no_account'    the customer has no account; nothing changes
-- 'not_operator'  the person is no operator; nothing changes
CREATE FUNCTION request_grant(p_operator uuid, p_grant uuid, p_customer uuid, p_amount bigint, p_ref text, p_reason text, p_address text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_before grant_request;
  v_recent numeric;
  v_credit record;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  -- Grants to one customer queue here, so that two at once cannot pass the limit together.
  PERFORM FROM balance WHERE customer_id = p_customer FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN 'no_account';
  END IF;
  SELECT * INTO v_before FROM grant_request WHERE ref = p_ref;
  IF FOUND THEN
    RETURN CASE
      WHEN v_before.customer_id <> p_customer OR v_before.amount_nanos <> p_amount OR v_before.state = 'rejected' THEN 'ref_taken'
      WHEN v_before.state = 'waiting' THEN 'waiting'
      ELSE 'duplicate' END;
  END IF;
  SELECT coalesce(sum(amount_nanos), 0) INTO v_recent FROM grant_request
   WHERE customer_id = p_customer AND requested_by = p_operator AND state = 'granted' AND requested_at > now() - interval '24 hours';
  IF v_recent + p_amount > grant_alone_max_nanos() AND has_other_operator(p_operator) THEN
    INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, state, requested_by)
      VALUES (p_grant, p_customer, p_amount, p_ref, p_reason, 'waiting', p_operator);
    PERFORM add_audit_entry(p_operator, 'credit.requested', p_customer::text, p_customer, grant_detail(p_amount, p_ref, p_reason), p_address);
    RETURN 'waiting';
  END IF;
  SELECT * INTO v_credit FROM grant_credit(p_customer, p_amount, p_ref, p_reason);
  IF v_credit.mismatch THEN
    RETURN 'ref_taken';
  ELSIF NOT v_credit.applied THEN
    RETURN 'duplicate';
  END IF;
  INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, state, requested_by, decided_by, decided_at)
    VALUES (p_grant, p_customer, p_amount, p_ref, p_reason, 'granted', p_operator, p_operator, now());
  PERFORM add_audit_entry(p_operator, 'credit.granted', p_customer::text, p_customer, grant_detail(p_amount, p_ref, p_reason), p_address);
  RETURN 'granted';
END $$;

-- Approves or rejects a waiting grant and writes the audit log. The operator who asked may reject, and not approve.
--
-- Values of the result: 'granted', 'rejected', and without a change 'own_request', 'decided_before', 'ref_taken' (the ref was
-- granted elsewhere meanwhile), 'no_grant' and 'not_operator'.
CREATE FUNCTION decide_grant(p_operator uuid, p_grant uuid, p_is_approved boolean, p_address text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v grant_request;
  v_credit record;
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN 'not_operator';
  END IF;
  SELECT * INTO v FROM grant_request WHERE grant_id = p_grant FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'no_grant';
  ELSIF v.state <> 'waiting' THEN
    RETURN 'decided_before';
  ELSIF p_is_approved AND v.requested_by = p_operator THEN
    RETURN 'own_request';
  END IF;
  IF p_is_approved THEN
    SELECT * INTO v_credit FROM grant_credit(v.customer_id, v.amount_nanos, v.ref, v.reason);
    IF NOT v_credit.applied THEN
      RETURN 'ref_taken';
    END IF;
  END IF;
  UPDATE grant_request
     SET state = CASE WHEN p_is_approved THEN 'granted' ELSE 'rejected' END, decided_by = p_operator, decided_at = now()
   WHERE grant_id = p_grant;
  PERFORM add_audit_entry(p_operator, CASE WHEN p_is_approved THEN 'credit.granted' ELSE 'credit.rejected' END, v.customer_id::text,
    v.customer_id, grant_detail(v.amount_nanos, v.ref, v.reason), p_address);
  RETURN CASE WHEN p_is_approved THEN 'granted' ELSE 'rejected' END;
END $$;

-- Opens the account of a customer that an operator adds, and writes the audit log. Returns false when the person is no operator.
CREATE FUNCTION open_account_by_operator(p_operator uuid, p_customer uuid, p_credit bigint, p_address text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    RETURN false;
  END IF;
  PERFORM open_account(p_customer, p_credit);
  PERFORM add_audit_entry(p_operator, 'customer.created', p_customer::text, p_customer,
    jsonb_build_object('signup_credit_usd', trim_scale(p_credit / 1e9)::text), p_address);
  RETURN true;
END $$;

-- Like refund_request, for an operator in the console: writes the audit log. Another verdict: 'not_operator'.
CREATE FUNCTION refund_by_operator(p_operator uuid, p_customer uuid, p_request uuid, p_amount bigint, p_reason text, p_address text)
RETURNS TABLE (verdict text, charged bigint, amount bigint, hoster_share bigint, fee bigint, reason text, at timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_operator(p_operator) THEN
    verdict := 'not_operator';
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT r.* INTO verdict, charged, amount, hoster_share, fee, reason, at
    FROM refund_request(p_customer, p_request, p_amount, p_reason) r;
  IF verdict = 'refunded' THEN
    PERFORM add_audit_entry(p_operator, 'request.refunded', p_request::text, p_customer,
      jsonb_build_object('amount_usd', trim_scale(amount / 1e9)::text, 'reason', p_reason), p_address);
  END IF;
  RETURN NEXT;
END $$;

-- ---------------------------------------------------------------- customers
-- The list of customers, newest first.
CREATE INDEX customer_created ON customer (created_at, customer_id);

-- ---------------------------------------------------------------- sums over all customers
-- The sums of usage_day over all customers. A job writes them again each minute for the last two days, and each night for the
-- last 30: a settlement that added to them itself would wait for those of all other customers.
CREATE TABLE platform_day (
  day           date NOT NULL,
  model_id      text NOT NULL,
  provider      text NOT NULL,
  requests      bigint NOT NULL,
  successes     bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  hoster_share_nanos bigint NOT NULL,
  fee_nanos     bigint NOT NULL,
  latency_ms_sum bigint NOT NULL,
  PRIMARY KEY (day, model_id, provider)
);

-- What else changed money on a UTC day.
CREATE TABLE platform_money_day (
  day           date PRIMARY KEY,
  granted_nanos bigint NOT NULL,
  signup_credit_nanos bigint NOT NULL,
  refunded_nanos bigint NOT NULL,
  refunded_share_nanos bigint NOT NULL,
  -- Of the requests that began on the day.
  writeoff_nanos bigint NOT NULL
);

-- Indexes by day, for the job and for spans of days. Settlements do not change indexed columns, so their updates stay cheap.
CREATE INDEX usage_day_day ON usage_day (day);
CREATE INDEX usage_key_day_day ON usage_key_day (day);
CREATE INDEX refund_at ON refund (at);
CREATE INDEX ledger_tx_given ON ledger_tx (at) WHERE kind <> 'settle';
-- Few requests have a part that is not charged.
CREATE INDEX usage_event_writeoff ON usage_event (started_at) WHERE writeoff_nanos > 0;

-- Sums the days from `p_from` on. Days before it stay as they are.
CREATE FUNCTION sum_platform_days(p_from date) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_from timestamptz := p_from::timestamp AT TIME ZONE 'UTC';
BEGIN
  -- Two sums at once would insert the same days.
  PERFORM pg_advisory_xact_lock(x'73797064'::int);  -- "sypd" in ASCII
  DELETE FROM platform_day WHERE day >= p_from;
  INSERT INTO platform_day
    SELECT day, model_id, provider, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
      sum(cost_nanos), sum(hoster_share_nanos), sum(fee_nanos), sum(latency_ms_sum)
    FROM usage_day WHERE day >= p_from GROUP BY day, model_id, provider HAVING sum(requests) <> 0;
  DELETE FROM platform_money_day WHERE day >= p_from;
  INSERT INTO platform_money_day
    SELECT day, coalesce(sum(granted), 0), coalesce(sum(signup), 0), coalesce(sum(refunded), 0), coalesce(sum(share), 0), coalesce(sum(writeoff), 0)
    FROM (
      SELECT (t.at AT TIME ZONE 'UTC')::date AS day, CASE WHEN t.kind <> 'signup_credit' THEN e.amount_nanos END AS granted,
        CASE WHEN t.kind = 'signup_credit' THEN e.amount_nanos END AS signup,
        NULL::bigint AS refunded, NULL::bigint AS share, NULL::bigint AS writeoff
      FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      WHERE t.kind <> 'settle' AND t.kind <> 'refund' AND t.at >= v_from AND e.account_kind = 'customer'
      UNION ALL
      SELECT (at AT TIME ZONE 'UTC')::date, NULL, NULL, amount_nanos, hoster_share_nanos, NULL FROM refund WHERE at >= v_from
      UNION ALL
      SELECT (started_at AT TIME ZONE 'UTC')::date, NULL, NULL, NULL, NULL, writeoff_nanos FROM usage_event
      WHERE writeoff_nanos > 0 AND started_at >= v_from
    ) AS changes
    GROUP BY day;
END $$;
SELECT sum_platform_days('-infinity');

-- ---------------------------------------------------------------- servers
-- What each node last said of the servers that it used. A node writes its row every few seconds.
CREATE TABLE node_report (
  node_id       uuid PRIMARY KEY,
  at            timestamptz NOT NULL DEFAULT now(),
  version       text NOT NULL,
  -- As ReportedServer in src/supply/status/write-report.ts.
  servers       jsonb NOT NULL
);

-- The attempts of all nodes at each server, by UTC day. A job deletes days that the status page no longer shows.
CREATE TABLE server_day (
  day           date NOT NULL,
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  answered      bigint NOT NULL,
  failed        bigint NOT NULL,
  PRIMARY KEY (day, endpoint_id, model_id)
);

-- When a node stopped using a server, as its breaker decided, and when it went on. A pause of less than five minutes does not end
-- an incident, so a server that comes and goes has few rows.
CREATE TABLE server_incident (
  incident_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node_id       uuid NOT NULL,
  endpoint_id   text NOT NULL,
  model_id      text NOT NULL,
  -- `credential_rejected`: the server refused the key of the operator.
  kind          text NOT NULL CHECK (kind IN ('ejected', 'credential_rejected')),
  began_at      timestamptz NOT NULL,
  -- NULL: it goes on.
  ended_at      timestamptz
);
CREATE UNIQUE INDEX server_incident_open ON server_incident (node_id, endpoint_id, model_id) WHERE ended_at IS NULL;
CREATE INDEX server_incident_began ON server_incident (began_at);

-- ---------------------------------------------------------------- rights
-- Adds to what the gateway role may only read, and to the functions that it may call.
DO $$
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION money_tables() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_tables() || ARRAY['grant_request']::name[]));
  EXECUTE format('CREATE OR REPLACE FUNCTION money_functions() RETURNS name[] LANGUAGE sql IMMUTABLE AS %L',
    format('SELECT %L::name[]', money_functions() || ARRAY['request_grant', 'decide_grant', 'open_account_by_operator',
      'refund_by_operator']::name[]));
END $$;
