import { readAttempts, type StoredAttempts, storeAttempts } from '../../domain/stored-attempts.ts'
import { quoted } from '../array-literal.ts'
import type { Settlement } from './settlement.ts'

/** Separates the records of a batch. No record contains it. */
export const RECORD_SEPARATOR = '\x1e'

/**
 * Encodes a settlement for the journal and for PostgreSQL: the text of a row of the type settlement_asked of
 * migrations/0002_money.sql. The version comes first, so that another version of Switchyard can recognise the
 * record.
 */
export function encodeSettlement(settlement: Settlement): string {
  const { price } = settlement
  // join() turns null into an empty field, which PostgreSQL reads as NULL.
  const row = [
    VERSION,
    settlement.requestId,
    settlement.customerId,
    settlement.leaseId,
    settlement.keyId,
    settlement.startedAtEpochMs,
    text(settlement.modelId),
    settlement.provider,
    settlement.endpointId === null ? null : text(settlement.endpointId),
    settlement.hosterId,
    settlement.inputTokens,
    settlement.outputTokens,
    settlement.reportedInputTokens,
    settlement.reportedOutputTokens,
    settlement.countedInputTokens,
    settlement.countedOutputTokens,
    settlement.usageSource,
    price.inputPicoPerToken,
    price.outputPicoPerToken,
    settlement.priceVersion,
    settlement.holdNanos,
    settlement.costNanos,
    settlement.hosterShareNanos,
    settlement.feeNanos,
    settlement.writeoffNanos,
    settlement.latencyMs,
    settlement.firstTokenMs,
    settlement.success,
    settlement.outcome,
    settlement.finishReason === null ? null : text(settlement.finishReason),
    json(storeAttempts(settlement.attempts, settlement)),
    settlement.routing === null ? null : json(settlement.routing),
  ]
  return `(${row.join()})`
}

/** Encodes a batch for `LedgerStore.settle`. */
export function encodeSettlements(settlements: readonly Settlement[]): Buffer {
  return Buffer.from(settlements.map(encodeSettlement).join(RECORD_SEPARATOR))
}

/** Throws when the text is a record of another version, or not a record. */
export function decodeSettlement(record: string): Settlement {
  const fields = Array.from(record.matchAll(fieldPattern), ([, inQuotes, plain]) =>
    inQuotes === undefined ? plain || null : inQuotes.replace(/\\(.)/gs, '$1'),
  )
  if (!record.startsWith(`(${VERSION},`) || fields.length !== FIELDS) {
    throw new Error(
      'The journal was written by another version of Switchyard, and this version cannot read it. Start that version again, stop it normally, and then upgrade.',
    )
  }
  let at = 1
  const optional = () => fields[at++] ?? null
  const required = () => optional()!
  const number = () => Number(required())
  const optionalNumber = () => {
    const field = optional()
    return field === null ? null : Number(field)
  }
  const money = () => BigInt(required())
  const settlement = {
    requestId: ownText(required()),
    customerId: required(),
    leaseId: ownText(required()),
    keyId: required(),
    startedAtEpochMs: number(),
    modelId: required(),
    provider: required() as Settlement['provider'],
    endpointId: optional(),
    hosterId: optional(),
    inputTokens: number(),
    outputTokens: number(),
    reportedInputTokens: optionalNumber(),
    reportedOutputTokens: optionalNumber(),
    countedInputTokens: optionalNumber(),
    countedOutputTokens: optionalNumber(),
    usageSource: required() as Settlement['usageSource'],
    price: { inputPicoPerToken: money(), outputPicoPerToken: money() },
    priceVersion: optionalNumber(),
    holdNanos: money(),
    costNanos: money(),
    hosterShareNanos: money(),
    feeNanos: money(),
    writeoffNanos: money(),
    latencyMs: number(),
    firstTokenMs: optionalNumber(),
    success: required() === 'true',
    outcome: required() as Settlement['outcome'],
    finishReason: optional(),
    attempts: JSON.parse(required()) as StoredAttempts,
    routing: JSON.parse(optional() ?? 'null'),
  }
  return { ...settlement, attempts: readAttempts(settlement.attempts, settlement) }
}

export function decodeSettlements(batch: Buffer): Settlement[] {
  return batch.toString().split(RECORD_SEPARATOR).map(decodeSettlement)
}

const VERSION = 5
/** Fields of a record, including the version. */
const FIELDS = 32

/** Copies an id that is kept until the commit. A slice would keep the whole record in memory. */
function ownText(id: string): string {
  return Buffer.from(id).toString()
}

/** A field with the character before it. The field is quoted, or plain and possibly empty. */
const fieldPattern = /[(,](?:"((?:[^"\\]|\\.)*)"|([^,()"]*))/gs

/**
 * Replaces characters that PostgreSQL rejects. Request parsing lets none of them through; if one arrives anyway, the
 * charge matters more than the character.
 */
function text(value: string): string {
  if (plainText.test(value)) return `"${value}"`
  return quoted(value.toWellFormed().replaceAll(RECORD_SEPARATOR, '\ufffd'))
}

/** Text that needs no escaping and that PostgreSQL accepts. Nearly all texts are ids of this form. */
const plainText = /^[\w./:@-]+$/

function json(value: object | number): string {
  if (typeof value === 'number') return String(value)
  const encoded = JSON.stringify(value)
  // JSON text has no control characters, so encoding it as a JSON string gives the quoted form of a row.
  return JSON.stringify(mayBeRefused.test(encoded) ? encoded.replace(refused, withoutHalves) : encoded)
}

/** JSON.stringify escapes a surrogate only when its other half is missing. */
const mayBeRefused = /\\u(?:0000|d[89a-f])/
const refused = /\\\\|\\u(?:0000|d[89a-f][0-9a-f]{2})/g
const withoutHalves = (found: string) => (found === '\\\\' ? found : '\\ufffd')
