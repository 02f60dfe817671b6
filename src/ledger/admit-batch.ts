import type { Sql } from '../db/pool.ts'
import type { Admission, AdmissionResult, RefusalCode } from './admission.ts'
import { arrayLiteral, quoted } from './array-literal.ts'

export type AdmissionVerdict =
  | { readonly item: number; readonly kind: 'no_account' }
  | { readonly item: number; readonly kind: 'granted' | 'counted'; readonly result: AdmissionResult }
  | {
      readonly item: number
      readonly kind: 'refused'
      readonly result: Extract<AdmissionResult, { kind: 'refused' }>
      /** By the clock that the windows follow. */
      readonly databaseNowMs: number
    }

/** Decides admissions in one transaction; `item` is the index in `admissions`. `windowNowMs` replaces PostgreSQL's clock. */
export async function admitBatch(
  db: Sql,
  nodeId: string,
  windowNowMs: number | null,
  admissions: readonly Admission[],
): Promise<AdmissionVerdict[]> {
  const { rows } = await db.query<VerdictRow>(ADMIT_BATCH, [
    nodeId,
    windowNowMs,
    arrayLiteral(admissions, a => a.requestId),
    arrayLiteral(admissions, a => a.customerId),
    arrayLiteral(admissions, a => a.keyId),
    arrayLiteral(admissions, a => quoted(a.modelId)),
    arrayLiteral(admissions, a => a.limits.requestsPerMinute),
    arrayLiteral(admissions, a => a.limits.requestsPerDay),
    arrayLiteral(admissions, a => a.limits.dailySpendCapNanos),
    arrayLiteral(admissions, a => (a.hold === null ? null : a.hold.wantNanos)),
    arrayLiteral(admissions, a => (a.hold === null ? null : a.hold.floorNanos)),
  ])
  return rows.map(verdictOf)
}

const ADMIT_BATCH = {
  name: 'admit_batch',
  text: 'SELECT * FROM admit_batch($1, to_timestamp($2::float8 / 1000), $3, $4, $5, $6, $7, $8, $9, $10, $11)',
}

interface VerdictRow {
  readonly item: number
  readonly verdict: RefusalCode | 'granted' | 'counted' | 'no_account'
  readonly held: bigint | null
  readonly posted: bigint
  readonly free: bigint
  readonly cap_left: bigint
  readonly minute_used: number
  readonly day_used: number
  readonly minute_ends_ms: number
  readonly day_ends_ms: number
  readonly now_ms: number
}

function verdictOf(row: VerdictRow): AdmissionVerdict {
  const item = row.item - 1
  const { verdict } = row
  if (verdict === 'no_account') return { item, kind: verdict }
  const windows = {
    minuteUsed: row.minute_used,
    dayUsed: row.day_used,
    minuteEndsAtEpochMs: row.minute_ends_ms,
    dayEndsAtEpochMs: row.day_ends_ms,
  }
  if (verdict === 'counted') return { item, kind: verdict, result: { kind: verdict, windows } }
  if (verdict === 'granted') return { item, kind: verdict, result: { kind: verdict, heldNanos: row.held!, windows } }
  const result = {
    kind: 'refused',
    code: verdict,
    postedNanos: row.posted,
    freeNanos: row.free,
    capLeftNanos: row.cap_left,
    windows,
  } as const
  return { item, kind: 'refused', result, databaseNowMs: row.now_ms }
}
