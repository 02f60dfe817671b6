import { fitCall, fitSettleBulk, type LedgerCosts, type MeasuredCalls } from './ledger-costs.ts'
import type { MeasuredCell } from './measure-cell.ts'
import { type CallSample, LARGE, SMALL } from './measure-ledger.ts'

/** What the model of a cell computes with. */
export interface CellCosts {
  readonly cpuUs: LedgerCosts
  readonly walBytes: LedgerCosts
  /** The whole pages that the first request of a customer after a checkpoint writes, beyond what any request writes. */
  readonly firstTouchWalBytes: number
  readonly vacuumCpuUsPerRequest: number
  readonly vacuumWalBytesPerRequest: number
  /** CPU of the other processes of PostgreSQL, relative to that of the calls. */
  readonly othersCpuShare: number
  /** How long a call with one strict admission takes. */
  readonly admissionS: number
  /** PostgreSQL, to find the cell of a key in two cells, and its customer in one. */
  readonly keyLookUpCpuUs: number
  readonly bytesPerRow: BytesPerRow
  readonly bytesPerCustomer: number
  readonly directoryBytesPerKey: number
  /** The most that the row of one balance, or of one bulk lease, can take: a call holds it for its CPU time at least. */
  readonly strictRequestsPerSOfOne: number
  readonly bulkRequestsPerSOfOne: number
}

/** With indexes. */
export interface BytesPerRow {
  readonly usageEvent: number
  readonly ledgerEntry: number
  readonly ledgerTx: number
  readonly usageHour: number
  readonly usageDay: number
  readonly usageKeyDay: number
}

export function cellCostsOf({ atRest, ledger, tables, directory }: MeasuredCell): CellCosts {
  const { samples, requests, use, vacuumUse } = ledger
  const cpuUs = ledgerCostsOf(samples, ({ cpuUsPerCall }) => cpuUsPerCall)
  const walBytes = ledgerCostsOf(samples, ({ walBytesPerCall }) => walBytesPerCall)
  const bytesPerRow = (table: string) => {
    const size = tables.get(table)
    if (size === undefined) throw new Error(`The requests wrote no row of ${table}.`)
    return size.bytes / size.rows
  }
  const walOfSmall = (isAfterCheckpoint: boolean) =>
    samples
      .filter(
        sample => sample.lease === 'strict' && sample.items === SMALL && sample.isAfterCheckpoint === isAfterCheckpoint,
      )
      .reduce((total, { walBytesPerCall }) => total + walBytesPerCall, 0)
  const ofOne = (call: CallSample['call'], lease: CallSample['lease']) => {
    const calls = samples.filter(sample => sample.call === call && sample.lease === lease && sample.customers === 1)
    return Math.min(...calls.map(({ cpuUsPerCall, items }) => cpuUsPerCall / items))
  }
  return {
    cpuUs,
    walBytes,
    firstTouchWalBytes: Math.max((walOfSmall(true) - walOfSmall(false)) / SMALL, 0),
    vacuumCpuUsPerRequest: vacuumUse.cpuUs / requests,
    vacuumWalBytesPerRequest: vacuumUse.walBytes / requests,
    othersCpuShare: use.othersCpuUs / use.cpuUs,
    admissionS: (cpuUs.admit.perCall + cpuUs.admit.perItem) / 1e6,
    keyLookUpCpuUs: 2 * directory.findCellCpuUs + directory.authenticateCpuUs,
    bytesPerRow: {
      usageEvent: bytesPerRow('usage_event'),
      ledgerEntry: bytesPerRow('ledger_entry'),
      ledgerTx: bytesPerRow('ledger_tx'),
      usageHour: bytesPerRow('usage_hour'),
      usageDay: bytesPerRow('usage_day'),
      usageKeyDay: bytesPerRow('usage_key_day'),
    },
    bytesPerCustomer: atRest.bytes,
    directoryBytesPerKey: directory.bytesPerKey,
    strictRequestsPerSOfOne: 1e6 / (ofOne('admit', 'strict') + ofOne('settle', 'strict')),
    bulkRequestsPerSOfOne: 1e6 / ofOne('settle', 'bulk'),
  }
}

function ledgerCostsOf(samples: readonly CallSample[], costOf: (sample: CallSample) => number): LedgerCosts {
  const find = (
    call: CallSample['call'],
    lease: CallSample['lease'],
    items: number,
    customers = items,
  ): MeasuredCalls => {
    const sample = samples.find(
      sample =>
        sample.call === call &&
        sample.lease === lease &&
        sample.items === items &&
        sample.customers === customers &&
        !sample.isAfterCheckpoint,
    )
    if (sample === undefined) throw new Error(`There is no measurement of ${call} with ${items} items.`)
    return { items, costPerCall: costOf(sample) }
  }
  const fit = (call: CallSample['call'], lease: CallSample['lease']) =>
    fitCall(find(call, lease, SMALL), find(call, lease, LARGE))
  return {
    admit: fit('admit', 'strict'),
    grant: fit('admit', 'bulk'),
    handBack: fit('hand back', 'bulk'),
    settleStrict: fit('settle', 'strict'),
    settleBulk: fitSettleBulk(
      find('settle', 'bulk', SMALL),
      find('settle', 'bulk', LARGE),
      find('settle', 'bulk', LARGE, 1),
    ),
  }
}
