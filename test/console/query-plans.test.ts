import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { fillForConsole } from '../../bench/console/fill.ts'
import { customerScreens, operatorScreens } from '../../bench/console/screens.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// The statements that the gateway really sends for each screen, planned over generated rows.
const app = useTestApp({ yaml: 'status:\n  public: true\n' })
const DATA = { rows: 4_000, customers: 100, keys: 200 }
/** The tables that grow with requests, payments or what people do. Partitions have the name of their table first. */
const GROWING = new RegExp(
  `^(${[
    ...[
      'usage_event',
      'usage_frozen',
      'usage_hour',
      'usage_day',
      'endpoint_day',
      'usage_key_day',
      'usage_closing',
      'platform_customer_day',
    ],
    ...['ledger_tx', 'ledger_entry', 'refund', 'day_spend', 'key_spend', 'idempotency'],
    ...['payment', 'payment_event', 'payment_reversal', 'voucher', 'credit_taken', 'grant_request'],
    ...[
      'audit_entry',
      'person_session',
      'person_token',
      'alert',
      'alert_delivery',
      'api_key',
      'membership',
      'server_error',
    ],
  ].join('|')})(_\\d|_default|$)`,
)

let customer: BrowserClient
let operator: BrowserClient
let places: Parameters<typeof customerScreens>[0]
beforeAll(async () => {
  const { pool } = app.database
  await fillForConsole(pool, DATA)
  const { rows } = await pool.query<typeof places>(
    `SELECT c.customer_id::text AS "customerId", (SELECT key_id::text FROM api_key k WHERE k.customer_id = c.customer_id LIMIT 1) AS "keyId",
       (SELECT request_id::text FROM usage_event WHERE customer_id = c.customer_id LIMIT 1) AS "requestId",
       (SELECT rule_id::text FROM alert_rule r WHERE r.customer_id = c.customer_id) AS "ruleId"
     FROM customer c WHERE email = 'big@example.com'`,
  )
  places = rows[0]!
  customer = (await signedInMember(app, places.customerId)).browser
  operator = (await signedInOperator(app)).browser
})

// The generated sums have no requests, so an audit at the end would find them.
afterAll(async () => {
  const { pool } = app.database
  await pool.query('DELETE FROM usage_day WHERE customer_id <> $1', [places.customerId])
  await pool.query("DELETE FROM endpoint_day WHERE endpoint_id LIKE 'filled-%'")
  await pool.query('DELETE FROM usage_key_day WHERE key_id <> customer_id')
})

interface Sent {
  readonly text: string
  readonly values: readonly unknown[]
}

/** Calls an address and returns the statements that were sent meanwhile. */
async function statementsOf(browser: BrowserClient, path: string): Promise<Sent[]> {
  const sent: Sent[] = []
  const original = pg.Client.prototype.query
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [statement, values] = args as [string | Sent, unknown[] | undefined]
    // The audit runs meanwhile.
    const { application_name: name } = (this as unknown as { connectionParameters: { application_name?: string } })
      .connectionParameters
    if (name !== 'switchyard') return original.apply(this, args as never)
    sent.push(
      typeof statement === 'string'
        ? { text: statement, values: Array.isArray(values) ? values : [] }
        : { text: statement.text, values: statement.values ?? [] },
    )
    return original.apply(this, args as never)
  } as never)
  try {
    const api = '/console/api/'
    const response = await (path.startsWith(api) ? browser.get(path.slice(api.length)) : fetch(app.url + path))
    await response.arrayBuffer()
    expect(response.status).toBe(200)
  } finally {
    spy.mockRestore()
  }
  // Jobs write meanwhile.
  return sent.filter(({ text }) => /^\s*(SELECT|WITH)\b/.test(text) && !/\b(INSERT|UPDATE|DELETE)\b/.test(text))
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly Filter?: string
  readonly Plans?: readonly Plan[]
}

/** Lists the scans of all rows of growing tables. A scan in the order of an index may stop early below a limit, unless it filters. */
function wholeScans(node: Plan, isLimited = false): string[] {
  const { 'Relation Name': table, 'Node Type': type, 'Index Cond': condition, Filter: filter } = node
  // The index has only the rows that wait.
  if (node['Index Name'] === 'grant_request_waiting') return []
  const below = isLimited || type === 'Limit'
  const found = (node.Plans ?? []).flatMap(child =>
    wholeScans(child, below && !['Sort', 'Aggregate', 'Hash'].includes(type)),
  )
  const isWhole =
    type === 'Seq Scan' || (/^Index/.test(type) && condition === undefined && !(isLimited && filter === undefined))
  if (table !== undefined && GROWING.test(table) && isWhole) found.push(`${type} of ${table}`)
  return found
}

async function wholeScansOf({ text, values }: Sent): Promise<string[]> {
  const client = await app.database.pool.pg.connect()
  try {
    // In small tables, scans and joins of all rows are cheap. Without them, the plan shows whether an index would do.
    await client.query(
      'BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off',
    )
    const { rows } = await client.query(`EXPLAIN (FORMAT JSON) ${text}`, [...values])
    return wholeScans(rows[0]['QUERY PLAN'][0].Plan).map(scan => `${scan}: ${text.trim()}`)
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
}

async function findScans(browser: BrowserClient, paths: readonly string[]): Promise<string[]> {
  const scansOf = async (path: string) => {
    const found: string[] = []
    for (const statement of await statementsOf(browser, path)) found.push(...(await wholeScansOf(statement)))
    return found
  }
  const found: string[] = []
  for (const path of paths) {
    const scans = await scansOf(path)
    // A background job may have sent a statement at the same time. The screen sends its own every time.
    const again = scans.length === 0 ? [] : await scansOf(path)
    found.push(...scans.filter(scan => again.includes(scan)))
  }
  return found
}

const id = '00000000-0000-4000-8000-000000000000'
const names = { customerId: id, keyId: id, requestId: id, ruleId: id }

describe('no screen scans all rows of a table that grows', () => {
  test.each(customerScreens(names).map(({ name }) => name))('%s', async name => {
    const screen = customerScreens(places).find(each => each.name === name)!
    expect(await findScans(customer, screen.reads)).toEqual([])
  })

  test.each(operatorScreens(names).map(({ name }) => name))('%s', async name => {
    const screen = operatorScreens(places).find(each => each.name === name)!
    expect(await findScans(operator, screen.reads)).toEqual([])
  })
})

test.each([
  ['log of a person without entries', 'audit_entry_person'],
  ['all grants', 'grant_request_time'],
])('%s is found to scan without the index %s', async (name, index) => {
  const screen = operatorScreens(places).find(each => each.name === name)!
  const { rows } = await app.database.pool.query<{ definition: string }>(
    'SELECT pg_get_indexdef($1::regclass) AS definition',
    [index],
  )
  await app.database.pool.query(`DROP INDEX ${index}`)
  try {
    expect(await findScans(operator, screen.reads)).not.toEqual([])
  } finally {
    await app.database.pool.query(rows[0]!.definition)
  }
})
