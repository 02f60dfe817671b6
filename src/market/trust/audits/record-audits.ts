import { type Pool, transaction } from '../../../base/db/pool.ts'
import { elementAt, valueAt } from '../../../base/runtime/collections.ts'
import { type AuditRow, insertAudit } from '../evidence/audit-store.ts'
import { lockTrust, writeTrust } from '../evidence/trust-store.ts'
import { addAudit } from '../hoster-evidence.ts'

/** Adds the results to the evidence of their hosters, in one transaction. */
export function recordAudits(pool: Pool, rows: readonly AuditRow[]): Promise<void> {
  return transaction(pool, async sql => {
    const trusts = await lockTrust(sql, [...new Set(rows.map(({ hosterId }) => hosterId))].sort())
    for (const row of rows) {
      const trust = valueAt(trusts, row.hosterId)
      trusts.set(row.hosterId, { ...trust, evidence: addAudit(trust.evidence, row) })
      await insertAudit(sql, row)
    }
    for (const trust of trusts.values()) await writeTrust(sql, trust, elementAt(rows, 0).atMs)
  })
}
