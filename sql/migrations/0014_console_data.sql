-- What open console pages watch: a number for each customer and topic that grows with every change of the topic.
-- src/identity/live reads it each second for the customers that are watched.
CREATE TABLE customer_change (
  customer_id   uuid NOT NULL,
  topic         text NOT NULL CHECK (topic IN ('keys', 'alerts', 'people', 'payments', 'budgets')),
  version       bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (customer_id, topic)
) WITH (fillfactor = 50);

-- Usage by key of the last days. The primary key has the days of each key apart, and usage_key_day_day those of all customers
-- together.
CREATE INDEX usage_key_day_customer ON usage_key_day (customer_id, day);
