// Measures what requests cost the PostgreSQL of a cell, and simulates a day of many cells from it: `npm run sim:cells`. Writes
// bench/results/cells.md.
import { parseArgs } from 'node:util'
import { readMachine } from '../../bench/machine.ts'
import { printProgress } from '../../bench/print-progress.ts'
import { makeBenchmarkDir, runBenchmark } from '../../bench/run-benchmark.ts'
import { writeReport } from '../../bench/write-report.ts'
import { cellCostsOf } from './cell-costs.ts'
import { cellsReport } from './cells-report.ts'
import { readCitedFigure } from './cited-figure.ts'
import { measureCell } from './measure-cell.ts'
import { LARGE } from './measure-ledger.ts'
import type { CellMachine } from './saturation.ts'
import { type CellSetup, simulateCells } from './simulate-cells.ts'

const options = {
  cells: { type: 'string', default: '100' },
  customers: { type: 'string', default: '10000000' },
  requests: { type: 'string', default: '1000000000' },
  peak: { type: 'string', default: '1.8' },
  'keep-months': { type: 'string', default: '3' },
  cores: { type: 'string', default: '8' },
  'disk-tb': { type: 'string', default: '2' },
  seed: { type: 'string', default: '1' },
  'measured-customers': { type: 'string', default: '5120' },
} as const
const { values } = parseArgs({ options })
const traffic = {
  cells: Number(values.cells),
  customers: Number(values.customers),
  requestsPerDay: Number(values.requests),
  peak: Number(values.peak),
  keepMonths: Number(values['keep-months']),
}
const measuredCustomers = Number(values['measured-customers'])
if (!(measuredCustomers > 0 && measuredCustomers % LARGE === 0)) {
  printProgress(`--measured-customers must be a multiple of ${LARGE}`)
  process.exit(2)
}
if (!(traffic.peak >= 1 && traffic.peak <= 2 && traffic.keepMonths <= 12 && traffic.cells <= 65_535)) {
  printProgress('--peak must be 1 to 2, --keep-months at most 12, and --cells at most 65,535')
  process.exit(2)
}

const EXPONENTS = [0.8, 1, 1.2]
/** Numbers of cells that are compared. */
const SIZES = [1, 10, 100]
const DIRECTORY_KEYS = 100_000
/** Smaller simulations write no report. */
const REPORT_CUSTOMERS_MIN = 10_000_000
/** `max_connections` of the tests of postgres.md. */
const CONNECTIONS = 300

const dir = makeBenchmarkDir()
await runBenchmark(dir, async () => {
  const machine = readMachine(null)
  const measured = await measureCell(dir, measuredCustomers, DIRECTORY_KEYS)
  const cellMachine: CellMachine = {
    cores: Number(values.cores),
    diskBytes: Number(values['disk-tb']) * 1e12,
    diskBytesPerS: measured.diskBytesPerS,
    connections: CONNECTIONS,
  }
  const setup: CellSetup = { traffic, machine: cellMachine, costs: cellCostsOf(measured), cited: readCited() }
  const seed = Number(values.seed)
  const results = EXPONENTS.map(exponent => {
    printProgress(`simulating s = ${exponent}`)
    return simulateCells(setup, exponent, seed, SIZES)
  })
  const command = ['npm run sim:cells', ...process.argv.slice(2)].join(' ').replace('cells --', 'cells -- --')
  const report = cellsReport({ machine, command, seed, measured, setup, results })
  process.stdout.write(report)
  if (traffic.customers >= REPORT_CUSTOMERS_MIN) printProgress(`wrote ${writeReport('cells', report)}`)
})

function readCited() {
  const manyCustomers = 'Switchyard at 128 connections: one customer and many'
  return {
    gatewayCpuUs: readCitedFigure('benchmark', manyCustomers, '10,000 customers, Zipf', 'gateway CPU µs/request'),
    hopCpuUs: readCitedFigure(
      'benchmark',
      'Non-streamed answers of 300 bytes, 128 connections',
      'relay',
      'CPU µs/request',
    ),
    archivedBytes: readCitedFigure('storage', 'Archives', 'bytes of the sums that stay per row', 'value'),
  }
}
