import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type Pool, transaction } from '../../src/base/db/pool.ts'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { hashApiKey, mintApiKey } from '../../src/identity/auth/api-key.ts'
import type { Finding } from '../finding.ts'
import { type Gateway, startGateway, withDatabase } from '../gateway.ts'
import { pin } from '../process.ts'
import type { Tally } from '../tally.ts'
import type { Subject, SubjectOptions } from './subject.ts'

/**
 * Switchyard as an operator starts it, with an embedded PostgreSQL (fsync on) in a new data directory. The model has a price, and the limits of
 * the customer are far above the load. Authentication, limits, holds, settlement and usage are all enabled.
 */
export async function startSwitchyard(options: SubjectOptions): Promise<Subject> {
  const { cores, dir, profile, workers = 1, dialects, telemetry } = options
  const config = { ...benchConfig(options.upstreamOrigin, dialects), server: { workers }, telemetry }
  const gateway = await startGateway({ dir, cores, profile, config })
  try {
    await gateway.command('customer', 'add', customer)
    const { key } = (await gateway.command('key', 'issue', customer, '--name', 'bench')) as { key: string }
    const pids = gateway.processes()
    for (const pid of pids) pin(pid, cores?.subject)
    const headers = { authorization: `Bearer ${key}` }
    return {
      url: `${gateway.origin}/v1/chat/completions`,
      headers,
      pid: gateway.pid,
      pids,
      check: sent => checkBooks(gateway.origin, headers, sent, () => gateway.command('ledger', 'audit')),
      addCustomers: (count, usd = creditUsd) => withDatabase(gateway, pool => addCustomers(pool, count, usd)),
      watchDatabaseCpu: gateway.watchDatabaseCpu,
      watchBalanceRow: () => watchBalanceRow(gateway),
      setDatabasePriority: gateway.setDatabasePriority,
      metricsUrl: gateway.metricsUrl,
      settled: () => untilSettled(gateway.metricsUrl),
      stop: gateway.stop,
    }
  } catch (error) {
    await gateway.stop()
    throw error
  }
}

const customer = 'bench@example.com'
const creditUsd = 1_000_000
const usdPerMillion = { input: 0.15, output: 0.6 }

/** Returns the name of the model whose server speaks a dialect. */
export function modelOf(dialect: Dialect): string {
  return dialect === 'chat' ? 'bench' : `bench-${dialect}`
}

/**
 * Configures one upstream with a priced model for each dialect: `bench` for chat. New customers have a large credit and a limit of a billion
 * requests per minute.
 */
export function benchConfig(upstreamOrigin: string, dialects: readonly Dialect[] = ['chat']) {
  return {
    endpoints: dialects.map(dialect => ({
      name: modelOf(dialect),
      kind: 'local',
      base_url: `${upstreamOrigin}/v1`,
      speaks: [dialect],
      models: [{ id: modelOf(dialect), price_per_million_usd: usdPerMillion }],
    })),
    signup: { tier: 'bench', credit_usd: creditUsd },
    account_tiers: {
      bench: { requests_per_minute: 1e9, requests_per_day: 1e9, daily_spend_cap_usd: creditUsd },
    },
    reports: { requests_per_minute: 1e6 },
    demo: { enabled: false },
    detect: { enabled: false },
  }
}

/** Checks that every answered request is in the usage report, priced to the nano-USD, and that the ledger audit is clean. */
async function checkBooks(
  origin: string,
  headers: Record<string, string>,
  sent: Tally,
  audit: () => Promise<unknown>,
): Promise<Finding[]> {
  const totals = await readTotals(origin, headers, sent.sent)
  const pricedNanos = Math.round(
    (totals.input_tokens * usdPerMillion.input + totals.output_tokens * usdPerMillion.output) * 1e3,
  )
  const costNanos = Math.round(totals.cost_usd * 1e9)
  const auditFailure = await audit().then(
    () => null,
    (error: Error) => error.message,
  )
  return [
    {
      ok: totals.requests === sent.sent,
      text: `switchyard: ${totals.requests} usage rows for ${sent.sent} requests`,
    },
    {
      ok: costNanos > 0 && costNanos === pricedNanos,
      text: `switchyard: charged ${totals.cost_usd} USD for ${totals.input_tokens} input and ${totals.output_tokens} output tokens`,
    },
    { ok: auditFailure === null, text: `switchyard: ledger audit ${auditFailure ?? 'clean'}` },
  ]
}

/** Two batches of the ledger, since a batch always waits for more charges. */
const CHARGES_WAITING_MAX = 2 * 256

/** Waits until nearly all charges are in PostgreSQL. Throws after 60 s. */
export async function untilSettled(metricsUrl: string): Promise<void> {
  const deadlineMs = performance.now() + 60_000
  for (;;) {
    const metrics = await (await fetch(metricsUrl)).text()
    const waiting = /^switchyard_settle_queue_length (\d+)$/m.exec(metrics)
    if (waiting === null) throw new Error('/metrics has no switchyard_settle_queue_length')
    if (Number(waiting[1]) <= CHARGES_WAITING_MAX) return
    if (performance.now() > deadlineMs) throw new Error(`${waiting[1]} charges are still not committed after 60 s`)
    await delay(20)
  }
}

type Totals = { requests: number; input_tokens: number; output_tokens: number; cost_usd: number }

/** Waits for the totals: an answer ends once its charge is in the journal, and PostgreSQL receives the charge up to a few seconds later. */
async function readTotals(origin: string, headers: Record<string, string>, requests: number): Promise<Totals> {
  const deadlineMs = performance.now() + 15_000
  for (;;) {
    const response = await fetch(`${origin}/v1/usage/tokens?days=2&interval=day`, { headers })
    const { totals } = (await response.json()) as { totals: Totals }
    if (totals.requests >= requests || performance.now() > deadlineMs) return totals
    await delay(250)
  }
}

/** Adds customers in one transaction and a few statements. With two command line processes per customer, it would take hours. */
export function addCustomers(pool: Pool, count: number, usd: number): Promise<Record<string, string>[]> {
  const added = Array.from({ length: count }, () => ({
    customerId: randomUUID(),
    keyId: randomUUID(),
    key: mintApiKey(),
  }))
  const columns = [added.map(a => a.customerId), added.map(a => a.keyId), added.map(a => hashApiKey(a.key))]
  return transaction(pool, async sql => {
    await sql.query(
      `INSERT INTO customer (customer_id, email, account_tier) SELECT id, id || '@example.com', 'bench' FROM unnest($1::uuid[]) id`,
      [columns[0]],
    )
    await sql.query('SELECT open_account(id, $2) FROM unnest($1::uuid[]) id', [
      columns[0],
      BigInt(usd) * 1_000_000_000n,
    ])
    await sql.query(
      `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint)
       SELECT k, c, 'bench', decode(h, 'base64'), '' FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS new(c, k, h)`,
      columns,
    )
    return added.map(({ key }) => ({ authorization: `Bearer ${key}` }))
  })
}

/** Counts the row versions that it sees. Exact as long as updates are further apart than the polling interval, as they should be. */
async function watchBalanceRow(gateway: Gateway): Promise<() => Promise<number>> {
  let updates = 0
  let watching = true
  const watched = withDatabase(gateway, async pool => {
    const version = async () => {
      const { rows } = await pool.query<{ version: string }>(
        'SELECT b.xmin::text AS version FROM balance b JOIN customer c USING (customer_id) WHERE lower(c.email) = $1',
        [customer],
      )
      return rows[0]!.version
    }
    for (let last = await version(); watching; await delay(rowPollMs)) {
      const now = await version()
      if (now !== last) updates++
      last = now
    }
  })
  return async () => {
    watching = false
    await watched
    return updates
  }
}

const rowPollMs = 10
