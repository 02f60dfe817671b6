import { arrayLiteral, quoted } from './array-literal.ts'
import type { Admission, AdmissionResult, RefusalCode } from './ledger.ts'
import type { Queryable } from './queryable.ts'

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
  db: Queryable,
  nodeId: string,
  windowNowMs: number | null,
  admissions: readonly Admission[],
): Promise<AdmissionVerdict[]> {
  const { rows } = await db.query({
    name: 'admit_batch',
    text: 'SELECT * FROM admit_batch($1, to_timestamp($2::float8 / 1000), $3, $4, $5, $6, $7, $8, $9, $10, $11)',
    rowMode: 'array',
    query_timeout: QUERY_TIMEOUT_MS,
    values: [
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
    ],
  })
  return (rows as VerdictRow[]).map(verdictOf)
}

const QUERY_TIMEOUT_MS = 4_000

type VerdictRow = [
  item: number,
  verdict: RefusalCode | 'granted' | 'counted' | 'no_account',
  held: string | null,
  posted: string,
  free: string,
  capLeft: string,
  minuteUsed: number,
  dayUsed: number,
  minuteEndsAtEpochMs: number,
  dayEndsAtEpochMs: number,
  nowEpochMs: number,
]

function verdictOf(row: VerdictRow): AdmissionVerdict {
  const item = row[0] - 1
  const verdict = row[1]
  if (verdict === 'no_account') return { item, kind: verdict }
  const windows = { minuteUsed: row[6], dayUsed: row[7], minuteEndsAtEpochMs: row[8], dayEndsAtEpochMs: row[9] }
  if (verdict === 'counted') return { item, kind: verdict, result: { kind: verdict, windows } }
  if (verdict === 'granted')
    return { item, kind: verdict, result: { kind: verdict, heldNanos: BigInt(row[2]!), windows } }
  const result = {
    kind: 'refused',
    code: verdict,
    postedNanos: BigInt(row[3]),
    freeNanos: BigInt(row[4]),
    capLeftNanos: BigInt(row[5]),
    windows,
  } as const
  return { item, kind: 'refused', result, databaseNowMs: row[10] }
}
