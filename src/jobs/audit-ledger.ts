import { type Pool, withQueryTimeout } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { audit } from '../money/ledger/audit/audit.ts'
import { progressInDatabase } from '../money/ledger/audit/audit-progress.ts'
import { readLastAudit, recordAudit } from '../money/ledger/audit/last-audit.ts'
import type { CreditEvidence } from '../money/ledger/credit-evidence.ts'

export interface AuditJobDeps {
  /** A pool for audits only, with two connections and no statement timeout: an audit reads the whole ledger. */
  readonly pool: Pool
  readonly evidence: Pick<CreditEvidence, 'isValid'>
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
}

/**
 * The pause after an audit is nine times its duration, since an audit reads the whole ledger. With 20 million requests
 * it takes three minutes (bench/results), so it runs every half hour instead of every five minutes.
 */
const PAUSE_FACTOR = 9

/** Limits the two short statements that read and record the last audit: the pool itself has no limit. */
const RECORD_TIMEOUT_MS = 10_000

/**
 * Audits the ledger and records the result for the metrics of all nodes. Violations go to the log, with their
 * ids. Does nothing during the pause after the last audit.
 */
export async function auditLedger({ pool, evidence, clock, log }: AuditJobDeps, signal: AbortSignal): Promise<void> {
  const record = withQueryTimeout(pool, RECORD_TIMEOUT_MS)
  const last = await readLastAudit(record)
  if (last !== undefined) {
    // A record from the future was written by a wrong clock, so use the absolute value.
    const pausedMs = Math.abs(clock.epochMs() - last.atEpochMs)
    if (pausedMs < last.elapsedMs * PAUSE_FACTOR) return
  }
  const startedMs = clock.monotonicMs()
  const options = { signal, clock, progress: progressInDatabase(record), isEvidence: evidence.isValid }
  const findings = await audit(pool, options).catch(error => {
    // This gateway is stopping. Another node, or the next start, continues within five minutes.
    if (signal.aborted) return undefined
    throw error
  })
  if (findings === undefined) return
  const violated = findings.filter(finding => finding.violations > 0)
  const violations = violated.reduce((sum, finding) => sum + finding.violations, 0)
  const elapsedMs = Math.round(clock.monotonicMs() - startedMs)
  await recordAudit(record, { atEpochMs: clock.epochMs(), elapsedMs, violations })
  if (violations > 0) log.error({ violated, elapsedMs }, 'the audit found violations in the ledger')
  else log.info({ checks: findings.length, elapsedMs }, 'the audit found no violations in the ledger')
}
