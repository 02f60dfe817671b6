import { usdText } from '../../base/domain/money.ts'
import { csvRecord } from '../../base/runtime/csv.ts'
import type { EarningsLine } from './earnings.ts'

/** Returns the lines of a statement as CSV. Amounts are USD, exact to the nano-USD. */
export function statementCsv(lines: readonly EarningsLine[]): string {
  const records = lines.map(line =>
    csvRecord([
      line.day,
      line.modelId,
      ...[line.requests, line.inputTokens, line.outputTokens].map(count => ({ decimal: String(count) })),
      ...[line.grossNanos, line.shareNanos, line.feeNanos, line.refundedNanos, line.refundedShareNanos].map(nanos => ({
        decimal: usdText(nanos),
      })),
    ]),
  )
  return [csvRecord(columns), ...records].join('')
}

const columns = [
  'day',
  'model',
  'requests',
  'input_tokens',
  'output_tokens',
  'gross_usd',
  'share_usd',
  'fee_usd',
  'refunded_usd',
  'refunded_share_usd',
]
