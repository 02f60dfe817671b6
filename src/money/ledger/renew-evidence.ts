import { type Pool, transaction } from '../../base/db/pool.ts'
import type { CreditEvidence } from './credit-evidence.ts'

const BATCH = 500

/** Evidence of credit and of vouchers, by what became of it. */
export interface RenewedEvidence {
  /** Signed with a former key. */
  readonly former: number
  /** No key of the ring has signed it: the audit names it. */
  readonly invalid: number
}

interface Signed {
  readonly id: string
  readonly facts: readonly (string | null)[]
  readonly mac: Buffer
}

/**
 * Signs the evidence of former keys again, with the current one. Only what a key of the ring has signed: a credit without evidence
 * gets none. Run it as the owner; a gateway that gives credit at the same time signs with the current key.
 *
 * @param dryRun counts only
 */
export async function renewEvidence(
  pool: Pool,
  evidence: Pick<CreditEvidence, 'renewed' | 'isValid'>,
  { dryRun = false } = {},
): Promise<RenewedEvidence> {
  const counts = { former: 0, invalid: 0 }
  for (const { read, write, first } of [CREDITS, VOUCHERS]) {
    let after = first
    for (;;) {
      const { rows } = await pool.query<Signed>(read, [after])
      const last = rows.at(-1)
      if (last === undefined) break
      after = last.id
      counts.invalid += rows.filter(({ facts, mac }) => !evidence.isValid(facts, mac)).length
      const renewed = rows.flatMap(({ id, facts, mac }) => {
        const other = evidence.renewed(facts, mac)
        return other === null ? [] : [[id, mac, other] as const]
      })
      counts.former += renewed.length
      if (dryRun || renewed.length === 0) continue
      await transaction(pool, async sql => {
        // Lets the trigger of the table pass: see refuse_evidence_rewrite.
        await sql.query("SELECT set_config('switchyard.renews_evidence', 'on', true)")
        for (const row of renewed) await sql.query(write, row)
      })
    }
  }
  return counts
}

const CREDITS = {
  read: `SELECT tx_id::text AS id, facts, mac FROM credit_evidence JOIN given_credit USING (tx_id)
          WHERE tx_id > $1::bigint AND tx_id > (SELECT tx_id FROM credit_evidence_start) ORDER BY tx_id LIMIT ${BATCH}`,
  write: 'UPDATE credit_evidence SET mac = $3 WHERE tx_id = $1::bigint AND mac = $2',
  first: String(-(2n ** 63n)),
}

const VOUCHERS = {
  read: `SELECT voucher_id::text AS id, ARRAY['made voucher', voucher_id::text, amount_nanos::text] AS facts, mac FROM voucher
          WHERE mac IS NOT NULL AND made_at > (SELECT at FROM credit_evidence_start) AND voucher_id > $1::uuid ORDER BY voucher_id LIMIT ${BATCH}`,
  write: 'UPDATE voucher SET mac = $3 WHERE voucher_id = $1::uuid AND mac = $2',
  first: '00000000-0000-0000-0000-000000000000',
}
