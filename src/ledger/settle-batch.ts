import type { Sql } from '../db/pool.ts'
import { arrayLiteral, quoted } from './array-literal.ts'
import type { Settlement } from './settlement.ts'

/** What came of a settlement that did not go exactly as asked; see settle_batch in migrations/0002_money.sql. */
export type SettleEffect = 'duplicate' | 'clamped' | 'late' | 'written_off' | 'no_account'

/** Settles in one transaction. Returns the effect by request id for the exceptions only; all others were done as asked. */
export async function settleBatch(
  db: Sql,
  nodeShard: number,
  settlements: readonly Settlement[],
): Promise<Map<string, SettleEffect>> {
  const { rows } = await db.query<{ odd_request: string; effect: SettleEffect }>(SETTLE_BATCH, [
    nodeShard,
    arrayLiteral(settlements, s => s.requestId),
    arrayLiteral(settlements, s => s.customerId),
    arrayLiteral(settlements, s => s.keyId),
    arrayLiteral(settlements, s => s.startedAtEpochMs),
    arrayLiteral(settlements, s => quoted(s.modelId)),
    arrayLiteral(settlements, s => s.provider),
    arrayLiteral(settlements, s => (s.endpointId === null ? null : quoted(s.endpointId))),
    arrayLiteral(settlements, s => s.hosterId),
    arrayLiteral(settlements, s => s.inputTokens),
    arrayLiteral(settlements, s => s.outputTokens),
    arrayLiteral(settlements, s => s.reportedInputTokens),
    arrayLiteral(settlements, s => s.reportedOutputTokens),
    arrayLiteral(settlements, s => s.usageSource),
    arrayLiteral(settlements, s => s.price.inputPicoPerToken),
    arrayLiteral(settlements, s => s.price.outputPicoPerToken),
    arrayLiteral(settlements, s => s.holdNanos),
    arrayLiteral(settlements, s => s.costNanos),
    arrayLiteral(settlements, s => s.hosterShareNanos),
    arrayLiteral(settlements, s => s.feeNanos),
    arrayLiteral(settlements, s => s.writeoffNanos),
    arrayLiteral(settlements, s => s.latencyMs),
    arrayLiteral(settlements, s => s.firstTokenMs),
    arrayLiteral(settlements, s => s.success),
    arrayLiteral(settlements, s => s.outcome),
    arrayLiteral(settlements, s => (s.finishReason === null ? null : quoted(s.finishReason))),
    // JSON escapes control characters, and \u0000, which jsonb rejects, cannot be in names we configured.
    JSON.stringify(settlements.map(s => s.attempts)),
  ])
  return new Map(rows.map(row => [row.odd_request, row.effect]))
}

const SETTLE_BATCH = {
  name: 'settle_batch',
  text: `SELECT * FROM settle_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
    $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)`,
}
