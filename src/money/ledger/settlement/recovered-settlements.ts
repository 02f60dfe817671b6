import { currentRecord, decodeSettlement, type Settlement } from './settlement.ts'

/** A record that a journal still held when it was opened. */
export interface RecoveredRecord {
  readonly payload: Buffer
  /** Call it when the record is settled. */
  forget(): void
}

export interface RecoveredSettlement {
  readonly settlement: Settlement
  readonly record: string
  readonly forget: () => void
}

/**
 * Returns the settlements to replay, one per request: a later record of a request replaces the one before it. Throws
 * when a record is of another version, except the previous one.
 */
export function recoveredSettlements(recovered: readonly RecoveredRecord[]): RecoveredSettlement[] {
  const lastOf = new Map<string, RecoveredSettlement>()
  for (const { payload, forget } of recovered) {
    const record = currentRecord(payload.toString())
    const settlement = decodeSettlement(record)
    const { requestId } = settlement
    lastOf.get(requestId)?.forget()
    lastOf.set(requestId, { settlement, record, forget })
  }
  return Array.from(lastOf.values())
}
