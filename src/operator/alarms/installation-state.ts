import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { paymentProviderNames } from '../../base/domain/money-drivers.ts'
import { REPORT_AGE_MS_MAX, type ReportedDisk } from '../../market/supply/status/write-report.ts'
import { type BackupState, readBackupState } from '../backup-state.ts'
import { type NamedRun, readScheduledRuns } from '../scheduled-run.ts'

/** What alarms follow from, besides what the overview shows. */
export interface InstallationState {
  readonly suspendedHosters: readonly { readonly id: string; readonly name: string; readonly sinceMs: number | null }[]
  /** The disks of all nodes, each once. */
  readonly disks: readonly ReportedDisk[]
  /** When the database was created. */
  readonly createdMs: number
  readonly backups: BackupState
  /** The last run of each schedule that has run. */
  readonly scheduledRuns: readonly NamedRun[]
  /** Payment providers that paid something in the last week, and sent no event. */
  readonly silentProviders: readonly string[]
  /** A rotation of the master key that has not ended. */
  readonly rotation: { readonly step: 'hand_out' | 'seal_again'; readonly sinceMs: number } | null
}

export async function readInstallationState(sql: Sql, nowMs: number): Promise<InstallationState> {
  const [hosters, disks, created, backups, scheduledRuns, silent, rotations] = await Promise.all([
    sql.query<{ id: string; name: string; at: Date | null }>(SUSPENDED),
    sql.query<ReportedDisk>(DISKS, [new Date(nowMs - REPORT_AGE_MS_MAX)]),
    queryRow<{ at: Date }>(sql, 'SELECT min(applied_at) AS at FROM migration'),
    readBackupState(sql),
    readScheduledRuns(sql, ['usage_archive', 'usage_export']),
    sql.query<{ driver: string }>(SILENT, [paymentProviderNames, new Date(nowMs - 7 * DAY_MS)]),
    sql.query<{ step: 'hand_out' | 'seal_again'; since: Date }>(ROTATION),
  ])
  return {
    suspendedHosters: hosters.rows.map(({ id, name, at }) => ({ id, name, sinceMs: at?.getTime() ?? null })),
    disks: disks.rows,
    createdMs: created.at.getTime(),
    backups,
    scheduledRuns,
    silentProviders: silent.rows.map(({ driver }) => driver),
    rotation: rotations.rows.map(({ step, since }) => ({ step, sinceMs: since.getTime() }))[0] ?? null,
  }
}

const SUSPENDED = `
SELECT hoster_id AS id, name, (SELECT max(at) FROM hoster_state_change c WHERE c.hoster_id = h.hoster_id AND to_state = 'suspended') AS at
  FROM hoster h WHERE state = 'suspended' ORDER BY name, hoster_id`

// Written by the command line and the job `reseal_secrets`: see base/secrets/key-ring-state.ts.
const ROTATION = `
SELECT CASE state WHEN 'next' THEN 'hand_out' ELSE 'seal_again' END AS step, since FROM master_key k
 WHERE state = 'next' OR (state = 'current' AND NOT EXISTS (
   SELECT FROM installation i WHERE i.name = 'secrets_sealed_with' AND i.value = k.mark))
 ORDER BY since LIMIT 1`

// Processes of one machine report the same disks.
const DISKS = `
SELECT DISTINCT ON (d.host, d.what) d.host, d.what, d."freeBytes", d."sizeBytes"
  FROM node_report, jsonb_to_recordset(disks) AS d(host text, what text, "freeBytes" float8, "sizeBytes" float8)
 WHERE at > $1 ORDER BY d.host, d.what, d."freeBytes"`

// A payment is found by asking too, but minutes later.
const SILENT = `
SELECT d.driver FROM unnest($1::text[]) AS d(driver)
 WHERE EXISTS (SELECT FROM payment p WHERE p.driver = d.driver AND p.paid_at > $2 AND p.provider_ref IS NOT NULL)
   AND NOT EXISTS (SELECT FROM payment_event e WHERE e.driver = d.driver AND e.received_at > $2)
 ORDER BY d.driver`
