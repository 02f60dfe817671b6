import type { CellCosts } from './cell-costs.ts'
import { DAY_S } from './draw-day.ts'
import { costOfWork, settleCallsPerS } from './ledger-costs.ts'
import type { PlacedCell } from './place-customers.ts'
import { hourlyRates, sumRowsOf, type Work, workOf } from './work.ts'

/** The traffic of all cells, and what is kept of it. */
export interface Traffic {
  readonly cells: number
  readonly customers: number
  readonly requestsPerDay: number
  /** The rate at the peak of the day, relative to the mean. */
  readonly peak: number
  /** How many months of usage rows are kept. Older ones are archived, and leave sums behind. */
  readonly keepMonths: number
}

/** Figures of other reports. */
export interface CitedCosts {
  /** A gateway that serves a request. */
  readonly gatewayCpuUs: number
  /** A gateway that passes a request on to another cell. */
  readonly hopCpuUs: number
  /** What an archived request leaves in the database. */
  readonly archivedBytes: number
}

/** What a cell needs. */
export interface CellLoad {
  readonly requestsPerDay: number
  readonly requestsPerSAtPeak: number
  /** CPU of gateways, which also pass on requests to other cells. */
  readonly gatewayCoresAtPeak: number
  readonly coresAtPeak: number
  readonly walBytesPerSAtPeak: number
  readonly walBytesPerDay: number
  readonly rowsPerDay: number
  readonly bytesPerDay: number
  /** The part of `bytesPerDay` that no archive removes: the ledger and the sums. */
  readonly keptBytesPerDay: number
  /** After a year of such days. */
  readonly diskBytes: number
  readonly workAtPeak: Work
}

const DAYS_OF_MONTH = 365 / 12

export function loadOf(cell: PlacedCell, traffic: Traffic, costs: CellCosts, cited: CitedCosts): CellLoad {
  const { cells, peak, requestsPerDay, keepMonths } = traffic
  const meanPerS = requestsPerDay / DAY_S
  const workAtPeak = workOf(cell.population, meanPerS * peak)
  const passedOnPerS = (1 - 1 / cells) * ((meanPerS * peak) / cells)
  const gatewayCoresAtPeak = (workAtPeak.requests * cited.gatewayCpuUs + passedOnPerS * cited.hopCpuUs) / 1e6
  const nodes = Math.max(Math.ceil(gatewayCoresAtPeak), 1)
  const hours = hourlyRates(peak).map(rate => workOf(cell.population, meanPerS * rate))
  const perDay = (readFigure: (work: Work) => number) => hours.reduce((sum, work) => sum + readFigure(work) * 3_600, 0)

  const { bytesPerRow } = costs
  const requests = perDay(work => work.requests)
  const ledgerTxs = perDay(work => settleCallsPerS(work, nodes))
  // Each customer of a transaction, the hoster, and the platform.
  const ledgerEntries = perDay(work => work.strictRequests + work.bulkCustomers) + 2 * ledgerTxs
  const sums = sumRowsOf(cell.population, requestsPerDay, peak)
  const usageBytes = requests * bytesPerRow.usageEvent
  const keptBytesPerDay =
    ledgerTxs * bytesPerRow.ledgerTx +
    ledgerEntries * bytesPerRow.ledgerEntry +
    sums.hours * bytesPerRow.usageHour +
    sums.days * (bytesPerRow.usageDay + bytesPerRow.usageKeyDay)
  const archivedBytes = requests * cited.archivedBytes
  const ownBytes = cell.customers * costs.bytesPerCustomer
  const directoryBytes = (traffic.customers - cell.customers) * costs.directoryBytesPerKey
  return {
    requestsPerDay: requests,
    requestsPerSAtPeak: workAtPeak.requests,
    gatewayCoresAtPeak,
    coresAtPeak: cpuUsPerS(workAtPeak, costs, nodes) / 1e6,
    walBytesPerSAtPeak: walBytesPerS(workAtPeak, costs, nodes),
    walBytesPerDay: perDay(work => walBytesPerS(work, costs, nodes)),
    rowsPerDay: requests + ledgerTxs + ledgerEntries + sums.hours + 2 * sums.days,
    bytesPerDay: usageBytes + keptBytesPerDay,
    keptBytesPerDay,
    diskBytes:
      DAYS_OF_MONTH * (keepMonths * usageBytes + (12 - keepMonths) * archivedBytes) +
      365 * keptBytesPerDay +
      ownBytes +
      directoryBytes,
    workAtPeak,
  }
}

function cpuUsPerS(work: Work, costs: CellCosts, nodes: number): number {
  const calls = costOfWork(work, costs.cpuUs, nodes, costs.admissionS)
  const lookUps = work.keyLookUps * costs.keyLookUpCpuUs
  return (calls + lookUps) * (1 + costs.othersCpuShare) + work.requests * costs.vacuumCpuUsPerRequest
}

function walBytesPerS(work: Work, costs: CellCosts, nodes: number): number {
  return (
    costOfWork(work, costs.walBytes, nodes, costs.admissionS) +
    work.firstTouches * costs.firstTouchWalBytes +
    work.requests * costs.vacuumWalBytesPerRequest
  )
}
