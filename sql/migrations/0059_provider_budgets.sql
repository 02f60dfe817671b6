-- What the providers of the operator charge, by day. Budgets of providers are checked against it.
ALTER TABLE server_day ADD COLUMN own_cost_nanos bigint NOT NULL DEFAULT 0;
