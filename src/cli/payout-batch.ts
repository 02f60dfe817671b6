import type { Pool } from '../base/db/pool.ts'
import { usdText } from '../base/domain/money.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { findBatch, type PayoutBatch } from '../money/payouts/read-payouts.ts'
import { Failure } from './failure.ts'

/** Finds a batch by its id. Throws Failure without one. */
export async function resolveBatch(pool: Pool, id: string): Promise<PayoutBatch> {
  const { rows } = await pool.query<{ id: string }>(
    'SELECT batch_id AS id FROM payout_batch WHERE batch_id::text = lower($1)',
    [id],
  )
  const found = rows[0] && (await findBatch(pool, rows[0].id))
  if (found === undefined) {
    throw new Failure(`There is no batch ${quoteForShell(id)}. List batches with: ${ownCommand('payout list')}`)
  }
  return found
}

export function payoutCount(payouts: number | bigint): string {
  return `${payouts} ${Number(payouts) === 1 ? 'payout' : 'payouts'}`
}

/** A batch as commands print it with --json. */
export function shownBatch(batch: PayoutBatch) {
  return {
    batch_id: batch.batchId,
    driver: batch.driver,
    state: batch.state,
    payouts: Number(batch.payouts),
    amount_usd: usdText(batch.amountNanos),
    paid_usd: usdText(batch.paidNanos),
    prepared_by: batch.preparedBy,
    prepared_at: batch.preparedAt.toISOString(),
    approved_by: batch.approvedBy,
    approved_at: batch.approvedAt?.toISOString() ?? null,
  }
}
