-- What the console needs so that no screen reads all rows of a table that grows.

-- The usage of each customer by UTC day, over all models and providers: operators see the largest. A job writes it, as it does
-- platform_day. The sums of usage_day have two and more rows for each of these.
CREATE TABLE platform_customer_day (
  day           date NOT NULL,
  customer_id   uuid NOT NULL,
  requests      bigint NOT NULL,
  cost_nanos    bigint NOT NULL,
  PRIMARY KEY (day, customer_id)
) WITH (fillfactor = 70);

-- Writes only what changed: most customers make no request in a minute.
CREATE FUNCTION sum_customer_days(p_from date) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO platform_customer_day AS p (day, customer_id, requests, cost_nanos)
    SELECT day, customer_id, sum(requests), sum(cost_nanos) FROM usage_day WHERE day >= p_from GROUP BY day, customer_id
    ORDER BY day, customer_id  -- so that a span is in few pages
    ON CONFLICT (day, customer_id) DO UPDATE SET requests = excluded.requests, cost_nanos = excluded.cost_nanos
      WHERE (p.requests, p.cost_nanos) IS DISTINCT FROM (excluded.requests, excluded.cost_nanos)
$$;
SELECT sum_customer_days('-infinity');

-- Grants of the console, the newest first.
CREATE INDEX grant_request_time ON grant_request (requested_at DESC, grant_id);

-- The log of one person, and of one kind of action, the newest entry first.
CREATE INDEX audit_entry_person ON audit_entry (person_id, entry_id) WHERE person_id IS NOT NULL;
CREATE INDEX audit_entry_action ON audit_entry (action COLLATE "C", entry_id);

-- The keys of one customer, also revoked ones, and the alerts of one rule.
CREATE INDEX api_key_customer ON api_key (customer_id);
CREATE INDEX alert_rule_time ON alert (rule_id, created_at);
