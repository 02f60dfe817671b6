import type { PricedPart } from '../../../base/domain/money.ts'
import { readAttempts, type StoredAttempts, storeAttempts } from '../../../base/domain/stored-attempts.ts'
import { quoted } from '../array-literal.ts'
import type { Settlement } from './settlement.ts'

/** Separates the records of a batch. No record contains it. */
export const RECORD_SEPARATOR = '\x1e'

/**
 * Encodes a settlement for the journal and for PostgreSQL: the text of a row of the type settlement_asked of
 * sql/schema.sql. The version comes first, so that another version of Switchyard can recognise the record.
 */
export function encodeSettlement(settlement: Settlement): string {
  const { price, parts } = settlement
  const read = partOf(parts, 'cache_read')
  const written = partOf(parts, 'cache_write')
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
    read?.tokens,
    read?.picoPerToken,
    written?.tokens,
    written?.picoPerToken,
    settlement.reasoningTokens,
    parts === null ? null : otherParts(parts),
    settlement.label === null ? null : text(settlement.label),
  ]
  return `(${row.join()})`
}

/** Encodes a batch for `LedgerStore.settle`. */
export function encodeSettlements(settlements: readonly Settlement[]): Buffer {
  return Buffer.from(settlements.map(encodeSettlement).join(RECORD_SEPARATOR))
}

/**
 * Returns a record of an earlier version as one of this version, so that an upgrade settles what a killed process
 * left in its journal. Any other text is returned as it is.
 */
export function currentRecord(record: string): string {
  const fields = FIELDS_OF[record.slice(0, 3)]
  if (fields === undefined || !record.endsWith(')')) return record
  return `(${VERSION}${record.slice(2, -1)}${','.repeat(FIELDS - fields)})`
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
  const [read, readPico, written, writtenPico, reasoning, others, label] = Array.from({ length: 7 }, optional)
  const parts: PricedPart[] = []
  if (read != null) parts.push({ kind: 'cache_read', tokens: Number(read), picoPerToken: BigInt(readPico!) })
  if (written != null) parts.push({ kind: 'cache_write', tokens: Number(written), picoPerToken: BigInt(writtenPico!) })
  if (others != null) parts.push(...readOtherParts(others))
  return {
    ...settlement,
    label: label ?? null,
    parts: parts.length === 0 ? null : parts,
    reasoningTokens: reasoning == null ? null : Number(reasoning),
    attempts: readAttempts(settlement.attempts, settlement),
  }
}

export function decodeSettlements(batch: Buffer): Settlement[] {
  return batch.toString().split(RECORD_SEPARATOR).map(decodeSettlement)
}

const VERSION = 7
/** Fields of a record, including the version. */
const FIELDS = 39
/** Fields of a record of an earlier version, by its first characters. */
const FIELDS_OF: Readonly<Record<string, number>> = { '(5,': 32, '(6,': 38 }

function partOf(parts: Settlement['parts'], kind: PricedPart['kind']): PricedPart | undefined {
  return parts?.find(part => part.kind === kind)
}

/** The parts that are too rare for columns of their own. Their prices are below 2^53. */
function otherParts(parts: readonly PricedPart[]): string | null {
  const others = parts.filter(({ kind }) => kind !== 'cache_read' && kind !== 'cache_write')
  if (others.length === 0) return null
  return json(others.map(({ kind, tokens, picoPerToken }) => ({ kind, tokens, pico_per_token: Number(picoPerToken) })))
}

function readOtherParts(text: string): PricedPart[] {
  const parts: { kind: PricedPart['kind']; tokens: number; pico_per_token: number }[] = JSON.parse(text)
  return parts.map(({ kind, tokens, pico_per_token }) => ({ kind, tokens, picoPerToken: BigInt(pico_per_token) }))
}

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
