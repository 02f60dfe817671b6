import { createRandom } from '../random.ts'
import type { CellCosts } from './cell-costs.ts'
import type { CellLoad, CitedCosts, Traffic } from './cell-load.ts'
import { type DrawnDay, drawDay } from './draw-day.ts'
import { type Moves, moveCustomers } from './move-customers.ts'
import { type PlacedCell, placeCustomers } from './place-customers.ts'
import { type CellMachine, type Resource, requestsUntilFull, resources, type Uses, usesOf } from './saturation.ts'
import { zipfShares } from './zipf.ts'

export interface SimulatedCells {
  /** Of Zipf's law. */
  readonly exponent: number
  readonly largestShare: number
  readonly cells: readonly SimulatedCell[]
  readonly moves: Moves
  /** Of the busiest cell. */
  readonly uses: Uses
  /** The requests a day, of all cells, at which the busiest cell has no more of a resource. */
  readonly requestsUntilFull: Readonly<Record<Resource, number>>
  readonly sizes: readonly SizeLimit[]
}

export interface SimulatedCell {
  readonly placed: PlacedCell
  readonly load: CellLoad
  readonly day: DrawnDay
}

/** With so many cells, what the busiest one runs out of first and second. */
export interface SizeLimit {
  readonly cells: number
  readonly limits: readonly ResourceLimit[]
}

export interface ResourceLimit {
  readonly resource: Resource
  /** Of all cells. */
  readonly requestsPerDay: number
}

export interface CellSetup {
  readonly traffic: Traffic
  readonly machine: CellMachine
  readonly costs: CellCosts
  readonly cited: CitedCosts
}

/** Left out of the first limit: a customer avoids them with several keys, and with keys that have no spend limit. */
const chosenByCustomers: readonly Resource[] = [
  'one gateway, for one key of the largest customer',
  'row of the largest customer, strict leases',
]

/**
 * Places the customers in cells, draws a day of requests, and computes what each cell needs. The same seed gives the same result.
 *
 * @param sizes numbers of cells to compare
 */
export function simulateCells(
  setup: CellSetup,
  exponent: number,
  seed: number,
  sizes: readonly number[],
): SimulatedCells {
  const { traffic } = setup
  const shares = zipfShares(traffic.customers, exponent)
  const placementIn = (size: number) => placeCustomers(shares, size, createRandom(seed))
  const placement = placementIn(traffic.cells)
  const days = createRandom(seed).fork()
  const cells = placement.cells.map(placed => ({
    placed,
    ...usesIn(placed, setup),
    day: drawDay(placed.share * traffic.requestsPerDay, traffic.peak, days),
  }))
  const busiest = busiestOf(placement.cells)
  return {
    exponent,
    largestShare: shares[0] ?? 0,
    cells,
    moves: moveCustomers(shares, placement),
    uses: usesIn(busiest, setup).uses,
    requestsUntilFull: limitsOf(busiest, setup),
    sizes: sizes.map(size => {
      const cell = size === traffic.cells ? busiest : busiestOf(placementIn(size).cells)
      return { cells: size, limits: firstLimits(cell, { ...setup, traffic: { ...traffic, cells: size } }) }
    }),
  }
}

function usesIn(cell: PlacedCell, { traffic, machine, costs, cited }: CellSetup) {
  return usesOf(cell, traffic, machine, costs, cited)
}

function busiestOf(cells: readonly PlacedCell[]): PlacedCell {
  return cells.reduce((busiest, cell) => (cell.share > busiest.share ? cell : busiest))
}

function limitsOf(cell: PlacedCell, setup: CellSetup): Record<Resource, number> {
  const limitOf = (resource: Resource) => {
    const useAt = (requestsPerDay: number) =>
      usesIn(cell, { ...setup, traffic: { ...setup.traffic, requestsPerDay } }).uses[resource]
    return requestsUntilFull(useAt, setup.traffic.requestsPerDay)
  }
  return Object.fromEntries(resources.map(resource => [resource, limitOf(resource)])) as Record<Resource, number>
}

function firstLimits(cell: PlacedCell, setup: CellSetup): ResourceLimit[] {
  const limits = limitsOf(cell, setup)
  return resources
    .filter(resource => !chosenByCustomers.includes(resource))
    .map(resource => ({ resource, requestsPerDay: limits[resource] }))
    .sort((a, b) => a.requestsPerDay - b.requestsPerDay)
    .slice(0, 2)
}
