import type { Sql } from '../../base/db/pool.ts'
import type { Attempt, Outcome } from '../../base/domain/handoff.ts'
import { type Nanos, nanosOfPicos, type PricedPart, usd, usdPerMillion } from '../../base/domain/money.ts'
import { type ProviderKind, splitOfferId } from '../../base/domain/offer.ts'
import type { NotedPrice, RoutingNote } from '../../base/domain/routing-note.ts'
import { readAttempts, type StoredAttempts } from '../../base/domain/stored-attempts.ts'
import type { RequestReceipt } from '../../wire/api/activity.ts'
import { describeAuto } from '../../wire/api/auto-note.ts'
import { explainCandidates } from './explain-candidates.ts'

/** Reads everything known about one request of this customer; null when the customer has no such request. */
export async function readReceipt(sql: Sql, customerId: string, requestId: string): Promise<RequestReceipt | null> {
  const row = await readRow(sql, customerId, requestId)
  if (row === null) return null
  const served = { endpointId: row.endpoint_id, provider: row.provider, modelId: row.model_id }
  const attempts = readAttempts(row.attempts, served)
  const hosters = await readHosters(sql, endpointIdsOf(row.routing, attempts))
  const nameOf = (endpointId: string) => hosters.get(endpointId) ?? { hosterId: null, name: null }
  const { constraints, sources, clamp } = row.routing ?? {}
  return {
    object: 'usage.receipt',
    id: row.request_id,
    started_at: row.started_at.toISOString(),
    key: row.key_id === null ? null : { id: row.key_id, name: row.key_name, hint: row.key_hint },
    trace_id: row.routing?.traceId ?? null,
    has_content: row.has_content,
    label: row.label,
    model: row.model_id,
    requested_model: row.routing?.model ?? row.model_id,
    success: row.success,
    outcome: row.outcome,
    finish_reason: row.finish_reason,
    client_disconnected: row.outcome === 'client_gone',
    latency_ms: row.latency_ms,
    first_token_ms: row.first_token_ms,
    credit_wait_ms: row.routing?.creditWaitedMs ?? 0,
    served_by:
      row.endpoint_id === null || row.provider === 'none'
        ? null
        : {
            provider: row.provider,
            endpoint: row.endpoint_id,
            hoster_id: row.hoster_id,
            hoster_name: row.hoster_name,
          },
    price: {
      group: row.price_group === null ? null : { name: row.price_group, version: row.price_group_version },
      version: row.price_version,
      input_usd_per_million: usdPerMillion(row.input_pico_per_token),
      output_usd_per_million: usdPerMillion(row.output_pico_per_token),
    },
    tokens: {
      source: row.usage_source,
      billed: { input: row.input_tokens, output: row.output_tokens },
      counted: { input: row.counted_input_tokens, output: row.counted_output_tokens },
      reported: { input: row.reported_input_tokens, output: row.reported_output_tokens },
      parts: partsOf(row),
      reasoning: row.reasoning_tokens,
    },
    dropped_fields: [...(row.routing?.droppedFields ?? [])],
    changed_fields: [...(row.routing?.changedFields ?? [])],
    schema_violation: row.routing?.schemaViolation ?? null,
    hold_usd: usd(row.hold_nanos),
    cost_usd: usd(row.cost_nanos),
    platform_fee_usd: usd(row.fee_nanos),
    hoster_share_usd: usd(row.hoster_share_nanos),
    written_off_usd: usd(row.writeoff_nanos),
    ledger: ledgerOf(row),
    refunds: refundsOf(row),
    policy: {
      tier: constraints?.tier ?? 'balanced',
      privacy_mode: constraints?.privacy_mode ?? false,
      trusted_only: constraints?.trusted_only ?? false,
      max_latency_ms: constraints?.max_latency_ms ?? null,
      fallback_models: [...(constraints?.fallback_models ?? [])],
      allow_hosters: constraints?.allow_hosters ? [...constraints.allow_hosters] : null,
      deny_hosters: [...(constraints?.deny_hosters ?? [])],
      max_cost_usd: constraints?.max_cost_nanos === undefined ? null : usd(BigInt(constraints.max_cost_nanos)),
      max_input_usd_per_million: constraints?.max_input_usd_per_million ?? null,
      max_output_usd_per_million: constraints?.max_output_usd_per_million ?? null,
      sources: { ...sources },
    },
    auto: row.routing?.auto === undefined ? null : describeAuto(row.routing.auto),
    price_check: row.routing?.price === undefined ? null : checkPrice(row.routing.price),
    max_tokens_clamp: clamp === undefined ? null : { asked: clamp.asked, allowed: clamp.allowed, by: clamp.by },
    attempts: attempts.map(({ offerId, endpointId, provider, outcome, elapsedMs }) => ({
      model: splitOfferId(offerId).modelId,
      provider,
      endpoint: endpointId,
      hoster_id: nameOf(endpointId).hosterId,
      hoster_name: nameOf(endpointId).name,
      outcome,
      elapsed_ms: Math.round(elapsedMs),
    })),
    candidates: explainCandidates(row.routing, attempts).map(({ model, provider, endpointId, ...why }) => ({
      model,
      provider,
      endpoint: endpointId,
      hoster_id: nameOf(endpointId).hosterId,
      hoster_name: nameOf(endpointId).name,
      ...why,
    })),
    candidates_left_out: row.routing?.leftOut ?? 0,
  }
}

function checkPrice({ limitPercent, cheapestPicos, servedPicos }: NotedPrice): RequestReceipt['price_check'] {
  const [cheapest, served] = [BigInt(cheapestPicos), BigInt(servedPicos)]
  return {
    limit_percent: limitPercent,
    cheapest_usd: usd(nanosOfPicos(cheapest)),
    served_usd: usd(nanosOfPicos(served)),
    kept: served * 100n <= cheapest * BigInt(limitPercent),
  }
}

interface ReceiptRow {
  readonly request_id: string
  readonly started_at: Date
  readonly key_id: string | null
  readonly key_name: string | null
  readonly key_hint: string | null
  readonly label: string | null
  readonly model_id: string
  readonly provider: ProviderKind | 'none'
  readonly endpoint_id: string | null
  readonly hoster_id: string | null
  readonly hoster_name: string | null
  readonly input_tokens: number
  readonly output_tokens: number
  readonly reported_input_tokens: number | null
  readonly reported_output_tokens: number | null
  readonly counted_input_tokens: number | null
  readonly counted_output_tokens: number | null
  readonly cache_read_tokens: number | null
  readonly cache_read_pico_per_token: bigint | null
  readonly cache_write_tokens: number | null
  readonly cache_write_pico_per_token: bigint | null
  readonly reasoning_tokens: number | null
  readonly other_parts:
    | readonly { readonly kind: PricedPart['kind']; readonly tokens: number; readonly pico_per_token: number }[]
    | null
  readonly usage_source: 'upstream' | 'gateway' | 'none'
  readonly input_pico_per_token: bigint
  readonly output_pico_per_token: bigint
  readonly price_version: number | null
  readonly price_group: string | null
  readonly price_group_version: number
  readonly hold_nanos: Nanos
  readonly cost_nanos: Nanos
  readonly hoster_share_nanos: Nanos
  readonly fee_nanos: Nanos
  readonly writeoff_nanos: Nanos
  readonly latency_ms: number
  readonly first_token_ms: number | null
  readonly success: boolean
  readonly outcome: Outcome
  readonly finish_reason: string | null
  readonly attempts: StoredAttempts
  readonly routing: RoutingNote | null
  readonly has_content: boolean
  readonly customer_id: string
  readonly tx_id: bigint | null
  readonly charged_at: Date | null
  readonly refunded_nanos: Nanos | null
  readonly refund_share_nanos: Nanos
  readonly refund_fee_nanos: Nanos
  readonly refund_reason: string
  readonly refunded_at: Date
  readonly refund_tx_id: bigint
}

/** Returns the billed tokens that have a price of their own. The two usual kinds have columns of their own. */
function partsOf(row: ReceiptRow): RequestReceipt['tokens']['parts'] {
  const parts: RequestReceipt['tokens']['parts'] = []
  const add = (kind: PricedPart['kind'], tokens: number | null, picoPerToken: bigint | null) => {
    if (tokens === null || picoPerToken === null) return
    parts.push({ kind, tokens, usd_per_million: usdPerMillion(picoPerToken) })
  }
  add('cache_read', row.cache_read_tokens, row.cache_read_pico_per_token)
  add('cache_write', row.cache_write_tokens, row.cache_write_pico_per_token)
  for (const { kind, tokens, pico_per_token } of row.other_parts ?? []) add(kind, tokens, BigInt(pico_per_token))
  return parts
}

async function readRow(sql: Sql, customerId: string, requestId: string): Promise<ReceiptRow | null> {
  const { rows } = await sql.query<ReceiptRow>(
    `SELECT u.*, k.name AS key_name, k.hint AS key_hint, h.name AS hoster_name, t.at AS charged_at,
            r.amount_nanos AS refunded_nanos, r.hoster_share_nanos AS refund_share_nanos, r.fee_nanos AS refund_fee_nanos,
            r.reason AS refund_reason, r.at AS refunded_at, r.tx_id AS refund_tx_id,
            EXISTS (SELECT FROM request_content c WHERE c.request_id = u.request_id) AS has_content
       FROM usage_event u
       LEFT JOIN api_key k ON k.key_id = u.key_id
       LEFT JOIN hoster h ON h.hoster_id = u.hoster_id
       LEFT JOIN ledger_tx t ON t.tx_id = u.tx_id
       LEFT JOIN refund r ON r.customer_id = u.customer_id AND r.request_id = u.request_id
      WHERE u.customer_id = $1 AND u.request_id = $2`,
    [customerId, requestId],
  )
  return rows[0] ?? null
}

/**
 * Returns this request's part of the transaction that charged it. One transaction settles a batch, and this
 * customer must not see the entries of other requests. The audit checks that the parts of all rows of a
 * transaction sum to its entries.
 */
function ledgerOf(row: ReceiptRow): RequestReceipt['ledger'] {
  if (row.tx_id === null || row.charged_at === null) return null
  return {
    transaction: row.tx_id.toString(),
    at: row.charged_at.toISOString(),
    entries: entriesOf(row, -row.cost_nanos, row.hoster_share_nanos, row.fee_nanos),
  }
}

/** Returns the refunds of this request: at most one, since a request can be refunded only once. */
function refundsOf(row: ReceiptRow): RequestReceipt['refunds'] {
  if (row.refunded_nanos === null) return []
  return [
    {
      transaction: row.refund_tx_id.toString(),
      at: row.refunded_at.toISOString(),
      reason: row.refund_reason,
      amount_usd: usd(row.refunded_nanos),
      entries: entriesOf(row, row.refunded_nanos, -row.refund_share_nanos, -row.refund_fee_nanos),
    },
  ]
}

function entriesOf({ customer_id, hoster_id }: ReceiptRow, customer: Nanos, hoster: Nanos, platform: Nanos) {
  const entries = [
    { account_kind: 'customer' as const, account_id: customer_id, nanos: customer },
    { account_kind: 'hoster_payable' as const, account_id: hoster_id, nanos: hoster },
    { account_kind: 'platform_revenue' as const, account_id: null, nanos: platform },
  ]
  return entries
    .filter(({ nanos }) => nanos !== 0n)
    .map(({ nanos, ...entry }) => ({ ...entry, amount_usd: usd(nanos) }))
}

/** Returns the endpoint ids of the hosters on the receipt. */
function endpointIdsOf(routing: RoutingNote | null, attempts: readonly Attempt[]): string[] {
  const offers = [...(routing?.ranked ?? []), ...(routing?.excluded ?? [])]
  const hosted = offers
    .filter(({ provider }) => provider === 'hoster')
    .map(({ offerId }) => splitOfferId(offerId).endpointId)
  const tried = attempts.filter(({ provider }) => provider === 'hoster').map(({ endpointId }) => endpointId)
  return [...new Set([...hosted, ...tried])]
}

async function readHosters(sql: Sql, endpointIds: string[]): Promise<Map<string, { hosterId: string; name: string }>> {
  if (endpointIds.length === 0) return new Map()
  const { rows } = await sql.query<{ endpoint_id: string; hoster_id: string; name: string }>(
    `SELECT e.endpoint_id, h.hoster_id, h.name
       FROM hoster_endpoint e
       JOIN hoster h USING (hoster_id)
      WHERE e.endpoint_id = ANY ($1)`,
    [endpointIds],
  )
  return new Map(rows.map(row => [row.endpoint_id, { hosterId: row.hoster_id, name: row.name }]))
}
