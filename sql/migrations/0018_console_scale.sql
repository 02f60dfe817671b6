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

-- Grants of the console, the newest first.
CREATE INDEX grant_request_time ON grant_request (requested_at DESC, grant_id);

-- The log of one person, and of one kind of action, the newest entry first.
CREATE INDEX audit_entry_person ON audit_entry (person_id, entry_id) WHERE person_id IS NOT NULL;
CREATE INDEX audit_entry_action ON audit_entry (action COLLATE "C", entry_id);

-- The keys of one customer, also revoked ones, and the alerts of one rule.
CREATE INDEX api_key_customer ON api_key (customer_id);
CREATE INDEX alert_rule_time ON alert (rule_id, created_at);

-- ---------------------------------------------------------------- with the functions of this version
SELECT sum_customer_days('-infinity');
