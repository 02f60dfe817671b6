import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Pool as HttpPool } from 'undici'
import { migrate } from '../src/base/db/migrate.ts'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool } from '../src/base/db/pool.ts'
import { checksSection, type Finding } from './finding.ts'
import { type Gateway, startGateway, withDatabase } from './gateway.ts'
import { bigCustomerEmail, generateUsage } from './generate-usage.ts'
import { describePinning, type Machine, prepareMachine, reportHead } from './machine.ts'
import { type Goal, goalsSection, markdownPage, markdownTable } from './markdown.ts'
import { measurePaging, type PagingFigures } from './measure-paging.ts'
import { percentile } from './percentile.ts'
import { printProgress } from './print-progress.ts'
import { pin, startUpstream } from './process.ts'
import { readRssMb } from './process-usage.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { benchConfig } from './subjects/switchyard.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:usage`: measures the usage reports over a year of requests. See bench/README.md. */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '20000000' },
    'export-rows': { type: 'string', default: '1000000' },
    'paging-rows': { type: 'string', default: '1000000' },
    'data-dir': { type: 'string' },
    'skip-audit': { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
  },
})
const paths: [path: string, times: number][] = [
  ['/v1/usage', 1000],
  ['/v1/usage/tokens?days=30&interval=day', 300],
  ['/v1/usage/tokens?days=365&interval=hour', 100],
  ['/v1/usage/tokens?days=365&interval=month', 100],
  ['/v1/usage/breakdown?days=30', 300],
  ['/v1/usage/breakdown?days=365', 100],
  ['/v1/usage/requests?limit=100', 300],
  ['/v1/usage/requests?limit=1000', 100],
  ['/v1/usage/requests?limit=100&from=2020-01-01&success=false', 100],
  ['/v1/usage/requests?limit=100&model=qwen3-32b', 300],
  ['/v1/usage/requests?limit=100&model=unused-model', 100],
  ['/v1/credits', 100],
  ['/v1/credits/transactions', 100],
]

const BIG_CUSTOMER = 'half of all rows'
/** Smaller runs write no report. */
const REPORT_ROWS_MIN = 20_000_000
const LINE_FEED = 10
const rows = Number(values.rows)
const dir = makeBenchmarkDir()
const dataDir = values['data-dir'] ?? join(dir, 'data')
await runBenchmark(dir, bench, { profile: values.profile })

async function bench(): Promise<void> {
  const { cores, machine } = prepareMachine()
  const made = await fill()
  const upstream = await startUpstream(cores, dir)
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const gateway = await startGateway({
    dir: gatewayDir,
    dataDir,
    cores,
    profile: values.profile,
    config: benchConfig(upstream.origin),
  })
  const keyOf = async (email: string) => {
    const { key } = (await gateway.command('key', 'issue', email, '--name', 'bench')) as { key: string }
    return { authorization: `Bearer ${key}` }
  }
  const [big, small] = [await keyOf(bigCustomerEmail), await keyOf('customer-2@example.com')]
  pin(gateway.pid, cores?.subject)

  // First, while the heap of the process is still small.
  const exported = await measureExport(gateway, big, Number(values['export-rows']))
  const reports: ReportFigures[] = []
  for (const [customer, headers] of [
    [BIG_CUSTOMER, big],
    ['1/2,000 of all rows', small],
  ] as const) {
    for (const [path, times] of paths) reports.push(await measureReport(gateway, path, customer, headers, times))
  }
  const paging = await withDatabase(gateway, async pool => {
    const { rows } = await pool.query<{ customer_id: string }>('SELECT customer_id FROM customer WHERE email = $1', [
      bigCustomerEmail,
    ])
    const customerId = rows[0]!.customer_id
    return measurePaging(gateway, { pool, customerId, headers: big, rowsMax: Number(values['paging-rows']) })
  })
  printProgress(
    `paged through ${paging.rows} requests: p50 ${paging.p50Ms.toFixed(1)} ms, p99 ${paging.p99Ms.toFixed(1)} ms`,
  )
  const audit = values['skip-audit'] ? null : await timeAudit(gateway)
  await gateway.stop()

  const report = usageReport(machine, made, reports, paging, exported, audit)
  process.stdout.write(report)
  if (rows >= REPORT_ROWS_MIN) printProgress(`wrote ${writeReport('usage', report)}`)
}

function usageReport(
  machine: Machine,
  made: string,
  reports: ReportFigures[],
  paging: PagingFigures,
  exported: ExportFigures,
  auditSeconds: number | null,
): string {
  const figure = (path: string) => reports.find(each => each.path === path && each.customer === BIG_CUSTOMER)!
  const { rss } = exported
  const goals: Goal[] = [
    { goal: '`/v1/usage` p99, ms', value: figure('/v1/usage').p99Ms, limit: 30, isFloor: false },
    {
      goal: '`/v1/usage/tokens?days=365&interval=hour` p99, ms',
      value: figure('/v1/usage/tokens?days=365&interval=hour').p99Ms,
      limit: 150,
      isFloor: false,
    },
    { goal: 'one page of 100 requests while paging, p99, ms', value: paging.p99Ms, limit: 20, isFloor: false },
  ]
  // A young heap first grows to its working size, so the test for constant memory compares the second half with the first.
  if (rss !== null)
    goals.push({
      goal: 'peak RSS in the second half of the export over the first half, MB',
      value: rss.secondHalfMb - rss.firstHalfMb,
      limit: 20,
      isFloor: false,
    })
  const findings: Finding[] = [
    { ok: true, text: `the export has the ${count(exported.rows)} rows that the reports count` },
    { ok: true, text: `paging listed all ${count(paging.rows)} requests once and in order` },
    ...(auditSeconds === null ? [] : [{ ok: true, text: `ledger audit clean, after ${Math.round(auditSeconds)} s` }]),
  ]
  return markdownPage([
    reportHead(`Reports over ${count(rows)} usage rows`, `npm run bench:usage${commandLine()}`, machine, [
      ...describePinning(machine),
      made,
    ]),
    `## Reports\n\nOne call after the other, each answer read to its end.\n\n${markdownTable(
      ['report', 'customer', 'calls', 'p50 ms', 'p99 ms', 'body kB'],
      reports.map(each => [
        `\`${each.path}\``,
        each.customer,
        String(each.calls),
        each.p50Ms.toFixed(1),
        each.p99Ms.toFixed(1),
        (each.bytes / 1000).toFixed(1),
      ]),
    )}`,
    `## Paging\n\n100 requests per page, while new requests arrive and some are refunded.\n\n${markdownTable(
      ['figure', 'value'],
      [
        ['pages', count(paging.pages)],
        ['requests listed', count(paging.rows)],
        ['new requests during paging', count(paging.arrived)],
        ['refunds during paging', count(paging.refunded)],
        ['page, p50 ms', paging.p50Ms.toFixed(1)],
        ['page, p99 ms', paging.p99Ms.toFixed(1)],
        ['slowest page, ms', paging.slowestMs.toFixed(1)],
        ['receipt, p99 ms', paging.receiptP99Ms.toFixed(1)],
      ],
    )}`,
    `## CSV export\n\n${markdownTable(
      ['figure', 'value'],
      [
        ['rows', count(exported.rows)],
        ['MB', (exported.bytes / 1e6).toFixed(0)],
        ['seconds', exported.seconds.toFixed(1)],
        ['rows/s', count(Math.round(exported.rows / exported.seconds))],
        ['time to the first byte, ms', exported.firstByteMs.toFixed(0)],
        ...(rss === null
          ? []
          : [
              ['RSS of the gateway at the start, MB', rss.startMb.toFixed(0)],
              ['RSS after each tenth of the rows, MB', rss.tenthsMb.map(mb => mb.toFixed(0)).join(', ')],
              [
                'peak RSS in the first and the second half, MB',
                `${rss.firstHalfMb.toFixed(0)}, ${rss.secondHalfMb.toFixed(0)}`,
              ],
            ]),
        ['`/v1/usage` during the export, p50 ms', exported.summaryP50Ms.toFixed(1)],
        ['`/v1/usage` during the export, p99 ms', exported.summaryP99Ms.toFixed(1)],
      ],
    )}`,
    goalsSection(goals),
    checksSection(findings),
  ])
}

function count(value: number): string {
  return value.toLocaleString('en')
}

type ReportFigures = { path: string; customer: string; calls: number; p50Ms: number; p99Ms: number; bytes: number }

/** Fills the database unless an earlier run did. Returns the line of the report on the rows. */
async function fill(): Promise<string> {
  const database = await openDatabase({ dataDir, log: { info: printProgress, warn: printProgress } })
  try {
    await migrate(database.owner)
    const pool = createPool(database.owner, { max: 1, applicationName: 'bench usage', statementTimeoutMs: 0 })
    try {
      const { rowCount } = await pool.query('SELECT FROM customer WHERE email = $1', [bigCustomerEmail])
      if (rowCount !== 0) return '- rows: generated by an earlier run'
      const { seconds } = await generateUsage(pool, { rows, nowEpochMs: Date.now() })
      return `- rows: generated in ${Math.round(seconds)} s by bench/generate-usage.ts; one customer has half of them, and 1,000 customers share the rest`
    } finally {
      await pool.end()
    }
  } finally {
    await database.close()
  }
}

async function measureReport(
  gateway: Gateway,
  path: string,
  customer: string,
  headers: Record<string, string>,
  calls: number,
): Promise<ReportFigures> {
  const http = new HttpPool(gateway.origin, { connections: 1 })
  const call = async () => {
    const startedMs = performance.now()
    const { statusCode, body } = await http.request({ method: 'GET', path, headers })
    const bytes = (await body.arrayBuffer()).byteLength
    if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
    return { tookMs: performance.now() - startedMs, bytes }
  }
  for (let i = 0; i < calls / 5; i++) await call()
  const tookMs = new Float64Array(calls)
  let bytes = 0
  for (let i = 0; i < calls; i++) {
    const one = await call()
    tookMs[i] = one.tookMs
    bytes = one.bytes
  }
  await http.close()
  tookMs.sort()
  const figures = { path, customer, calls, p50Ms: percentile(tookMs, 0.5), p99Ms: percentile(tookMs, 0.99), bytes }
  printProgress(
    `${path}, customer with ${customer}: p50 ${figures.p50Ms.toFixed(1)} ms, p99 ${figures.p99Ms.toFixed(1)} ms, ${bytes} bytes`,
  )
  return figures
}

type ExportFigures = {
  rows: number
  bytes: number
  seconds: number
  firstByteMs: number
  rss: { startMb: number; tenthsMb: number[]; firstHalfMb: number; secondHalfMb: number } | null
  summaryP50Ms: number
  summaryP99Ms: number
}

/** Exports the fewest days with at least `rowsMin` rows. Counts the rows, and measures the gateway's memory and the latency of `/v1/usage`. */
async function measureExport(
  gateway: Gateway,
  headers: Record<string, string>,
  rowsMin: number,
): Promise<ExportFigures> {
  const countedIn = async (days: number) => {
    const response = await fetch(`${gateway.origin}/v1/usage/tokens?days=${days}&interval=month`, { headers })
    return ((await response.json()) as { totals: { requests: number } }).totals.requests
  }
  let days = 1
  while (days < 365 && (await countedIn(days)) < rowsMin) days++
  const expected = await countedIn(days)

  const startMb = readRssMb(gateway.pid)
  const tenthsMb: number[] = []
  let [lines, bytes, firstByteMs] = [0, 0, 0]
  const halvesMb: [number, number] = [0, 0]
  const sampling = setInterval(() => {
    const half = lines < expected / 2 ? 0 : 1
    halvesMb[half] = Math.max(halvesMb[half], readRssMb(gateway.pid) ?? 0)
  }, 50)
  let exporting = true
  const summariesMs: number[] = []
  const requestingSummaries = (async () => {
    while (exporting) {
      const startedMs = performance.now()
      await (await fetch(`${gateway.origin}/v1/usage`, { headers })).arrayBuffer()
      summariesMs.push(performance.now() - startedMs)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  })()

  const startedMs = performance.now()
  const response = await fetch(`${gateway.origin}/v1/usage/export?days=${days}`, { headers })
  for await (const piece of response.body as AsyncIterable<Uint8Array>) {
    if (bytes === 0) firstByteMs = performance.now() - startedMs
    bytes += piece.length
    for (let at = piece.indexOf(LINE_FEED); at !== -1; at = piece.indexOf(LINE_FEED, at + 1)) lines++
    if (startMb !== null && lines > ((tenthsMb.length + 1) * expected) / 10) tenthsMb.push(readRssMb(gateway.pid)!)
  }
  const seconds = (performance.now() - startedMs) / 1000
  exporting = false
  await requestingSummaries
  clearInterval(sampling)
  const exportedRows = lines - 1
  if (exportedRows !== expected)
    throw new Error(`the export of ${days} days has ${exportedRows} rows, the reports count ${expected}`)
  printProgress(
    `export of ${exportedRows} rows in ${seconds.toFixed(1)} s, RSS ${startMb} to ${Math.max(...halvesMb)} MB`,
  )
  summariesMs.sort((a, b) => a - b)
  return {
    rows: exportedRows,
    bytes,
    seconds,
    firstByteMs,
    rss: startMb === null ? null : { startMb, tenthsMb, firstHalfMb: halvesMb[0], secondHalfMb: halvesMb[1] },
    summaryP50Ms: percentile(summariesMs, 0.5),
    summaryP99Ms: percentile(summariesMs, 0.99),
  }
}

/** Returns the seconds of a clean audit; throws otherwise. */
async function timeAudit(gateway: Gateway): Promise<number> {
  const startedMs = performance.now()
  await gateway.command('ledger', 'audit')
  return (performance.now() - startedMs) / 1000
}

function commandLine(): string {
  // Reports contain no paths of the machine.
  const flags = process.argv.slice(2).map((flag, at, all) => {
    if (all[at - 1] === '--data-dir') return 'DIR'
    return flag.replace(/^--data-dir=.*/, '--data-dir=DIR')
  })
  return flags.length === 0 ? '' : ` -- ${flags.join(' ')}`
}
