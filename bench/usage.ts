import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Pool as HttpPool } from 'undici'
import { openDatabase } from '../src/db/embedded.ts'
import { migrate } from '../src/db/migrate.ts'
import { createPool } from '../src/db/pool.ts'
import { type Gateway, startGateway, withDatabase } from './gateway.ts'
import { bigCustomerEmail, generateUsage } from './generate-usage.ts'
import { describeMachine, readMachine } from './machine.ts'
import { goalRow, markdownTable } from './markdown.ts'
import { measurePaging } from './measure-paging.ts'
import { percentile } from './percentile.ts'
import { pin, planCores, startServer } from './process.ts'
import { readRssMb } from './process-usage.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { say } from './say.ts'
import { benchConfig } from './subjects/switchyard.ts'

/** `npm run bench:usage`: what the reports take with years of usage behind them. See bench/README.md. */
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
  ['/v1/usage/requests?limit=100&model=nobody-asked-for-this', 100],
  ['/v1/credits', 100],
  ['/v1/credits/transactions', 100],
]

const LINE_FEED = 10
const rows = Number(values.rows)
const dir = makeBenchmarkDir()
const dataDir = values['data-dir'] ?? join(dir, 'data')
await runBenchmark(dir, bench, { profile: values.profile })

async function bench(): Promise<void> {
  const cores = planCores()
  if (cores !== null) pin(process.pid, cores.load)
  const machine = readMachine(cores)
  const made = await fill()
  const upstream = await startServer('upstream.ts', [], { core: cores?.upstream, logFile: join(dir, 'upstream.log') })
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

  // First, in a process that has done little else: afterwards its heap has grown anyway.
  const exported = await measureExport(gateway, big, Number(values['export-rows']))
  const reports: ReportFigures[] = []
  for (const [who, headers] of [
    ['half of all rows', big],
    ['a 2,000th', small],
  ] as const) {
    for (const [path, times] of paths) reports.push(await measureReport(gateway, path, who, headers, times))
  }
  const paging = await withDatabase(gateway, async pool => {
    const { rows } = await pool.query<{ customer_id: string }>('SELECT customer_id FROM customer WHERE email = $1', [
      bigCustomerEmail,
    ])
    const customerId = rows[0]!.customer_id
    return measurePaging(gateway, { pool, customerId, headers: big, rowsMax: Number(values['paging-rows']) })
  })
  say(`paged through ${paging.rows} requests: p50 ${paging.p50Ms.toFixed(1)} ms, p99 ${paging.p99Ms.toFixed(1)} ms`)
  const audit = values['skip-audit'] ? null : await timeAudit(gateway)
  await gateway.stop()

  const figure = (path: string) => reports.find(each => each.path === path && each.who === 'half of all rows')!
  // The heap of a young process first grows to the size its garbage collector likes; memory is flat if the second half needs no more.
  const rssGrowthMb = exported.rss === null ? null : exported.rss.secondHalfMb - exported.rss.firstHalfMb
  const text = [
    `# Reports over ${rows.toLocaleString('en')} usage rows, ${machine.startedAt.slice(0, 16).replace('T', ' ')} UTC`,
    [
      `- command: \`npm run bench:usage${commandLine()}\`, commit ${machine.commit}`,
      ...describeMachine(machine),
      made,
    ].join('\n'),
    `## Reports, one after the other, body read to the end\n\n${markdownTable(
      ['', 'customer with', 'calls', 'p50 ms', 'p99 ms', 'body kB'],
      reports.map(each => [
        `\`${each.path}\``,
        each.who,
        String(each.calls),
        each.p50Ms.toFixed(1),
        each.p99Ms.toFixed(1),
        (each.bytes / 1000).toFixed(1),
      ]),
    )}`,
    `## Paging through the requests, 100 a page, while new ones arrive and some are refunded\n\n${markdownTable(
      ['', ''],
      [
        ['pages', paging.pages.toLocaleString('en')],
        ['requests listed', paging.rows.toLocaleString('en')],
        ['requests that arrived meanwhile', paging.arrived.toLocaleString('en')],
        ['refunds meanwhile', paging.refunded.toLocaleString('en')],
        ['a page, p50 ms', paging.p50Ms.toFixed(1)],
        ['a page, p99 ms', paging.p99Ms.toFixed(1)],
        ['the slowest page, ms', paging.slowestMs.toFixed(1)],
        ['a receipt, p99 ms', paging.receiptP99Ms.toFixed(1)],
      ],
    )}`,
    `## CSV export\n\n${markdownTable(
      ['', ''],
      [
        ['rows', exported.rows.toLocaleString('en')],
        ['MB', (exported.bytes / 1e6).toFixed(0)],
        ['seconds', exported.seconds.toFixed(1)],
        ['rows/s', Math.round(exported.rows / exported.seconds).toLocaleString('en')],
        ['first byte after, ms', exported.firstByteMs.toFixed(0)],
        ...(exported.rss === null
          ? []
          : [
              ['RSS of the gateway at the start, MB', exported.rss.startMb.toFixed(0)],
              ['RSS after each tenth of the rows, MB', exported.rss.tenthsMb.map(mb => mb.toFixed(0)).join(', ')],
              [
                'RSS, highest in the first and the second half, MB',
                `${exported.rss.firstHalfMb.toFixed(0)}, ${exported.rss.secondHalfMb.toFixed(0)}`,
              ],
            ]),
        ['`/v1/usage` during the export, p50 ms', exported.summaryP50Ms.toFixed(1)],
        ['`/v1/usage` during the export, p99 ms', exported.summaryP99Ms.toFixed(1)],
      ],
    )}`,
    `## Goals\n\n${markdownTable(
      ['', 'measured', 'goal', ''],
      [
        goalRow({ goal: '`/v1/usage` p99, ms', value: figure('/v1/usage').p99Ms, limit: 30, isFloor: false }),
        goalRow({
          goal: '`/v1/usage/tokens?days=365&interval=hour` p99, ms',
          value: figure('/v1/usage/tokens?days=365&interval=hour').p99Ms,
          limit: 150,
          isFloor: false,
        }),
        goalRow({
          goal: 'a page of `/v1/usage/requests?limit=100`, of all that were paged through, p99, ms',
          value: paging.p99Ms,
          limit: 20,
          isFloor: false,
        }),
        ...(rssGrowthMb === null
          ? []
          : [
              goalRow({
                goal: 'RSS of the gateway, second half of the export over the first, MB',
                value: rssGrowthMb,
                limit: 20,
                isFloor: false,
              }),
            ]),
      ],
    )}`,
    `## Checks\n\n${[`- ok: the export has the ${exported.rows.toLocaleString('en')} rows that the reports count`, `- ok: paging listed the ${paging.rows.toLocaleString('en')} requests there were, each once and in order`, ...(audit === null ? [] : [audit])].join('\n')}`,
  ].join('\n\n')
  process.stdout.write(`${text}\n`)
  if (rows >= 20_000_000) {
    const file = `bench/results/${machine.startedAt.slice(0, 10)}-usage.md`
    writeFileSync(new URL(`../${file}`, import.meta.url), `${text}\n`)
    say(`wrote ${file}`)
  }
}

type ReportFigures = { path: string; who: string; calls: number; p50Ms: number; p99Ms: number; bytes: number }

/** Fills the database unless it was filled before; returns the line of the report that says how. */
async function fill(): Promise<string> {
  const database = await openDatabase({ dataDir, log: { info: say, warn: say } })
  try {
    await migrate(database.connection)
    const pool = createPool(database.connection, { max: 1, applicationName: 'bench usage', statementTimeoutMs: 0 })
    try {
      const { rowCount } = await pool.query('SELECT FROM customer WHERE email = $1', [bigCustomerEmail])
      if (rowCount !== 0) return '- rows: generated by an earlier run'
      const { seconds } = await generateUsage(pool, { rows, nowEpochMs: Date.now(), say })
      return `- rows: generated in ${Math.round(seconds)} s by bench/generate-usage.ts; one customer has half of them, 1,000 share the rest`
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
  who: string,
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
  const figures = { path, who, calls, p50Ms: percentile(tookMs, 0.5), p99Ms: percentile(tookMs, 0.99), bytes }
  say(
    `${path} of the customer with ${who}: p50 ${figures.p50Ms.toFixed(1)} ms, p99 ${figures.p99Ms.toFixed(1)} ms, ${bytes} bytes`,
  )
  return figures
}

/** Exports the fewest days that hold `rowsMin` rows, counts what arrives, and watches the gateway's memory and how `/v1/usage` fares meanwhile. */
async function measureExport(gateway: Gateway, headers: Record<string, string>, rowsMin: number) {
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
  const askingForSummaries = (async () => {
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
  await askingForSummaries
  clearInterval(sampling)
  const exportedRows = lines - 1
  if (exportedRows !== expected)
    throw new Error(`the export of ${days} days has ${exportedRows} rows, the reports count ${expected}`)
  say(`export of ${exportedRows} rows in ${seconds.toFixed(1)} s, RSS ${startMb} to ${Math.max(...halvesMb)} MB`)
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

async function timeAudit(gateway: Gateway): Promise<string> {
  const startedMs = performance.now()
  await gateway.command('ledger', 'audit')
  return `- ok: ledger audit clean, after ${Math.round((performance.now() - startedMs) / 1000)} s`
}

function commandLine(): string {
  // Whose directory that is, is nobody's business.
  const flags = process.argv.slice(2).map((flag, at, all) => {
    if (all[at - 1] === '--data-dir') return 'DIR'
    return flag.replace(/^--data-dir=.*/, '--data-dir=DIR')
  })
  return flags.length === 0 ? '' : ` -- ${flags.join(' ')}`
}
