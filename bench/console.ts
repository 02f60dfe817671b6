import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { migrate } from '../src/base/db/migrate.ts'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool, type Pool } from '../src/base/db/pool.ts'
import { mintApiKey } from '../src/identity/auth/api-key.ts'
import { openConsoles, type Viewers } from './console/consoles.ts'
import { addKey, fillForConsole, makeEntrants, PASSWORD } from './console/fill.ts'
import { measurePaints, type PaintFigures } from './console/paint.ts'
import {
  customerScreens,
  measureScreen,
  operatorScreens,
  type Screen,
  type ScreenFigures,
  type ScreenPlaces,
} from './console/screens.ts'
import { type Gateway, startGateway, withDatabase } from './gateway.ts'
import { bigCustomerEmail } from './generate-usage.ts'
import type { LoadResult } from './load.ts'
import { loadOnce } from './load-once.ts'
import { describePinning, type Machine, prepareMachine, reportHead } from './machine.ts'
import { type Goal, goalsSection, markdownPage, markdownTable } from './markdown.ts'
import { printProgress } from './print-progress.ts'
import { type Cores, coresOf, pin, type Running, startLoad, startUpstream } from './process.ts'
import { wholeBody } from './request-bodies.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { median, spread } from './spread.ts'
import { benchConfig, untilSettled } from './subjects/switchyard.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:console`: measures the screens of the console over much data, and the gateway with open pages. See bench/README.md. */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '5000000' },
    customers: { type: 'string', default: '10000' },
    keys: { type: 'string', default: '10000' },
    times: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '12' },
    seconds: { type: 'string', default: '5' },
    only: { type: 'string', default: 'screens,paint,load' },
    'data-dir': { type: 'string' },
  },
})
const parts = values.only.split(',')
const [rows, customers, keys] = [Number(values.rows), Number(values.customers), Number(values.keys)]
const [times, rounds, seconds] = [Number(values.times), Number(values.rounds), Number(values.seconds)]
/** Smaller runs write no report. */
const REPORT_ROWS_MIN = 5_000_000
const PAGES = 10
const CONNECTIONS = 128
const WARM_UP_REQUESTS = 20_000
const SCREEN_MS_MAX = 300
const PAINT_MS_MAX = 1_000
/** Rounds of the same kind differ by a few percent. */
const RATIO_MIN = 0.95
const PAINT_TIMES = 5

const dir = makeBenchmarkDir()
const dataDir = values['data-dir'] ?? join(dir, 'data')
await runBenchmark(dir, bench)

async function bench(): Promise<void> {
  const allCores = coresOf(process.pid) ?? undefined
  const { cores, machine } = prepareMachine()
  const made = await fill()
  const upstream = await startUpstream(cores, dir)
  const load = startLoad('load.ts', cores, dir)
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const gateway = await startGateway({ dir: gatewayDir, dataDir, cores, config: benchConfig(upstream.origin) })
  pin(gateway.pid, cores?.subject)
  const key = mintApiKey()
  const { viewers, places } = await withDatabase(gateway, async pool => {
    const entrants = await makeEntrants(pool)
    await addKey(pool, entrants.customerId, key)
    return {
      viewers: {
        origin: gateway.origin,
        customerId: entrants.customerId,
        ownerCookie: await enter(gateway, 'join', { token: entrants.invite, name: 'Ada', password: PASSWORD }),
        operatorCookie: await enter(gateway, 'welcome', { token: entrants.welcome, password: PASSWORD }),
      },
      places: await readPlaces(pool, entrants.customerId),
    }
  })

  const screens = [
    ...customerScreens(places).map(screen => ({ ...screen, cookie: viewers.ownerCookie })),
    ...operatorScreens(places).map(screen => ({ ...screen, cookie: viewers.operatorCookie })),
  ]
  const measured: ScreenFigures[] = parts.includes('screens') ? await measureScreens(gateway, screens) : []
  // A browser has many processes, and a person's machine has more than the core that this process shares with PostgreSQL.
  pin(process.pid, allCores)
  const paints = parts.includes('paint') ? await measurePaints(gateway.origin, screens, PAINT_TIMES) : []
  pin(process.pid, cores?.load)
  const loads = parts.includes('load') ? await measureLoad(gateway, load, viewers, key, cores) : null
  await gateway.stop()

  const report = consoleReport(machine, made, measured, paints, loads)
  process.stdout.write(report)
  const isWhole = rows >= REPORT_ROWS_MIN && measured.length > 0 && paints.length > 0 && loads !== null
  if (isWhole) printProgress(`wrote ${writeReport('console', report)}`)
}

/** Fills the database unless an earlier run did. Returns the line of the report on the rows. */
async function fill(): Promise<string> {
  const database = await openDatabase({ dataDir, log: { info: printProgress, warn: printProgress } })
  try {
    await migrate(database.owner)
    const pool = createPool(database.owner, { max: 1, applicationName: 'bench console', statementTimeoutMs: 0 })
    try {
      const { rowCount } = await pool.query('SELECT FROM customer WHERE email = $1', [bigCustomerEmail])
      if (rowCount !== 0) return '- rows: generated by an earlier run'
      const took = await fillForConsole(pool, { rows, customers, keys })
      return `- rows: generated in ${took} s`
    } finally {
      await pool.end()
    }
  } finally {
    await database.close()
  }
}

/** Enters with the token of a link. Returns the cookie of the session. */
async function enter({ origin }: Gateway, path: 'join' | 'welcome', body: object): Promise<string> {
  const response = await fetch(`${origin}/console/api/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify(body),
  })
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return response.headers.getSetCookie()[0]!.split(';')[0]!
}

async function readPlaces(pool: Pool, customerId: string): Promise<ScreenPlaces> {
  const { rows } = await pool.query<Omit<ScreenPlaces, 'customerId'>>(
    `SELECT (SELECT request_id::text FROM usage_event WHERE customer_id = $1 AND success ORDER BY request_id LIMIT 1) AS "requestId",
       (SELECT key_id::text FROM api_key WHERE customer_id = $1 LIMIT 1) AS "keyId",
       (SELECT rule_id::text FROM alert_rule WHERE customer_id = $1 LIMIT 1) AS "ruleId"`,
    [customerId],
  )
  return { customerId, ...rows[0]! }
}

async function measureScreens(
  { origin }: Gateway,
  screens: readonly (Screen & { readonly cookie: string })[],
): Promise<ScreenFigures[]> {
  const measured: ScreenFigures[] = []
  for (const screen of screens) {
    const headers = { cookie: screen.cookie, 'sec-fetch-site': 'same-origin' }
    const figures = await measureScreen(origin, screen, headers, times)
    measured.push(figures)
    printProgress(
      `${figures.name}: p50 ${figures.p50Ms.toFixed(0)} ms, p95 ${figures.p95Ms.toFixed(0)} ms, max ${figures.maxMs.toFixed(0)} ms`,
    )
  }
  return measured
}

interface LoadFigures {
  readonly alone: LoadResult[]
  readonly withPages: LoadResult[]
  readonly reads: number
  readonly events: number
}

/** Alternates rounds of load without and with open pages. The load is that of the customer whom the pages watch. */
async function measureLoad(
  gateway: Gateway,
  load: Running,
  viewers: Viewers,
  key: string,
  cores: Cores,
): Promise<LoadFigures> {
  const subject = {
    url: `${gateway.origin}/v1/chat/completions`,
    pid: gateway.pid,
    settled: () => untilSettled(gateway.metricsUrl),
  }
  for (const pid of gateway.processes()) pin(pid, cores?.subject)
  const round = async (requests: number) => {
    const headers = [{ authorization: `Bearer ${key}` }]
    const result = await loadOnce(load, subject, { headers, body: wholeBody, connections: CONNECTIONS, requests })
    if (result.failed > 0) throw new Error(`${result.failed} of ${result.sent} requests failed`)
    return result
  }
  const { rps } = await round(WARM_UP_REQUESTS)
  const requests = Math.ceil(rps * seconds)
  const figures = { alone: [] as LoadResult[], withPages: [] as LoadResult[], reads: 0, events: 0 }
  const alone = async () => {
    figures.alone.push(await round(requests))
  }
  const withPages = async () => {
    const close = openConsoles(viewers, PAGES)
    figures.withPages.push(await round(requests))
    const { reads, events } = await close()
    figures.reads += reads
    figures.events += events
  }
  for (let number = 0; number < rounds; number++) {
    for (const measure of number % 2 === 0 ? [alone, withPages] : [withPages, alone]) await measure()
    printProgress(
      `round ${number + 1}: ${Math.round(figures.alone.at(-1)!.rps)} req/s, with pages ${Math.round(figures.withPages.at(-1)!.rps)}`,
    )
  }
  return figures
}

function consoleReport(
  machine: Machine,
  made: string,
  screens: ScreenFigures[],
  paints: PaintFigures[],
  loads: LoadFigures | null,
): string {
  const goals: Goal[] = []
  const atMost = (goal: string, value: number, limit: number) => goals.push({ goal, value, limit, isFloor: false })
  if (screens.length > 0)
    atMost('p95 of the slowest screen, ms', Math.max(...screens.map(each => each.p95Ms)), SCREEN_MS_MAX)
  if (paints.length > 0)
    atMost('first paint of the slowest screen, ms', Math.max(...paints.map(each => each.firstPaintMaxMs)), PAINT_MS_MAX)
  if (loads !== null)
    goals.push({
      goal: `requests/s with ${PAGES} open pages over those without`,
      value: median(loads.withPages.map((each, index) => each.rps / loads.alone[index]!.rps))!,
      limit: RATIO_MIN,
      isFloor: true,
    })
  return markdownPage([
    reportHead(`The console over ${rows.toLocaleString('en')} requests`, 'npm run bench:console', machine, [
      ...describePinning(machine),
      `- one customer with ${rows.toLocaleString('en')} requests in 13 months, ${customers.toLocaleString('en')} customers with sums of their usage, ${keys.toLocaleString('en')} keys`,
      made,
    ]),
    ...(screens.length === 0 ? [] : [screensSection(screens)]),
    ...(paints.length === 0 ? [] : [paintsSection(paints)]),
    ...(loads === null ? [] : [loadSection(loads)]),
    goalsSection(goals),
  ])
}

function screensSection(screens: ScreenFigures[]): string {
  const place = /^\/console\/api\/(customers\/[\w-]{36}\/)?/
  return `## Data of the screens\n\nEach screen ${times} times: all its addresses at once over six connections, until the last answer is read.\n\n${markdownTable(
    ['screen', 'addresses', 'p50 ms', 'p95 ms', 'max ms', 'slowest address', 'p50 ms'],
    screens.map(each => [
      each.name,
      String(each.reads),
      each.p50Ms.toFixed(0),
      each.p95Ms.toFixed(0),
      each.maxMs.toFixed(0),
      `\`${each.slowest.replace(place, '').replaceAll(/[\w-]{36}/g, 'ID')}\``,
      each.slowestMs.toFixed(0),
    ]),
  )}`
}

function paintsSection(paints: PaintFigures[]): string {
  return `## In the browser\n\nChromium on all cores, 1280 x 900, ${PAINT_TIMES} times each from a blank page, the first without a cache. Times from the start of the navigation. First paint: the title of the screen is painted, next to the navigation.\n\n${markdownTable(
    ['screen', 'first paint, p50 ms', 'max ms', 'all data on screen, p50 ms', 'max ms'],
    paints.map(each => [
      each.name,
      ...[each.firstPaintMs, each.firstPaintMaxMs, each.dataMs, each.dataMaxMs].map(ms => ms.toFixed(0)),
    ]),
  )}`
}

function loadSection({ alone, withPages, reads, events }: LoadFigures): string {
  const row = (name: string, results: LoadResult[]) => [
    name,
    spread(
      results.map(each => each.rps),
      0,
    ),
    spread(
      results.map(each => each.p50Ms),
      1,
    ),
    spread(
      results.map(each => each.p99Ms),
      1,
    ),
    spread(
      results.map(each => each.cpuShare),
      2,
    ),
    spread(results.map(microsPerRequest), 1),
  ]
  const ratios = (of: (result: LoadResult) => number) =>
    spread(
      withPages.map((each, index) => of(each) / of(alone[index]!)),
      3,
    )
  return `## Requests with open pages\n\n${rounds} rounds of each kind in turns, ${CONNECTIONS} connections. Median, with the lowest and the highest round; the ratio is that of neighbouring rounds. The pages watch the customer that makes the requests: half of them its home screen, half the operator's overview. They got ${events} events and read ${reads} answers.\n\n${markdownTable(
    ['', 'requests/s', 'p50 ms', 'p99 ms', 'share of the core', 'CPU per request, µs'],
    [
      row('no page', alone),
      row(`${PAGES} pages`, withPages),
      [
        'ratio',
        ratios(each => each.rps),
        ratios(each => each.p50Ms),
        ratios(each => each.p99Ms),
        '',
        ratios(each => microsPerRequest(each) ?? Number.NaN),
      ],
    ],
  )}`
}

/** CPU time of the gateway, which also answers the pages. */
function microsPerRequest({ cpuShare, rps }: LoadResult): number | null {
  return cpuShare === null ? null : (cpuShare * 1e6) / rps
}
