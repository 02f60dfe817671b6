import { currentRecord, decodeSettlement, type Settlement } from './settlement.ts'

/** What can be read of a settlement in damaged bytes. Any value may be wrong: no checksum matches. */
export interface SalvagedSettlement {
  /** Null when it is not a UUID. */
  readonly requestId: string | null
  readonly customerId: string | null
  /** Null when the record cannot be read as a whole. */
  readonly settlement: Settlement | null
}

/** Reads what damaged bytes of a journal say about the settlements in them. Returns at least one. */
export function salvageSettlements(content: Buffer): SalvagedSettlement[] {
  const found = content.toString().split(recordStart).map(salvage)
  const named = found.filter(({ requestId, customerId }) => requestId !== null || customerId !== null)
  return named.length > 0 ? named : [nothing]
}

function salvage(text: string): SalvagedSettlement {
  const [, requestId, customerId] = recordIds.exec(text) ?? []
  return { requestId: uuidOrNull(requestId), customerId: uuidOrNull(customerId), settlement: decodedOrNull(text) }
}

function decodedOrNull(text: string): Settlement | null {
  try {
    return decodeSettlement(currentRecord(text))
  } catch {
    return null
  }
}

function uuidOrNull(text: string | undefined): string | null {
  return text !== undefined && uuid.test(text) ? text : null
}

const nothing: SalvagedSettlement = { requestId: null, customerId: null, settlement: null }
/** The beginning of a record: its version, then the ids of the request and its customer. */
const recordIds = /\(\d{1,3},([^,]{36}),([^,]{36}),/
const recordStart = /(?=\(\d{1,3},[^,]{36},[^,]{36},)/
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
