-- A model that a hoster adds or changes while customers use its other models is offered once three probes have passed.
ALTER TABLE hoster_price_change DROP CONSTRAINT hoster_price_change_state_check;
-- `probing`: it waits for its probes.
ALTER TABLE hoster_price_change ADD CONSTRAINT hoster_price_change_state_check
  CHECK (state IN ('scheduled', 'probing', 'applied', 'cancelled'));
-- When it was last probed without success. NULL: not yet.
ALTER TABLE hoster_price_change ADD COLUMN probed_at timestamptz;
DROP INDEX hoster_price_change_scheduled;
CREATE UNIQUE INDEX hoster_price_change_waiting ON hoster_price_change (endpoint_id, model_id) WHERE state IN ('scheduled', 'probing');
CREATE INDEX hoster_price_change_probing ON hoster_price_change (endpoint_id) WHERE state = 'probing';
