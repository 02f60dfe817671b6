import type { Attempt, Hold, Outcome } from '../../../base/domain/handoff.ts'
import type { PricedPart, TokenPrice } from '../../../base/domain/money.ts'
import type { ProviderKind } from '../../../base/domain/offer.ts'
import type { PriceGroupName } from '../../../base/domain/price-group.ts'
import type { RoutingNote } from '../../../base/domain/routing-note.ts'
import { readAttempts, type StoredAttempts, storeAttempts } from '../../../base/domain/stored-attempts.ts'
import { quoted } from '../array-literal.ts'

/**
 * How an admitted request ended. Costs are final, except that the ledger lowers a cost that the lease does
 * not cover.
 */
export interface Settlement {
  readonly requestId: string
  /** The lease of the hold, which is charged. */
  readonly leaseId: string
  readonly customerId: string
  readonly keyId: string
  /** What the request is for, by its header or its key; null for none. */
  readonly label: string | null
  readonly startedAtEpochMs: number
  readonly modelId: string
  readonly provider: ProviderKind | 'none'
  readonly endpointId: string | null
  readonly hosterId: string | null
  /** As billed. */
  readonly inputTokens: number
  readonly outputTokens: number
  readonly reportedInputTokens: number | null
  readonly reportedOutputTokens: number | null
  /** Counted by the gateway. Null when no count was needed. */
  readonly countedInputTokens: number | null
  readonly countedOutputTokens: number | null
  readonly usageSource: 'upstream' | 'gateway' | 'none'
  /** The price of the tokens that `parts` does not name. */
  readonly price: TokenPrice
  /** The billed tokens that have a price of their own, and the request itself where it has one. Null: none. */
  readonly parts: readonly PricedPart[] | null
  /** Billed inside `outputTokens`, as the upstream reported. Null: none, or not reported. */
  readonly reasoningTokens: number | null
  /** Null when the operator's configuration sets the price. */
  readonly priceVersion: number | null
  /** The version of the customer's prices. Null: the price is the same for all customers. */
  readonly priceGroup: PriceGroupName | null
  /** What the server charges the operator. Null: nothing, or it is not known. */
  readonly upstreamCostNanos: bigint | null
  readonly holdNanos: bigint
  readonly costNanos: bigint
  readonly hosterShareNanos: bigint
  readonly feeNanos: bigint
  readonly writeoffNanos: bigint
  /** Whole milliseconds. */
  readonly latencyMs: number
  readonly firstTokenMs: number | null
  readonly success: boolean
  readonly outcome: Outcome
  readonly finishReason: string | null
  readonly attempts: readonly Attempt[]
  /** Null when there was nothing to choose. */
  readonly routing: RoutingNote | null
}

/** Returns the same settlement with nothing charged. Its cost is written off. */
export function voided(settlement: Settlement): Settlement {
  return {
    ...settlement,
    inputTokens: 0,
    outputTokens: 0,
    parts: null,
    reasoningTokens: null,
    costNanos: 0n,
    hosterShareNanos: 0n,
    feeNanos: 0n,
    writeoffNanos: settlement.writeoffNanos + settlement.costNanos,
    success: false,
    outcome: 'internal_error',
  }
}

/** Closes the hold of a settled request. This is the only field of a ticket that changes. */
export function closeHold(hold: Hold): void {
  ;(hold as { isOpen: boolean }).isOpen = false
}

/** Separates the records of a batch. No record contains it. */
export const RECORD_SEPARATOR = '\x1e'

/**
 * Encodes a settlement for the journal and for PostgreSQL: the text of a row of the type settlement_asked of
 * sql/schema.sql. The version comes first, so that another version of Switchyard can recognise the record.
 */
export function encodeSettlement(settlement: Settlement): string {
  // Appended, which is faster than join(). PostgreSQL reads an empty field as NULL.
  let row = `(${VERSION}`
  for (const write of writers) row += `,${write(settlement) ?? ''}`
  return `${row})`
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
  const version = Number(/^\((\d),/.exec(record)?.[1])
  if (!(version >= FIRST_VERSION && version < VERSION) || !record.endsWith(')')) return record
  const added = list.filter(({ since }) => since > version).length
  return `(${VERSION}${record.slice(2, -1)}${','.repeat(added)})`
}

/** Throws when the text is a record of another version, or not a record. */
export function decodeSettlement(record: string): Settlement {
  const [version, ...texts] = Array.from(record.matchAll(fieldPattern), ([, inQuotes, plain]) =>
    inQuotes === undefined ? plain || null : inQuotes.replace(/\\(.)/gs, '$1'),
  )
  if (version !== String(VERSION) || texts.length !== list.length || !record.startsWith('(')) {
    throw new Error(
      'The journal was written by another version of Switchyard, and this version cannot read it. Start that version again, stop it normally, and then upgrade.',
    )
  }
  const row = Object.fromEntries(names.map((name, at) => [name, fields[name].read(texts[at] ?? null)])) as Row
  const { inputPicoPerToken, outputPicoPerToken, readTokens, readPico, writtenTokens, writtenPico, others, ...more } =
    row
  const { groupName, groupVersion, ...rest } = more
  const parts: PricedPart[] = []
  if (readTokens !== null) parts.push({ kind: 'cache_read', tokens: readTokens, picoPerToken: readPico ?? 0n })
  if (writtenTokens !== null)
    parts.push({ kind: 'cache_write', tokens: writtenTokens, picoPerToken: writtenPico ?? 0n })
  if (others !== null) parts.push(...readOtherParts(others))
  return {
    ...rest,
    price: { inputPicoPerToken, outputPicoPerToken },
    priceGroup: groupName === null || groupVersion === null ? null : { name: groupName, version: groupVersion },
    parts: parts.length === 0 ? null : parts,
    attempts: readAttempts(row.attempts, row),
  }
}

export function decodeSettlements(batch: Buffer): Settlement[] {
  return batch.toString().split(RECORD_SEPARATOR).map(decodeSettlement)
}

/** A field of a record: how it is written, and what it is read as. Both get null for NULL. */
interface Field<Value> {
  readonly write: (settlement: Settlement) => string | number | bigint | boolean | null
  readonly read: (text: string | null) => Value
  /** The first version of a record that has it. */
  readonly since: number
}

function field<Value>(read: Field<Value>['read'], write: Field<Value>['write'], since = FIRST_VERSION): Field<Value> {
  return { read, write, since }
}

const VERSION = 8
/** The earliest version that is still read. */
const FIRST_VERSION = 5

const required = <Value>(read: (text: string) => Value) => {
  return (text: string | null): Value => {
    if (text === null) throw new Error('A settlement of the journal lacks a value that every settlement has.')
    return read(text)
  }
}
const optional = <Value>(read: (text: string) => Value) => {
  return (text: string | null): Value | null => (text === null ? null : read(text))
}
const word = required(text => text)
const count = required(Number)
const optionalCount = optional(Number)
const money = required(BigInt)

/**
 * The fields of settlement_asked, in its order. A new field stands at the end, with a new version, and is NULL in the
 * records of the versions before.
 */
const fields = {
  requestId: field(required(ownText), settlement => settlement.requestId),
  customerId: field(word, settlement => settlement.customerId),
  leaseId: field(required(ownText), settlement => settlement.leaseId),
  keyId: field(word, settlement => settlement.keyId),
  startedAtEpochMs: field(count, settlement => settlement.startedAtEpochMs),
  modelId: field(word, settlement => text(settlement.modelId)),
  provider: field(
    required(text => text as Settlement['provider']),
    settlement => settlement.provider,
  ),
  endpointId: field(optionalText, settlement => orNull(text, settlement.endpointId)),
  hosterId: field(optionalText, settlement => settlement.hosterId),
  inputTokens: field(count, settlement => settlement.inputTokens),
  outputTokens: field(count, settlement => settlement.outputTokens),
  reportedInputTokens: field(optionalCount, settlement => settlement.reportedInputTokens),
  reportedOutputTokens: field(optionalCount, settlement => settlement.reportedOutputTokens),
  countedInputTokens: field(optionalCount, settlement => settlement.countedInputTokens),
  countedOutputTokens: field(optionalCount, settlement => settlement.countedOutputTokens),
  usageSource: field(
    required(text => text as Settlement['usageSource']),
    settlement => settlement.usageSource,
  ),
  inputPicoPerToken: field(money, ({ price }) => price.inputPicoPerToken),
  outputPicoPerToken: field(money, ({ price }) => price.outputPicoPerToken),
  priceVersion: field(optionalCount, settlement => settlement.priceVersion),
  holdNanos: field(money, settlement => settlement.holdNanos),
  costNanos: field(money, settlement => settlement.costNanos),
  hosterShareNanos: field(money, settlement => settlement.hosterShareNanos),
  feeNanos: field(money, settlement => settlement.feeNanos),
  writeoffNanos: field(money, settlement => settlement.writeoffNanos),
  latencyMs: field(count, settlement => settlement.latencyMs),
  firstTokenMs: field(optionalCount, settlement => settlement.firstTokenMs),
  success: field(
    required(text => text === 'true'),
    settlement => settlement.success,
  ),
  outcome: field(
    required(text => text as Settlement['outcome']),
    settlement => settlement.outcome,
  ),
  finishReason: field(optionalText, settlement => orNull(text, settlement.finishReason)),
  attempts: field(
    required(text => JSON.parse(text) as StoredAttempts),
    settlement => json(storeAttempts(settlement.attempts, settlement)),
  ),
  routing: field(
    optional(text => JSON.parse(text) as RoutingNote),
    settlement => orNull(json, settlement.routing),
  ),
  readTokens: field(optionalCount, ({ parts }) => partOf(parts, 'cache_read')?.tokens ?? null, 6),
  readPico: field(optional(BigInt), ({ parts }) => partOf(parts, 'cache_read')?.picoPerToken ?? null, 6),
  writtenTokens: field(optionalCount, ({ parts }) => partOf(parts, 'cache_write')?.tokens ?? null, 6),
  writtenPico: field(optional(BigInt), ({ parts }) => partOf(parts, 'cache_write')?.picoPerToken ?? null, 6),
  reasoningTokens: field(optionalCount, settlement => settlement.reasoningTokens, 6),
  others: field(optionalText, ({ parts }) => orNull(otherParts, parts), 6),
  label: field(optionalText, settlement => orNull(text, settlement.label), 7),
  groupName: field(optionalText, settlement => settlement.priceGroup?.name ?? null, 8),
  groupVersion: field(optionalCount, settlement => settlement.priceGroup?.version ?? null, 8),
  upstreamCostNanos: field(optional(BigInt), settlement => settlement.upstreamCostNanos, 8),
}

type Row = { readonly [Name in keyof typeof fields]: ReturnType<(typeof fields)[Name]['read']> }

const names = Object.keys(fields) as (keyof typeof fields)[]
const list: readonly Field<unknown>[] = Object.values(fields)
const writers = list.map(({ write }) => write)

function optionalText(text: string | null): string | null {
  return text
}

function orNull<Value>(write: (value: Value) => string | null, value: Value | null): string | null {
  return value === null ? null : write(value)
}

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
