import { expect } from 'vitest'
import { parseUsd, usd } from '../../src/base/domain/money.ts'
import type { ListedRequest, RequestPage, RequestReceipt } from '../../src/wire/api/activity.ts'
import type { Credits, CreditTransactions } from '../../src/wire/api/credits.ts'
import type { KeyReport } from '../../src/wire/api/keys.ts'
import type { TokenUsageReport, UsageBreakdown } from '../../src/wire/api/reports.ts'
import type { TestApp, TestCustomer } from '../harness/app.ts'
import { parseCsv } from './parse-csv.ts'

/** Facts about a request from its own answer. */
export interface AnswerFacts {
  readonly requestId: string
  readonly costNanos: bigint
  /** The value in the header when `max_tokens` was lowered. */
  readonly maxTokens: number | null
}

export interface AccountOfHistory {
  readonly gateway: TestApp
  readonly keys: readonly TestCustomer[]
  readonly grantedNanos: bigint
  /** One for each answered request, without replayed answers. */
  readonly answers: readonly AnswerFacts[]
  readonly refunds: ReadonlyMap<string, bigint>
}

/**
 * Compares all figures about one customer's money: answers, list, receipts, CSV, reports by hour, day, model
 * and key, credit, statement and ledger. Fails when two of them differ by a nano-USD. No other customer may
 * use the gateway during the check.
 */
export async function checkAccount({ gateway, keys, grantedNanos, answers, refunds }: AccountOfHistory): Promise<void> {
  const [customer] = keys as [TestCustomer]
  const get = async <Body>(path: string, key = customer): Promise<Body> => {
    const response = await gateway.get(key, path)
    expect([path, response.status]).toEqual([path, 200])
    return (await response.json()) as Body
  }
  const rows = await listAll(get)
  const receipts = await Promise.all(rows.map(({ id }) => get<RequestReceipt>(`/v1/usage/requests/${id}`)))
  const spent = sum(receipts, ({ cost_usd }) => nanosOf(cost_usd))
  const refunded = sum(receipts, ({ refunds }) => sum(refunds, ({ amount_usd }) => nanosOf(amount_usd)))

  receipts.forEach((receipt, index) => {
    expectSameRequest(rows[index]!, receipt)
    expectArithmetic(receipt)
    expect([receipt.id, sum(receipt.refunds, refund => nanosOf(refund.amount_usd))]).toEqual([
      receipt.id,
      refunds.get(receipt.id) ?? 0n,
    ])
  })
  const byId = new Map(receipts.map(receipt => [receipt.id, receipt]))
  for (const { requestId, costNanos, maxTokens } of answers) {
    const receipt = byId.get(requestId)!
    const isClamped = receipt.max_tokens_clamp?.allowed ?? null
    expect([requestId, nanosOf(receipt.cost_usd), isClamped]).toEqual([requestId, costNanos, maxTokens])
    if (maxTokens !== null) expect(receipt.tokens.billed.output).toBeLessThanOrEqual(maxTokens)
  }
  const charged = receipts.filter(({ cost_usd }) => cost_usd > 0).map(({ id }) => id)
  expect(charged.filter(id => !answers.some(({ requestId }) => requestId === id))).toEqual([])

  expectSameCsv(rows, parseCsv(await (await gateway.get(customer, '/v1/usage/export?days=2')).text()).slice(1))
  const totals = {
    requests: rows.length,
    input_tokens: count(rows, row => row.input_tokens),
    output_tokens: count(rows, row => row.output_tokens),
    total_tokens: count(rows, row => row.total_tokens),
    cost_usd: usd(spent),
    refunded_usd: usd(refunded),
  }
  for (const interval of ['hour', 'day'])
    expect((await get<TokenUsageReport>(`/v1/usage/tokens?days=2&interval=${interval}`)).totals).toEqual(totals)
  const { usage_30d } = await get<{ usage_30d: object }>('/v1/usage')
  expect(usage_30d).toMatchObject({ total_requests: rows.length, refunded_usd: usd(refunded) })
  const breakdown = await get<UsageBreakdown>('/v1/usage/breakdown?days=2')
  expectSameModels(receipts, breakdown)

  for (const key of keys) {
    const report = await get<KeyReport>('/v1/key', key)
    const used = sum(receipts, receipt => (receipt.key!.id === report.id ? nanosOf(receipt.cost_usd) : 0n))
    expect(nanosOf(report.usage.total_usd)).toBe(used)
    if (report.limit_usd === null) continue
    expect(nanosOf(report.limit_remaining_usd!)).toBe(nanosOf(report.limit_usd) - used)
  }
  const balance = usd(grantedNanos - spent + refunded)
  expect(await get<Credits>('/v1/credits')).toEqual({
    balance_usd: balance,
    granted_usd: usd(grantedNanos),
    spent_usd: usd(spent),
    refunded_usd: usd(refunded),
    debt_usd: 0,
    held_usd: 0,
  })
  const statement = await get<CreditTransactions>('/v1/credits/transactions?limit=100')
  expect(usd(sum(statement.data, ({ amount_usd }) => nanosOf(amount_usd)))).toBe(balance)
  expect(count(statement.data, ({ requests }) => requests ?? 0)).toBe(spent > 0n ? rows.length : 0)
  const refundLines = statement.data.filter(({ kind }) => kind === 'refund')
  expect(new Map(refundLines.map(line => [line.request_id!, nanosOf(line.amount_usd)]))).toEqual(refunds)

  expect(entriesOf(receipts)).toEqual(await readEntries(gateway, customer))
}

async function listAll(get: <Body>(path: string) => Promise<Body>): Promise<ListedRequest[]> {
  const rows: ListedRequest[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: RequestPage = await get(`/v1/usage/requests?limit=7${cursor === '' ? '' : `&cursor=${cursor}`}`)
    rows.push(...page.data)
    cursor = page.next_cursor
  }
  return rows
}

function expectSameRequest(row: ListedRequest, receipt: RequestReceipt): void {
  const { input, output } = receipt.tokens.billed
  expect(row).toEqual({
    id: receipt.id,
    started_at: receipt.started_at,
    label: receipt.label,
    model: receipt.model,
    provider: receipt.served_by?.provider ?? 'none',
    hoster_id: receipt.served_by?.hoster_id ?? null,
    key_id: receipt.key!.id,
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    cached_tokens: cachedTokens(receipt),
    cost_usd: receipt.cost_usd,
    latency_ms: receipt.latency_ms,
    first_token_ms: receipt.first_token_ms,
    success: receipt.success,
    outcome: receipt.outcome,
    finish_reason: receipt.finish_reason,
  })
}

/**
 * Checks that the charge follows from price, tokens and hold, that its parts sum to it, and that entries sum
 * to zero.
 */
function expectArithmetic(receipt: RequestReceipt): void {
  const { price, tokens, ledger, refunds } = receipt
  const cost = nanosOf(receipt.cost_usd)
  const { input, output } = tokens.billed
  const tokensIn = (isPart: (kind: string) => boolean) =>
    count(tokens.parts, ({ kind, tokens }) => (isPart(kind) ? tokens : 0))
  const rest = {
    input: input - tokensIn(kind => /^(?:cache|input)_/.test(kind)),
    output: output - tokensIn(kind => kind.startsWith('output_')),
  }
  expect(Math.min(rest.input, rest.output)).toBeGreaterThanOrEqual(0)
  expect(tokens.reasoning ?? 0).toBeLessThanOrEqual(output)
  const picos =
    BigInt(rest.input) * microsOf(price.input_usd_per_million) +
    BigInt(rest.output) * microsOf(price.output_usd_per_million) +
    sum(tokens.parts, part => BigInt(part.tokens) * microsOf(part.usd_per_million))
  if (receipt.success) expect(cost + nanosOf(receipt.written_off_usd)).toBe((picos + 999n) / 1000n)
  expect(cost).toBeLessThanOrEqual(nanosOf(receipt.hold_usd))
  expect(nanosOf(receipt.platform_fee_usd) + nanosOf(receipt.hoster_share_usd)).toBe(cost)
  expect(ledger === null).toBe(cost === 0n)
  for (const { entries } of [...(ledger ? [ledger] : []), ...refunds])
    expect(sum(entries, ({ amount_usd }) => nanosOf(amount_usd))).toBe(0n)
  for (const { amount_usd } of refunds) expect(nanosOf(amount_usd)).toBeLessThanOrEqual(cost)
}

function expectSameCsv(rows: readonly ListedRequest[], csv: readonly string[][]): void {
  const lines = rows.map(row => [
    row.started_at,
    row.model,
    row.provider,
    String(row.input_tokens),
    String(row.output_tokens),
    String(row.total_tokens),
    row.cost_usd,
    String(row.latency_ms),
    String(row.success),
    row.id,
    row.outcome,
    row.key_id ?? '',
    // The name of the key and who made it, which the list does not have.
    expect.any(String),
    row.label ?? '',
    expect.any(String),
  ])
  // Both are in the order of ids, in opposite directions.
  expect(
    csv.map(line => line.map((cell, column) => (column === 6 ? usd(parseUsd(cell)!) : cell))).toReversed(),
  ).toEqual(lines)
}

function expectSameModels(receipts: readonly RequestReceipt[], { by_model, daily }: UsageBreakdown): void {
  const groups = Map.groupBy(receipts, ({ model, served_by }) => `${model} ${served_by?.provider ?? 'none'}`)
  const expected = [...groups].map(([name, group]) => [
    name,
    group.length,
    count(group, ({ tokens }) => tokens.billed.input),
    count(group, ({ tokens }) => tokens.billed.output),
    count(group, cachedTokens),
    usd(sum(group, ({ cost_usd }) => nanosOf(cost_usd))),
    usd(sum(group, ({ platform_fee_usd }) => nanosOf(platform_fee_usd))),
    usd(sum(group, ({ hoster_share_usd }) => nanosOf(hoster_share_usd))),
  ])
  const reported = by_model.map(row => [
    `${row.model_id} ${row.provider}`,
    row.requests,
    row.input_tokens,
    row.output_tokens,
    row.cached_tokens,
    row.total_cost_usd,
    row.platform_fee_usd,
    row.hoster_earned_usd,
  ])
  expect(reported.toSorted()).toEqual(expected.toSorted())
  expect(count(daily, ({ cached_tokens }) => cached_tokens)).toBe(count(receipts, cachedTokens))
  expect(usd(sum(daily, ({ cost_usd }) => nanosOf(cost_usd)))).toBe(
    usd(sum(receipts, ({ cost_usd }) => nanosOf(cost_usd))),
  )
}

/** Sums the money that the receipts report, by transaction and account. */
function entriesOf(receipts: readonly RequestReceipt[]): Map<string, bigint> {
  const moved = new Map<string, bigint>()
  for (const { ledger, refunds } of receipts)
    for (const { transaction, entries } of [...(ledger ? [ledger] : []), ...refunds])
      for (const { account_kind, account_id, amount_usd } of entries) {
        const account = `${transaction} ${account_kind} ${account_id ?? NOBODY}`
        moved.set(account, (moved.get(account) ?? 0n) + nanosOf(amount_usd))
      }
  return new Map([...moved].toSorted())
}

const NOBODY = '00000000-0000-0000-0000-000000000000'

/** Sums the ledger entries of all transactions that charged the customer or refunded it. */
async function readEntries({ database }: TestApp, { customerId }: TestCustomer): Promise<Map<string, bigint>> {
  const { rows } = await database.pool.query<{ account: string; amount_nanos: bigint }>(
    `SELECT tx_id || ' ' || account_kind || ' ' || account_id AS account, amount_nanos
       FROM ledger_entry
      WHERE tx_id IN (
        SELECT tx_id FROM ledger_entry JOIN ledger_tx USING (tx_id)
         WHERE account_kind = 'customer' AND account_id = $1 AND kind IN ('settle', 'refund')
      )`,
    [customerId],
  )
  return new Map(rows.map(row => [row.account, row.amount_nanos] as const).toSorted())
}

const cachedTokens = ({ tokens }: RequestReceipt) => tokens.parts.find(({ kind }) => kind === 'cache_read')?.tokens ?? 0

/** Exact for amounts below 9 million USD: their nano-USD fit into a double. */
const nanosOf = (amountUsd: number) => BigInt(Math.round(amountUsd * 1e9))
const microsOf = (usdPerMillion: number) => BigInt(Math.round(usdPerMillion * 1e6))
const sum = <T>(list: readonly T[], nanos: (item: T) => bigint) => list.reduce((total, item) => total + nanos(item), 0n)
const count = <T>(list: readonly T[], of: (item: T) => number) => list.reduce((total, item) => total + of(item), 0)
