-- The settings that operators manage at run time, as in switchyard.yaml: the whole document in each version, of which the last counts.
-- Append only.
CREATE TABLE settings_version (
  version int PRIMARY KEY CHECK (version > 0),
  settings jsonb NOT NULL CHECK (jsonb_typeof(settings) = 'object'),
  reason text NOT NULL,
  at timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE control_version DROP CONSTRAINT control_version_topic_check;
ALTER TABLE control_version ADD CONSTRAINT control_version_topic_check CHECK (topic IN ('access', 'supply', 'settings'));
INSERT INTO control_version (topic) VALUES ('settings');
