import type { CellCosts } from './cell-costs.ts'
import { type CellLoad, type CitedCosts, loadOf, type Traffic } from './cell-load.ts'
import { DAY_S } from './draw-day.ts'
import type { PlacedCell } from './place-customers.ts'

/** What the PostgreSQL of each cell has. */
export interface CellMachine {
  readonly cores: number
  readonly diskBytes: number
  readonly diskBytesPerS: number
  readonly connections: number
}

export const resources = [
  'CPU of PostgreSQL',
  'disk space after a year',
  'disk bandwidth, for WAL',
  'connections of PostgreSQL',
  'one gateway, for one key of the largest customer',
  'row of the largest customer, bulk leases',
  'row of the largest customer, strict leases',
] as const

export type Resource = (typeof resources)[number]

/** What a cell needs of each resource, relative to what it has: above 1, it is saturated. */
export type Uses = Readonly<Record<Resource, number>>

/** The connections of a node, which has one core: docs/scaling.md#connections-to-postgresql. */
const CONNECTIONS_PER_NODE = 28

export function usesOf(
  cell: PlacedCell,
  traffic: Traffic,
  machine: CellMachine,
  costs: CellCosts,
  cited: CitedCosts,
): { readonly load: CellLoad; readonly uses: Uses } {
  const load = loadOf(cell, traffic, costs, cited)
  const ofLargestPerS = (cell.largestShare * traffic.requestsPerDay * traffic.peak) / DAY_S
  return {
    load,
    uses: {
      'CPU of PostgreSQL': load.coresAtPeak / machine.cores,
      'disk space after a year': load.diskBytes / machine.diskBytes,
      'disk bandwidth, for WAL': load.walBytesPerSAtPeak / machine.diskBytesPerS,
      'connections of PostgreSQL': (load.gatewayCoresAtPeak * CONNECTIONS_PER_NODE) / machine.connections,
      'one gateway, for one key of the largest customer': (ofLargestPerS * cited.gatewayCpuUs) / 1e6,
      'row of the largest customer, bulk leases': ofLargestPerS / costs.bulkRequestsPerSOfOne,
      'row of the largest customer, strict leases': ofLargestPerS / costs.strictRequestsPerSOfOne,
    },
  }
}

const STEPS = 8

/**
 * The requests a day, of all cells, at which a use reaches 1. A use grows about as the requests do, so each step divides by the use
 * of the step before.
 */
export function requestsUntilFull(useAt: (requestsPerDay: number) => number, requestsPerDay: number): number {
  let requests = requestsPerDay
  for (let step = 0; step < STEPS; step++) requests /= useAt(requests)
  return requests
}
