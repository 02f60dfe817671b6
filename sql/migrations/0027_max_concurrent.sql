-- How many requests at once a hoster's server takes for a model. NULL: not declared; each node then finds a limit by itself.
-- A new column without a default locks its table for a moment only.
ALTER TABLE hoster_price ADD COLUMN max_concurrent integer CHECK (max_concurrent BETWEEN 1 AND 100000);
ALTER TABLE hoster_price_change ADD COLUMN max_concurrent integer CHECK (max_concurrent BETWEEN 1 AND 100000);
