import { quoted } from '../array-literal.ts'
import type { Settlement } from './settlement.ts'

/** Between the records of a batch. None of them has one inside. */
export const RECORD_SEPARATOR = '\x1e'

/**
 * A settlement as it lies in the journal and is sent to PostgreSQL: the text of a row of the type settlement_asked of
 * migrations/0002_money.sql. The version comes first, so that an upgrade can read what is left.
 */
export function encodeSettlement(settlement: Settlement): string {
  const { price } = settlement
  // What is null joins as nothing, which is how a row writes NULL.
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
    json(settlement.attempts),
    settlement.routing === null ? null : json(settlement.routing),
  ]
  return `(${row.join()})`
}

/** A batch as `LedgerStore.settle` takes it. */
export function encodeSettlements(settlements: readonly Settlement[]): Buffer {
  return Buffer.from(settlements.map(encodeSettlement).join(RECORD_SEPARATOR))
}

/** Throws when the record is of another version, or no record at all. */
export function decodeSettlement(record: string): Settlement {
  const fields = Array.from(record.matchAll(fieldPattern), ([, inQuotes, plain]) =>
    inQuotes === undefined ? plain || null : inQuotes.replace(/\\(.)/gs, '$1'),
  )
  if (!record.startsWith(`(${VERSION},`) || fields.length !== FIELDS) {
    throw new Error(
      'The journal was written by a version of Switchyard that this one cannot read. Start that version once more, let it stop by itself, then upgrade.',
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
  return {
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
    attempts: JSON.parse(required()),
    routing: JSON.parse(optional() ?? 'null'),
  }
}

export function decodeSettlements(batch: Buffer): Settlement[] {
  return batch.toString().split(RECORD_SEPARATOR).map(decodeSettlement)
}

const VERSION = 4
/** The version among them. */
const FIELDS = 32

/** A copy: what is cut out of a record keeps all of it in memory, and these two are kept until the commit. */
function ownText(id: string): string {
  return Buffer.from(id).toString()
}

/** A field and the sign before it: in quotes, or plain and perhaps nothing. */
const fieldPattern = /[(,](?:"((?:[^"\\]|\\.)*)"|([^,()"]*))/gs

/** The wire lets none of what is replaced here through; should it come all the same, the charge counts more than the sign. */
function text(value: string): string {
  if (plainText.test(value)) return `"${value}"`
  return quoted(value.toWellFormed().replaceAll(RECORD_SEPARATOR, '\ufffd'))
}

/** Nothing that means anything to a row, or is refused by PostgreSQL: ids, nearly always. */
const plainText = /^[\w./:@-]+$/

function json(value: object): string {
  const encoded = JSON.stringify(value)
  // JSON has no control characters, so that JSON of it is what a row has in quotes.
  return JSON.stringify(mayBeRefused.test(encoded) ? encoded.replace(refused, withoutHalves) : encoded)
}

/** Of surrogates JSON.stringify escapes only those without their other half. */
const mayBeRefused = /\\u(?:0000|d[89a-f])/
const refused = /\\\\|\\u(?:0000|d[89a-f][0-9a-f]{2})/g
const withoutHalves = (found: string) => (found === '\\\\' ? found : '\\ufffd')
