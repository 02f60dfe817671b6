import { randomUUIDv7 } from 'node:crypto'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { migrate } from '../src/base/db/migrate.ts'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool, type Pool } from '../src/base/db/pool.ts'
import { archiveMonth } from '../src/money/ledger/archive/archive-month.ts'
import { archivableBefore, listUsageMonths } from '../src/money/ledger/archive/usage-months.ts'
import { audit } from '../src/money/ledger/audit/audit.ts'
import type { LeaseRequest } from '../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../src/money/ledger/postgres-store.ts'
import { generateUsage } from './generate-usage.ts'
import { readMachine, reportHead } from './machine.ts'
import { markdownPage, markdownTable } from './markdown.ts'
import { printProgress } from './print-progress.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:storage`: the bytes of usage rows, their archives, and admissions while a snapshot is open. */
const { values } = parseArgs({ options: { rows: { type: 'string', default: '3000000' } } })
const BILLION = 1_000_000_000
/** Smaller runs write no report. */
const REPORT_ROWS_MIN = 2_000_000
const MONTHS_ARCHIVED = 3
const ADMISSIONS = 2_000
const ADMISSIONS_PER_WINDOW = 250
const rows = Number(values.rows)
const dir = makeBenchmarkDir()
await runBenchmark(dir, bench)

async function bench(): Promise<void> {
  const machine = readMachine(null)
  const database = await openDatabase({ dataDir: join(dir, 'data'), log: { info: printProgress, warn: printProgress } })
  try {
    await migrate(database.owner)
    const pool = createPool(database.owner, { max: 4, applicationName: 'bench storage', statementTimeoutMs: 0 })
    try {
      await generateUsage(pool, { rows, nowEpochMs: Date.now() })
      const sizes = await readSizes(pool)
      for (const { name, bytes } of sizes) printProgress(`${name}: ${(bytes / rows).toFixed(1)} bytes per row`)
      const archives = await archiveAll(pool)
      const admissions = [await timeAdmissions(pool, false), await timeAdmissions(pool, true)]
      const report = storageReport(reportHead(`Storage of ${count(rows)} usage rows`, command(), machine, []), {
        sizes,
        archives,
        admissions,
      })
      process.stdout.write(report)
      if (rows >= REPORT_ROWS_MIN) printProgress(`wrote ${writeReport('storage', report)}`)
    } finally {
      await pool.end()
    }
  } finally {
    await database.close()
  }
}

function command(): string {
  return ['npm run bench:storage', ...process.argv.slice(2)].join(' ').replace('storage --', 'storage -- --')
}

interface Size {
  readonly name: string
  readonly bytes: number
}

/** The bytes of the usage rows, of each of their indexes, and of the tables that grow with them. */
async function readSizes(pool: Pool): Promise<Size[]> {
  const { rows } = await pool.query<{ name: string; bytes: bigint }>(
    `WITH partition AS (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'usage_event'::regclass)
     SELECT 'usage row' AS name, sum(pg_table_size(inhrelid))::bigint AS bytes FROM partition
     UNION ALL
     SELECT 'its index ' || p.relname, sum(pg_relation_size(i.indexrelid))::bigint
       FROM partition JOIN pg_index i ON i.indrelid = inhrelid
       JOIN pg_inherits h ON h.inhrelid = i.indexrelid JOIN pg_class p ON p.oid = h.inhparent GROUP BY p.relname
     UNION ALL
     SELECT 'ledger, with indexes', pg_total_relation_size('ledger_tx') + pg_total_relation_size('ledger_entry')
     UNION ALL
     SELECT 'sums by hour, day and key, with indexes',
       pg_total_relation_size('usage_hour') + pg_total_relation_size('usage_day') + pg_total_relation_size('usage_key_day')`,
  )
  return rows.map(({ name, bytes }) => ({ name, bytes: Number(bytes) }))
}

interface Archives {
  readonly rows: number
  readonly freedBytes: number
  readonly fileBytes: number
  readonly closingBytes: number
  readonly seconds: number
  readonly auditSeconds: number
}

/** Archives the oldest months, and audits the result. */
async function archiveAll(pool: Pool): Promise<Archives> {
  const months = (await listUsageMonths(pool, await archivableBefore(pool))).slice(0, MONTHS_ARCHIVED)
  const startedMs = performance.now()
  let [archived, freedBytes, fileBytes] = [0, 0, 0]
  for (const month of months) {
    const { bytes } = await archiveMonth(pool, month.month, dir)
    archived += Number(month.requests)
    freedBytes += Number(month.bytes)
    fileBytes += bytes
    printProgress(`archived ${month.month}: ${month.requests} rows`)
  }
  const seconds = (performance.now() - startedMs) / 1000
  const auditedMs = performance.now()
  const violated = (await audit(pool)).filter(({ violations }) => violations > 0)
  if (violated.length > 0) throw new Error(`the audit found ${violated.map(({ name }) => name).join(', ')}`)
  const auditSeconds = (performance.now() - auditedMs) / 1000
  const closings = await pool.query<{ bytes: bigint }>(`SELECT pg_total_relation_size('usage_closing') AS bytes`)
  return { rows: archived, freedBytes, fileBytes, closingBytes: Number(closings.rows[0]!.bytes), seconds, auditSeconds }
}

/**
 * Admits and releases one strict lease after the other for one customer, with a heartbeat for each ten of them. Returns
 * the mean milliseconds of an admission in each window. With a snapshot, another session holds one all the time.
 */
async function timeAdmissions(pool: Pool, hasSnapshot: boolean): Promise<{ hasSnapshot: boolean; meansMs: number[] }> {
  const store = createPostgresStore({ money: pool, heartbeat: pool })
  const nodeId = randomUUIDv7()
  await store.registerNode(nodeId)
  const customers = await pool.query<{ id: string }>('SELECT customer_id AS id FROM customer LIMIT 1 OFFSET $1', [
    hasSnapshot ? 1 : 2,
  ])
  const limits = { requestsPerMinute: 1_000_000, requestsPerDay: 1_000_000, dailySpendCapNanos: 10n ** 15n }
  const reader = await pool.pg.connect()
  if (hasSnapshot) {
    await reader.query('SET idle_in_transaction_session_timeout = 0')
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT count(*) FROM customer')
  }
  const meansMs: number[] = []
  for (let done = 0; done < ADMISSIONS; done += ADMISSIONS_PER_WINDOW) {
    let spentMs = 0
    for (let index = 0; index < ADMISSIONS_PER_WINDOW; index++) {
      const requestId = randomUUIDv7()
      const request: LeaseRequest = {
        ...{ requestId, customerId: customers.rows[0]!.id, keyId: customers.rows[0]!.id, modelId: 'm', limits },
        keyLimit: null,
        memberLimit: null,
        ask: { wantNanos: 1_000n, floorNanos: 1_000n },
      }
      const startedMs = performance.now()
      await store.admit(nodeId, [request])
      spentMs += performance.now() - startedMs
      await store.release([requestId])
      if (index % 10 === 0) await store.heartbeat(nodeId, done + index)
    }
    meansMs.push(spentMs / ADMISSIONS_PER_WINDOW)
    printProgress(`${done + ADMISSIONS_PER_WINDOW} admissions, ${meansMs.at(-1)!.toFixed(2)} ms each`)
  }
  await reader.query('ROLLBACK')
  reader.release()
  await store.retireNode(nodeId)
  return { hasSnapshot, meansMs }
}

function storageReport(
  head: string,
  measured: {
    sizes: readonly Size[]
    archives: Archives
    admissions: readonly { hasSnapshot: boolean; meansMs: number[] }[]
  },
): string {
  const { sizes, archives, admissions } = measured
  const gigabytes = (bytesPerRow: number) => ((bytesPerRow * BILLION) / 1e9).toFixed(0)
  const ofRows = sizes.filter(({ name }) => name.startsWith('usage row') || name.startsWith('its index'))
  const total = ofRows.reduce((sum, { bytes }) => sum + bytes, 0)
  const perRow = [
    ...ofRows,
    { name: '**usage row with its indexes**', bytes: total },
    ...sizes.slice(ofRows.length),
  ].map(({ name, bytes }) => [name, (bytes / rows).toFixed(1), gigabytes(bytes / rows)])
  return markdownPage([
    head,
    `## Bytes per row\n\n${markdownTable(['', 'bytes per row', 'GB for a billion rows'], perRow)}`,
    `## Archives\n\n${markdownTable(
      ['figure', 'value'],
      [
        ['rows archived', count(archives.rows)],
        ['bytes freed per row', (archives.freedBytes / archives.rows).toFixed(1)],
        ['bytes of the files per row', (archives.fileBytes / archives.rows).toFixed(1)],
        ['bytes of the sums that stay per row', (archives.closingBytes / archives.rows).toFixed(1)],
        ['rows archived per second', count(Math.round(archives.rows / archives.seconds))],
        ['audit afterwards, clean, s', archives.auditSeconds.toFixed(1)],
      ],
    )}`,
    `## Admissions while a snapshot is open\n\nMean milliseconds of an admission by a strict lease, for one customer and one request at a time. Each admission and each release writes the balance of the customer once.\n\n${markdownTable(
      ['admissions', ...admissions[0]!.meansMs.map((_, index) => `to ${(index + 1) * ADMISSIONS_PER_WINDOW}`)],
      admissions.map(({ hasSnapshot, meansMs }) => [
        hasSnapshot ? 'with a snapshot from the beginning' : 'without a snapshot',
        ...meansMs.map(ms => ms.toFixed(2)),
      ]),
    )}`,
  ])
}

function count(value: number): string {
  return value.toLocaleString('en')
}
