import { type Pool, withQueryTimeout } from '../db/pool.ts'
import { audit } from '../ledger/audit/audit.ts'
import { readLastAudit, recordAudit } from '../ledger/audit/last-audit.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'

export interface AuditJobDeps {
  /** Its own, with two connections and no statement timeout: an audit reads everything. */
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
}

/**
 * An audit rests nine times as long as the last one took: it reads the whole ledger, and while it does, vacuum cannot remove what was
 * deleted since it began. Of 20 million requests it takes three minutes (bench/results), so that it runs every half hour and not every
 * five minutes.
 */
const RESTS = 9

/** The pool has no limit for statements, and these two are short. */
const RECORD_PATIENCE_MS = 10_000

/**
 * Checks the money and records the result for the metrics of every node. What is wrong goes to the log, with the ids. Does nothing when the
 * last audit took long and is not long ago.
 */
export async function auditLedger({ pool, clock, log }: AuditJobDeps, signal: AbortSignal): Promise<void> {
  const record = withQueryTimeout(pool, RECORD_PATIENCE_MS)
  const last = await readLastAudit(record)
  if (last !== undefined) {
    // A record from the future is of a clock that was wrong.
    const restedMs = Math.abs(clock.epochMs() - last.atEpochMs)
    if (restedMs < last.elapsedMs * RESTS) return
  }
  const startedMs = clock.monotonicMs()
  const findings = await audit(pool, signal).catch(error => {
    // The gateway stops. Another node, or the next start, audits in five minutes.
    if (signal.aborted) return undefined
    throw error
  })
  if (findings === undefined) return
  const violated = findings.filter(finding => finding.violations > 0)
  const violations = violated.reduce((sum, finding) => sum + finding.violations, 0)
  const elapsedMs = Math.round(clock.monotonicMs() - startedMs)
  await recordAudit(record, { atEpochMs: clock.epochMs(), elapsedMs, violations })
  if (violations > 0) log.error({ violated, elapsedMs }, 'the audit found that the ledger is wrong')
  else log.info({ checks: findings.length, elapsedMs }, 'the audit found the ledger right')
}
