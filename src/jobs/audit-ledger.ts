import type { Pool } from '../db/pool.ts'
import type { Clock } from '../domain/clock.ts'
import { audit } from '../ledger/audit.ts'
import { recordAudit } from '../ledger/last-audit.ts'

export interface AuditJobDeps {
  /** Its own, with two connections and no statement timeout: an audit reads everything. */
  readonly pool: Pool
  readonly clock: Clock
  readonly log: { info(facts: object, message: string): void; error(facts: object, message: string): void }
}

/** Checks the money and records the result for the metrics of every node. What is wrong goes to the log, with the ids. */
export async function auditLedger({ pool, clock, log }: AuditJobDeps, signal: AbortSignal): Promise<void> {
  const startedMs = clock.monotonicMs()
  const findings = await audit(pool, signal).catch(error => {
    // The gateway stops. Another node, or the next start, audits in five minutes.
    if (signal.aborted) return undefined
    throw error
  })
  if (findings === undefined) return
  const violated = findings.filter(finding => finding.violations > 0)
  const violations = violated.reduce((sum, finding) => sum + finding.violations, 0)
  await recordAudit(pool, { atEpochMs: clock.epochMs(), violations })
  const elapsedMs = Math.round(clock.monotonicMs() - startedMs)
  if (violations > 0) log.error({ violated, elapsedMs }, 'the audit found that the ledger is wrong')
  else log.info({ checks: findings.length, elapsedMs }, 'the audit found the ledger right')
}
