-- Alarms of the operators: what they were notified of, so that each begins and ends once, however many nodes check.

-- The space on the disks of each node, as ReportedDisk in src/market/supply/status/write-report.ts.
ALTER TABLE node_report ADD COLUMN disks jsonb NOT NULL DEFAULT '[]';

CREATE TABLE alarm (
  -- What it is about: see `key` in src/operator/alarms/alarms.ts.
  alarm_key     text PRIMARY KEY,
  kind          text NOT NULL,
  severity      text NOT NULL CHECK (severity IN ('danger', 'warn')),
  message       text NOT NULL,
  began_at      timestamptz NOT NULL,
  -- When a node last found it.
  seen_at       timestamptz NOT NULL,
  -- NULL: it goes on.
  ended_at      timestamptz
);
