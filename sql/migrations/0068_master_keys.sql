-- The marks of the keys of the key ring: see src/base/secrets/key-ring-state.ts. A mark is an HMAC under the key, and reveals nothing of it.
CREATE TABLE master_key (
  mark text PRIMARY KEY CHECK (mark ~ '^[0-9a-f]{64}$'),
  -- `next`: nodes get it, and none seals with it. `current`: seals. `former`: opens what it sealed. `forgotten`: nothing needs it.
  state text NOT NULL CHECK (state IN ('next', 'current', 'former', 'forgotten')),
  since timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX master_key_current ON master_key (state) WHERE state = 'current';
CREATE UNIQUE INDEX master_key_next ON master_key (state) WHERE state = 'next';

INSERT INTO master_key (mark, state) SELECT value, 'current' FROM installation WHERE name = 'master_key_mark';
DELETE FROM installation WHERE name = 'master_key_mark';

-- The marks of the keys that a node has. The first one seals.
ALTER TABLE node_report ADD COLUMN master_keys jsonb NOT NULL DEFAULT '[]';

ALTER TABLE control_version DROP CONSTRAINT control_version_topic_check;
ALTER TABLE control_version ADD CONSTRAINT control_version_topic_check CHECK (topic IN ('access', 'supply', 'settings', 'master_key'));
INSERT INTO control_version (topic) VALUES ('master_key');
