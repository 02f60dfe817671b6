import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { Pool, Sql } from '../../src/base/db/pool.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { type AuditCheck, auditChecks, type SlicedCheck } from '../../src/money/ledger/audit/audit-checks.ts'
import {
  type AuditProgress,
  type AuditProgressStore,
  progressInDatabase,
  progressInFile,
} from '../../src/money/ledger/audit/audit-progress.ts'
import { planAudit } from '../../src/money/ledger/audit/audit-slices.ts'
import { addUsagePartitions } from '../../src/money/ledger/settlement/add-usage-partitions.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { admissionOf, createLedgerWorld, type LedgerWorld, settle, settlementOf } from './ledger-world.ts'

const CUSTOMERS = 6
/** As small as slices can be: each customer, and each block of transactions. */
const sizes = { requestsPerSlice: 2, blocksPerSlice: 1 }

/** Customers with one charge each, in transactions of different blocks. */
const world = useResource(
  async (): Promise<LedgerWorld & { readonly customers: readonly string[] }> => {
    const created = await createLedgerWorld()
    await addUsagePartitions(created.pool, Date.now())
    const { ledger } = await created.addNode()
    const customers: string[] = []
    for (let index = 0; index < CUSTOMERS; index++) {
      await created.pool.query(`SELECT setval('ledger_tx_tx_id_seq', $1)`, [1 + index * 65_536])
      const customerId = await created.addCustomer(1_000n)
      const admission = admissionOf(customerId, 200n)
      await ledger.admit(admission)
      await settle(ledger, settlementOf(admission, 200n, 100n))
      customers.push(customerId)
    }
    return { ...created, customers }
  },
  created => created.drop(),
  'test',
)

test('every id is in exactly one slice of each kind', async () => {
  const slices = await planAudit(world.pool, sizes)
  const kinds = Map.groupBy(slices, ({ by }) => by)
  expect([...kinds].map(([by, { length }]) => [by, length])).toEqual([
    ['transactions', CUSTOMERS],
    ['customers', CUSTOMERS],
    // Three months, what comes before and what comes after.
    ['requests', 5],
    ['hosters', 1],
    ['days', 1],
    ['logEntries', 1],
    ['all', 1],
  ])
  expect(kinds.get('transactions')!.map(({ from, to }) => [BigInt(from), BigInt(to)])).toEqual(
    Array.from({ length: CUSTOMERS }, (_, index) => [
      index === 0 ? -(2n ** 63n) : BigInt(index) << 16n,
      index === CUSTOMERS - 1 ? 2n ** 63n - 1n : (BigInt(index + 1) << 16n) - 1n,
    ]),
  )
  for (const by of ['customers', 'requests'] as const) {
    const ranges = kinds.get(by)!.map(({ from, to }) => [toNumber(from), toNumber(to)] as const)
    expect(ranges[0]![0]).toBe(0n)
    expect(ranges.at(-1)![1]).toBe(2n ** 128n - 1n)
    for (const [index, [from]] of ranges.entries()) if (index > 0) expect(from).toBe(ranges[index - 1]![1] + 1n)
  }
})

const toNumber = (uuid: string) => BigInt(`0x${uuid.replaceAll('-', '')}`)

test('an audit in small slices finds a violation in any of them, once', async () => {
  expect(await audit(world.pool, { sizes })).toEqual(await audit(world.pool))
  for (const [index, customerId] of world.customers.entries()) {
    await world.pool.query('UPDATE balance SET posted_nanos = posted_nanos + 1 WHERE customer_id = $1', [customerId])
    expect(await violated({ sizes })).toEqual([['balances_equal_entries', index + 1]])
  }
  await world.pool.query('UPDATE usage_event SET latency_ms = latency_ms + 1')
  const findings = new Map(await violated({ sizes }))
  expect([findings.get('hours_equal_usage'), findings.get('days_equal_usage')]).toEqual([CUSTOMERS, CUSTOMERS])
})

test('a violation in a transaction is found in its slice', async () => {
  const { rows } = await world.pool.query<{ tx_id: bigint }>(`SELECT tx_id FROM usage_event ORDER BY tx_id`)
  const [, , third] = rows
  await world.pool.query('UPDATE usage_event SET tx_id = tx_id + 65536 WHERE tx_id = $1', [third!.tx_id])
  const findings = await audit(world.pool, { sizes })
  // The entry has no usage row, and the usage row has no entry.
  expect(findings.find(({ name }) => name === 'charges_equal_customer_entries')).toMatchObject({
    violations: 2,
    examples: [String(third!.tx_id), String(third!.tx_id + 65_536n)],
  })
})

test('a break of the audit log is found in its slice, also at a border', async () => {
  for (let n = 0; n < 7; n++) await world.pool.query("SELECT add_audit_entry(NULL, 'x', $1, NULL, '{}', NULL)", [n])
  const small = { ...sizes, entriesPerSlice: 2 }
  expect(await violated({ sizes: small })).toEqual([])
  await world.pool.query('DELETE FROM audit_entry WHERE entry_id = 4')
  await world.pool.query("UPDATE audit_entry SET subject = 'y' WHERE entry_id = 7")
  const [found] = (await audit(world.pool, { sizes: small })).filter(({ violations }) => violations > 0)
  expect(found).toEqual({ name: 'audit_log_is_unbroken', violations: 2, examples: ['5', '7'] })
})

test('no snapshot is older than the check that runs', async () => {
  const visible: boolean[] = []
  const pool = watched(world.pool, async (_, client) => {
    const name = randomUUID()
    await world.pool.query(`INSERT INTO installation (name, value) VALUES ($1, '')`, [name])
    visible.push((await client.query('SELECT FROM installation WHERE name = $1', [name])).rowCount === 1)
  })
  await audit(pool, { sizes })
  expect(visible.length).toBeGreaterThan(Object.keys(auditChecks).length)
  expect(visible).not.toContain(false)
})

const directory = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-audit-')) }),
  ({ path }) => rm(path, { recursive: true }),
)
const stores: [string, (pool: Pool) => AuditProgressStore][] = [
  ['in PostgreSQL', pool => progressInDatabase(pool)],
  ['in a file', pool => progressInFile(pool, join(directory.path, 'audit.json'))],
]

test.for(stores)('an interrupted audit continues, with its progress %s', async ([, createStore]) => {
  const { pool, customers } = world
  // A violation in the first slices, one in the last.
  await pool.query(`INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (-5, 'settle', 'planted')`)
  await pool.query('UPDATE balance SET posted_nanos = posted_nanos + 1 WHERE customer_id = $1', [
    customers.toSorted().at(-1),
  ])
  const store = createStore(pool)
  const slices = (await planAudit(pool, sizes)).length
  const stopping = new AbortController()
  let saved = 0
  const interrupted = audit(pool, {
    sizes,
    signal: stopping.signal,
    saveEveryMs: 0,
    progress: {
      load: store.load,
      save: async progress => {
        await store.save(progress)
        if (++saved === CUSTOMERS + 2) stopping.abort()
      },
    },
  })
  await expect(interrupted).rejects.toThrow()

  const continued: AuditProgress[] = []
  const checked: string[] = []
  const findings = await audit(
    watched(pool, async range => {
      checked.push(range)
    }),
    { sizes, saveEveryMs: 0, progress: store, onContinue: earlier => continued.push(earlier) },
  )
  expect(continued).toMatchObject([{ done: CUSTOMERS + 2, slices: { length: slices } }])
  // Without evidence, which this audit cannot check, no statement is sent for the check of it.
  const checksBy = Object.values<SlicedCheck>(auditChecks).flatMap(({ by, isEvidence }) => (isEvidence ? [] : [by]))
  const ofCustomers = checksBy.filter(by => by === 'customers').length
  const ofOneSlice = checksBy.filter(
    by => by === 'hosters' || by === 'days' || by === 'logEntries' || by === 'all',
  ).length
  expect(checked).toHaveLength((CUSTOMERS - 2) * ofCustomers + 5 + ofOneSlice)
  expect(findings.filter(({ violations }) => violations > 0)).toEqual([
    { name: 'transactions_have_entries', violations: 1, examples: ['-5'] },
    { name: 'balances_equal_entries', violations: 1, examples: [expect.any(String)] },
  ])
  expect(await store.load()).toBeUndefined()
  expect(await readdir(directory.path)).toEqual([])
})

test('after kill -9 an audit continues, and finds what was falsified before and after', async () => {
  const { pool, customers } = world
  const path = join(directory.path, 'killed.json')
  await pool.query(`INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (-5, 'settle', 'planted')`)
  // The slices of transactions do not read this table, the first slice of customers waits for it.
  const locked = await pool.pg.connect()
  await locked.query(
    'SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE usage_hour IN ACCESS EXCLUSIVE MODE',
  )
  const child = spawn(process.execPath, ['--input-type=module', '--eval', AUDIT_IN_FILE], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, AUDIT: JSON.stringify({ connection: world.connection, path, sizes }) },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exit = once(child, 'exit')
  await expect.poll(() => blockedAudits(pool), WAIT_OPTIONS).toBe(1)
  child.kill('SIGKILL')
  expect(await exit).toEqual([null, 'SIGKILL'])
  await locked.query('ROLLBACK')
  locked.release()

  await pool.query('UPDATE balance SET posted_nanos = posted_nanos + 1 WHERE customer_id = $1', [customers[0]])
  const continued: number[] = []
  const findings = await audit(pool, {
    sizes,
    progress: progressInFile(pool, path),
    onContinue: ({ done }) => continued.push(done),
  })
  expect(continued).toEqual([CUSTOMERS])
  expect(findings.filter(({ violations }) => violations > 0)).toEqual([
    { name: 'transactions_have_entries', violations: 1, examples: ['-5'] },
    { name: 'balances_equal_entries', violations: 1, examples: [customers[0]] },
  ])
  expect(await readdir(directory.path)).toEqual([])
})

/** Runs an audit that saves its progress after each slice. */
const AUDIT_IN_FILE = `
const { createPool } = await import('./src/base/db/pool.ts')
const { audit } = await import('./src/money/ledger/audit/audit.ts')
const { progressInFile } = await import('./src/money/ledger/audit/audit-progress.ts')
const { connection, path, sizes } = JSON.parse(process.env.AUDIT)
const pool = createPool(connection, { max: 2, applicationName: 'killed audit', statementTimeoutMs: 0, lockTimeoutMs: 0 })
await audit(pool, { sizes, saveEveryMs: 0, progress: progressInFile(pool, path) })
`

async function blockedAudits(pool: Pool): Promise<number> {
  const { rowCount } = await pool.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'killed audit' AND wait_event_type = 'Lock'`,
  )
  return rowCount ?? 0
}

test('progress is ignored that is a day old, of another version, of another database or damaged', async () => {
  const { pool } = world
  const path = join(directory.path, 'other.json')
  const store = progressInFile(pool, path)
  const slices = await planAudit(pool, sizes)
  const findings = (await audit(pool)).map(finding => ({ ...finding, violations: 7 }))
  const progress = { startedAtEpochMs: Date.now(), slices, done: slices.length - 1, findings }
  const isIgnored = async () => (await audit(pool, { progress: store })).every(({ violations }) => violations === 0)
  await store.save(progress)
  expect(await isIgnored()).toBe(false)
  for (const change of [{ startedAtEpochMs: Date.now() - 25 * 3_600_000 }, { findings: findings.slice(1) }]) {
    await store.save({ ...progress, ...change })
    expect(await isIgnored()).toBe(true)
  }
  await writeFile(path, JSON.stringify({ database: 'another', progress }))
  expect(await isIgnored()).toBe(true)
  await writeFile(path, '{"database":')
  expect(await isIgnored()).toBe(true)
  await rm(path)
})

async function violated(options: Parameters<typeof audit>[1]): Promise<[AuditCheck, number][]> {
  return (await audit(world.pool, options))
    .filter(({ violations }) => violations > 0)
    .map(({ name, violations }) => [name, violations])
}

/** The pool, with a function that runs before each check, and can send statements in the transaction of the check. */
function watched(pool: Pool, onCheck: (range: string, client: Sql) => Promise<void>): Pool {
  const connect = async () => {
    const client = await pool.pg.connect()
    const query = async (statement: { text?: string; values?: unknown[] } | string) => {
      if (typeof statement === 'object' && statement.text?.startsWith('SELECT count(*)::integer AS violations'))
        await onCheck(String(statement.values), client as unknown as Sql)
      return client.query(statement as string)
    }
    return { query, release: (error?: Error) => client.release(error), end: () => {} }
  }
  return { ...pool, pg: { connect } as unknown as Pool['pg'] }
}
