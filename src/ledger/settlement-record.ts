import type { Settlement } from './settlement.ts'

/**
 * A settlement as it lies in the journal and is sent to PostgreSQL: a JSON object in the names of the type settlement_asked of
 * migrations/0002_money.sql, with integers of money as text, and without what is null. The version comes first, so that an upgrade can
 * read what is left.
 */
export function encodeSettlement(settlement: Settlement): string {
  return storable(JSON.stringify(recordOf(settlement)))
}

/** A batch as `LedgerStore.settle` takes it. */
export function encodeSettlements(settlements: readonly Settlement[]): Buffer {
  return Buffer.from(`[${settlements.map(encodeSettlement).join(',')}]`)
}

/** Throws when the record is of another version, or no record at all. */
export function decodeSettlement(text: string): Settlement {
  return settlementOf(text.startsWith('{') ? JSON.parse(text) : {})
}

export function decodeSettlements(batch: Buffer): Settlement[] {
  return JSON.parse(batch.toString()).map(settlementOf)
}

/** Integers of money are text; what is undefined is left out. */
type SettlementRecord = ReturnType<typeof recordOf>

function recordOf(settlement: Settlement) {
  const { price } = settlement
  return {
    v: VERSION,
    request: settlement.requestId,
    customer: settlement.customerId,
    lease: settlement.leaseId,
    key: settlement.keyId,
    started_ms: settlement.startedAtEpochMs,
    model: settlement.modelId,
    provider: settlement.provider,
    endpoint: settlement.endpointId ?? undefined,
    hoster: settlement.hosterId ?? undefined,
    input_tokens: settlement.inputTokens,
    output_tokens: settlement.outputTokens,
    reported_input_tokens: settlement.reportedInputTokens ?? undefined,
    reported_output_tokens: settlement.reportedOutputTokens ?? undefined,
    counted_input_tokens: settlement.countedInputTokens ?? undefined,
    counted_output_tokens: settlement.countedOutputTokens ?? undefined,
    usage_source: settlement.usageSource,
    input_price: price.inputPicoPerToken.toString(),
    output_price: price.outputPicoPerToken.toString(),
    price_version: settlement.priceVersion ?? undefined,
    hold: settlement.holdNanos.toString(),
    cost: settlement.costNanos.toString(),
    hoster_share: settlement.hosterShareNanos.toString(),
    fee: settlement.feeNanos.toString(),
    writeoff: settlement.writeoffNanos.toString(),
    latency_ms: settlement.latencyMs,
    first_token_ms: settlement.firstTokenMs ?? undefined,
    success: settlement.success,
    outcome: settlement.outcome,
    finish_reason: settlement.finishReason ?? undefined,
    attempts: settlement.attempts,
    routing: settlement.routing ?? undefined,
  }
}

function settlementOf(record: SettlementRecord): Settlement {
  if (record.v !== VERSION) {
    throw new Error(
      'The journal was written by a version of Switchyard that this one cannot read. Start that version once more, let it stop by itself, then upgrade.',
    )
  }
  return {
    requestId: record.request,
    customerId: record.customer,
    leaseId: record.lease,
    keyId: record.key,
    startedAtEpochMs: record.started_ms,
    modelId: record.model,
    provider: record.provider,
    endpointId: record.endpoint ?? null,
    hosterId: record.hoster ?? null,
    inputTokens: record.input_tokens,
    outputTokens: record.output_tokens,
    reportedInputTokens: record.reported_input_tokens ?? null,
    reportedOutputTokens: record.reported_output_tokens ?? null,
    countedInputTokens: record.counted_input_tokens ?? null,
    countedOutputTokens: record.counted_output_tokens ?? null,
    usageSource: record.usage_source,
    price: { inputPicoPerToken: BigInt(record.input_price), outputPicoPerToken: BigInt(record.output_price) },
    priceVersion: record.price_version ?? null,
    holdNanos: BigInt(record.hold),
    costNanos: BigInt(record.cost),
    hosterShareNanos: BigInt(record.hoster_share),
    feeNanos: BigInt(record.fee),
    writeoffNanos: BigInt(record.writeoff),
    latencyMs: record.latency_ms,
    firstTokenMs: record.first_token_ms ?? null,
    success: record.success,
    outcome: record.outcome,
    finishReason: record.finish_reason ?? null,
    attempts: record.attempts,
    routing: record.routing ?? null,
  }
}

const VERSION = 3

/** As JSON that PostgreSQL takes. The wire lets no NUL and no half of a surrogate pair through; should one come all the same, the charge counts more. */
function storable(json: string): string {
  if (!mayBeRefused.test(json)) return json
  return json.replace(/\\\\|\\u(?:0000|d[89a-f][0-9a-f]{2})/g, found => (found === '\\\\' ? found : '\\ufffd'))
}

/** Of surrogates JSON.stringify escapes only those without their other half. */
const mayBeRefused = /\\u(?:0000|d[89a-f])/
