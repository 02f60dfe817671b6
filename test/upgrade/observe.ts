/** A running gateway, and the ways to ask it that do not change between versions. */
export interface Installation {
  readonly url: string
  /** API keys by the name of their customer. */
  readonly keys: Readonly<Record<string, string>>
  /** Runs a command with `--json` and returns its result. */
  command(args: readonly string[]): Promise<unknown>
  readonly sql: { query(text: string): Promise<{ rows: unknown[] }> }
}

/** Everything that must survive an upgrade, as JSON. */
export type Observed = { readonly [name: string]: unknown }

/** The days of a fixture's usage; reports of other days are empty. */
export interface Period {
  readonly from: string
  readonly to: string
}

/**
 * Reads balances, statements, reports, receipts, earnings, payouts and the audit. Everything that depends on the time of
 * the call is left out, so that what an old version answered can be compared with what this one answers years later.
 */
export async function observe(
  installation: Installation,
  { from, to }: Period,
  names: readonly string[],
): Promise<Observed> {
  const { keys } = installation
  const customers: Record<string, unknown> = {}
  for (const [name, key] of Object.entries(keys)) {
    const get = (path: string) => getJson(`${installation.url}/v1/${path}`, key)
    const requests = (await get(`usage/requests?limit=100&from=${from}&to=${to}`)) as { data: { id: string }[] }
    customers[name] = {
      credits: await get('credits'),
      transactions: await get('credits/transactions?limit=100'),
      breakdown: await get(`usage/breakdown?from=${from}&to=${to}`),
      requests: requests.data,
      receipts: await Promise.all(requests.data.map(({ id }) => get(`usage/requests/${id}`))),
    }
  }
  const commands: Record<string, unknown> = {}
  for (const name of names) commands[name] = await installation.command(name.split(' '))
  const [audit, sums] = [await auditOf(installation), await sumsOf(installation)]
  return JSON.parse(JSON.stringify(steady({ customers, commands, audit, sums })))
}

/** Commands of all versions with an export. */
export const firstCommands: readonly string[] = ['customer list', 'key list', 'hoster list', 'hoster earnings']

/** Commands since hosters join by themselves and are paid. */
export const marketCommands: readonly string[] = [
  ...firstCommands,
  'customer members limited@example.com',
  'hoster key list acme',
  'payout list',
  'payout statement acme',
  'payments list',
  'voucher list',
  'alert list',
]

/** What depends on the time of the call, such as the days of the last month, or on when the journal was recovered. */
const DRIFTING = new Set(['today_usd', 'week_usd', 'month_usd', 'limit_resets_at', 'at', 'transaction', 'daily'])

/** What a fixture recorded, without what depends on the time. */
export function steady(observed: Observed): Observed {
  return without(observed, DRIFTING) as Observed
}

function without(value: unknown, names: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map(each => without(each, names))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => (names.has(name) ? [] : [[name, without(each, names)]])),
  )
}

async function auditOf({ command }: Installation): Promise<unknown> {
  const { ok, checks } = (await command(['ledger', 'audit'])) as { ok: boolean; checks: { violations: number }[] }
  return { ok, violated: checks.filter(({ violations }) => violations > 0) }
}

/** Sums of the tables of money, read without the gateway. */
async function sumsOf({ sql }: Installation): Promise<Record<string, unknown>> {
  const sums: Record<string, unknown> = {}
  for (const [name, statement] of Object.entries(SUMS)) sums[name] = (await sql.query(statement)).rows
  return sums
}

const SUMS = {
  balances: `SELECT c.email, b.posted_nanos::text, b.leased_nanos::text FROM balance b JOIN customer c USING (customer_id) ORDER BY 1`,
  accounts: `SELECT account_kind, count(*)::text AS entries, sum(amount_nanos)::text AS nanos FROM ledger_entry GROUP BY 1 ORDER BY 1`,
  transactions: `SELECT kind, count(*)::text AS count FROM ledger_tx GROUP BY 1 ORDER BY 1`,
  usage: `SELECT outcome, count(*)::text AS count, sum(cost_nanos)::text AS nanos FROM usage_event GROUP BY 1 ORDER BY 1`,
  days: `SELECT day::text, sum(requests)::text AS requests, sum(cost_nanos)::text AS nanos FROM usage_day GROUP BY 1 ORDER BY 1`,
  leases: `SELECT count(*)::text AS open FROM lease`,
}

async function getJson(url: string, key: string): Promise<unknown> {
  const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response.json()
}
