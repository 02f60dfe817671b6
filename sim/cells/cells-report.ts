import { type Machine, reportHead } from '../../bench/machine.ts'
import { markdownPage, markdownTable } from '../../bench/markdown.ts'
import { percentile } from '../../bench/percentile.ts'
import type { CellCosts } from './cell-costs.ts'
import type { MeasuredCell } from './measure-cell.ts'
import type { CallSample } from './measure-ledger.ts'
import { resources } from './saturation.ts'
import type { CellSetup, SimulatedCell, SimulatedCells } from './simulate-cells.ts'

export interface CellsReport {
  readonly machine: Machine
  readonly command: string
  readonly seed: number
  readonly measured: MeasuredCell
  readonly setup: CellSetup
  /** One for each exponent of Zipf's law. */
  readonly results: readonly SimulatedCells[]
}

/** The text of bench/results/cells.md. */
export function cellsReport(report: CellsReport): string {
  const { machine, command, measured, setup, results } = report
  return markdownPage([
    reportHead('Cells', command, machine, headLines(report)),
    `## Measured: calls of the ledger\n\nOn a PostgreSQL with ${count(measured.customers)} customers, one call after the other. Each item is one request or one lease. After a checkpoint, each page is written to the WAL as a whole at its first change.`,
    callsTable(measured.ledger.samples),
    '## Measured: rows and the rest\n\nBytes per row: of balances and sums without dead rows, of the others as the requests left them.',
    measuredTable(measured, setup.costs),
    bytesTable(measured),
    ...results.map(
      result =>
        `## A day, s = ${result.exponent}\n\nThe largest customer sends ${percent(result.largestShare)} of all requests.\n\n${dayTable(setup, result.cells)}`,
    ),
    `## What saturates first\n\nWhat the busiest cell uses at the peak of the day, and the requests a day of all cells at which it has no more.\n\n${usesTable(results)}`,
    `## How many cells\n\nThe requests a day of all cells at which the busiest cell has no more of the first resource, and of the second. Left out, because a customer can avoid them: all requests with one key, and spend limits of keys.\n\n${sizesTable(results)}`,
    `## Moves\n\nThe largest customers move from the busiest cell to the emptiest, until no cell has a tenth more than the mean or than the largest customer, or until none of the 10,000 largest customers helps.\n\n${movesTable(setup, results)}`,
    `## Fronts\n\nThe work that cells add at the peak of the day, in each cell, when a proxy spreads requests evenly over all cells.\n\n${frontsTable(setup, measured, results)}`,
  ])
}

function headLines({ seed, setup }: CellsReport): string[] {
  const { traffic, machine, cited } = setup
  return [
    `- simulated: ${traffic.cells} cells, ${count(traffic.customers)} customers with a key each, ${count(traffic.requestsPerDay)} requests a day, ${traffic.peak} times the mean at the peak; usage rows of ${traffic.keepMonths} months; seed ${seed}`,
    `- each cell, as chosen: a PostgreSQL with ${machine.cores} cores like those of this machine, and ${machine.diskBytes / 1e12} TB`,
    `- each cell, as measured: ${megabytes(machine.diskBytesPerS)} MB/s of its disk, in this run; ${machine.connections} connections ([postgres.md](postgres.md))`,
    `- from [benchmark.md](benchmark.md): ${cited.gatewayCpuUs} µs of a gateway for a request of 10,000 customers by Zipf, and ${cited.hopCpuUs} µs of the bare relay for one that is passed on; from [storage.md](storage.md): ${cited.archivedBytes} bytes that an archived request leaves`,
    '- the model, and what the figures mean: [docs/scaling.md](../../docs/scaling.md#how-far-cells-go)',
  ]
}

function callsTable(samples: readonly CallSample[]): string {
  return markdownTable(
    [
      'call',
      'lease',
      'items',
      'customers',
      'pages changed since a checkpoint',
      'calls',
      'CPU µs per item',
      'WAL bytes per item',
    ],
    samples.map(sample => [
      sample.call,
      sample.lease,
      count(sample.items),
      count(sample.customers),
      sample.isAfterCheckpoint ? 'no' : 'yes',
      count(sample.calls),
      (sample.cpuUsPerCall / sample.items).toFixed(0),
      (sample.walBytesPerCall / sample.items).toFixed(0),
    ]),
  )
}

function measuredTable({ atRest, directory }: MeasuredCell, costs: CellCosts): string {
  return markdownTable(
    ['figure', 'value'],
    [
      ['a customer with one key: rows', atRest.rows.toFixed(1)],
      ['a customer with one key: bytes, with indexes', atRest.bytes.toFixed(0)],
      ['a customer with one key: bytes of WAL when it is added', atRest.walBytes.toFixed(0)],
      ['a key of another cell: bytes, with index', directory.bytesPerKey.toFixed(0)],
      ['a key of another cell: bytes of WAL when it is replicated', directory.walBytesPerKey.toFixed(0)],
      ['finding the cell of a key: CPU µs', directory.findCellCpuUs.toFixed(0)],
      ['finding the customer of a key: CPU µs', directory.authenticateCpuUs.toFixed(0)],
      ['first request of a customer after a checkpoint: more bytes of WAL', costs.firstTouchWalBytes.toFixed(0)],
      ['vacuum, per request: CPU µs', costs.vacuumCpuUsPerRequest.toFixed(1)],
      ['vacuum, per request: bytes of WAL', costs.vacuumWalBytesPerRequest.toFixed(0)],
      ['other processes of PostgreSQL, of the CPU of the calls', percent(costs.othersCpuShare)],
      ['requests/s that the row of one balance allows at most, strict leases', count(costs.strictRequestsPerSOfOne)],
      ['requests/s that the row of one bulk lease allows at most', count(costs.bulkRequestsPerSOfOne)],
    ],
  )
}

function bytesTable({ tables, atRest }: MeasuredCell): string {
  const rows = [...tables]
    .filter(([, { rows }]) => rows >= 1_000)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { rows, bytes }]) => [
      name,
      (bytes / rows).toFixed(0),
      (atRest.tables.get(name)?.rows ?? 0).toFixed(0),
    ])
  return markdownTable(['table', 'bytes per row, with indexes', 'rows of a customer at rest'], rows)
}

function dayTable({ traffic }: CellSetup, cells: readonly SimulatedCell[]): string {
  const row = (name: string, readFigure: (cell: SimulatedCell) => number, text: (value: number) => string) => {
    const sorted = cells.map(readFigure).sort((a, b) => a - b)
    return [name, ...[0.5, 0.99, 1].map(share => text(percentile(sorted, share)))]
  }
  return markdownTable(
    ['of a cell', 'median', 'p99', 'worst'],
    [
      row('customers', ({ placed }) => placed.customers, count),
      row('requests of the day, million', ({ day }) => day.requests / 1e6, oneDigit),
      row('requests/s at the peak', ({ load }) => load.requestsPerSAtPeak, count),
      row(
        'requests by strict leases, at the peak',
        ({ load }) => load.workAtPeak.strictRequests / load.workAtPeak.requests,
        percent,
      ),
      row('requests in the busiest second', ({ day }) => day.requestsInBusiestSecond, count),
      row('rows a day, million', ({ load }) => load.rowsPerDay / 1e6, oneDigit),
      row('GB of rows a day', ({ load }) => load.bytesPerDay / 1e9, oneDigit),
      row('GB of them ledger and sums, which stay', ({ load }) => load.keptBytesPerDay / 1e9, oneDigit),
      row('GB of WAL a day', ({ load }) => load.walBytesPerDay / 1e9, oneDigit),
      row('MB/s of WAL at the peak', ({ load }) => load.walBytesPerSAtPeak / 1e6, oneDigit),
      row('cores of PostgreSQL at the peak', ({ load }) => load.coresAtPeak, twoDigits),
      row('cores of gateways at the peak', ({ load }) => load.gatewayCoresAtPeak, twoDigits),
      row(
        `GB after a year, usage rows of ${traffic.keepMonths} months kept`,
        ({ load }) => load.diskBytes / 1e9,
        count,
      ),
    ],
  )
}

function usesTable(results: readonly SimulatedCells[]): string {
  return markdownTable(
    ['resource', ...results.map(({ exponent }) => `s = ${exponent}: used, full at`)],
    resources.map(resource => [
      resource,
      ...results.map(
        ({ uses, requestsUntilFull }) => `${percent(uses[resource])}, ${amount(requestsUntilFull[resource])}`,
      ),
    ]),
  )
}

function sizesTable(results: readonly SimulatedCells[]): string {
  const sizes = results[0]?.sizes.map(({ cells }) => cells) ?? []
  return markdownTable(
    ['cells', ...results.map(({ exponent }) => `s = ${exponent}`)],
    sizes.map((cells, at) => [
      count(cells),
      ...results.map(result => {
        const limits = result.sizes[at]?.limits ?? []
        return limits.map(({ resource, requestsPerDay }) => `${amount(requestsPerDay)}: ${resource}`).join('; ')
      }),
    ]),
  )
}

function movesTable({ traffic }: CellSetup, results: readonly SimulatedCells[]): string {
  const times = (share: number) => `${oneDigit(share * traffic.cells)} ×`
  return markdownTable(
    ['s', 'moves', 'busiest cell before, of the mean', 'after', 'largest customer alone'],
    results.map(({ exponent, moves, largestShare }) => [
      String(exponent),
      count(moves.moves),
      times(moves.busiestBefore),
      times(moves.busiestAfter),
      times(largestShare),
    ]),
  )
}

function frontsTable({ traffic, costs, cited }: CellSetup, measured: MeasuredCell, results: readonly SimulatedCells[]) {
  const passedOn = 1 - 1 / traffic.cells
  const perS = (passedOn * traffic.requestsPerDay * traffic.peak) / 86_400 / traffic.cells
  const lookUps = results.map(({ cells }) => {
    const sum = cells.reduce((total, { load }) => total + load.workAtPeak.keyLookUps, 0)
    return sum / traffic.cells
  })
  const directoryBytes = (traffic.customers * (1 - 1 / traffic.cells) * costs.directoryBytesPerKey) / 1e9
  return markdownTable(
    ['figure', ...results.map(({ exponent }) => `s = ${exponent}`)],
    [
      ['requests that a front passes on', ...results.map(() => percent(passedOn))],
      ['requests/s that the gateways of a cell pass on', ...results.map(() => count(perS))],
      ['cores of gateways for it', ...results.map(() => twoDigits((perS * cited.hopCpuUs) / 1e6))],
      ['keys/s that are looked up in a cell', ...lookUps.map(count)],
      [
        'cores of PostgreSQL for finding cells',
        ...lookUps.map(keys => twoDigits((2 * keys * measured.directory.findCellCpuUs) / 1e6)),
      ],
      ['GB of keys of other cells', ...results.map(() => oneDigit(directoryBytes))],
      ['connections of replication, to and from a cell', ...results.map(() => count(2 * (traffic.cells - 1)))],
    ],
  )
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en')
}

function oneDigit(value: number): string {
  return value.toFixed(1)
}

function twoDigits(value: number): string {
  return value.toFixed(2)
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}

function amount(requests: number): string {
  return requests < 10e9 ? `${count(requests / 1e6)} million` : `${count(requests / 1e9)} billion`
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(0)
}
