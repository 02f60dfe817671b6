import type { Random } from '../random.ts'

/** Which customers each cell has. Ranks count from 0, the largest customer first. */
export interface Placement {
  /** The cell of each customer, by rank. */
  readonly cellOf: Uint16Array
  readonly cells: readonly PlacedCell[]
}

export interface PlacedCell {
  /** What its customers ask for, of the requests of all cells. */
  readonly share: number
  readonly largestShare: number
  readonly customers: number
  readonly population: Population
}

/**
 * Customers grouped by size, so that a figure of ten million customers is computed from some 1,500 groups. The shares in a group
 * differ by less than GROUP_WIDTH times the exponent of Zipf's law.
 */
export interface Population {
  /** The number of customers in each group. */
  readonly counts: Uint32Array
  /** The mean share of a customer in each group, the same for all cells. */
  readonly shares: Float64Array
}

/** Ranks of a group differ by a hundredth. The largest hundred customers have groups of their own. */
const GROUP_WIDTH = 0.01

/**
 * Puts each customer in a cell. A customer is in the cell where its account was opened, and nothing ties its later size to the
 * cell, so each cell is equally likely.
 */
export function placeCustomers(shares: Float64Array, cells: number, random: Random): Placement {
  const groups = groupOf(shares.length - 1) + 1
  const groupCounts = new Uint32Array(groups)
  const groupShares = new Float64Array(groups)
  const cellOf = new Uint16Array(shares.length)
  const drafts = Array.from({ length: cells }, () => ({
    ...{ share: 0, largestShare: 0, customers: 0 },
    counts: new Uint32Array(groups),
  }))
  shares.forEach((share, rank) => {
    const cell = random.between(0, cells - 1)
    const group = groupOf(rank)
    cellOf[rank] = cell
    increment(groupCounts, group, 1)
    increment(groupShares, group, share)
    const draft = drafts[cell]
    if (draft === undefined) return
    increment(draft.counts, group, 1)
    draft.share += share
    draft.largestShare = Math.max(draft.largestShare, share)
    draft.customers++
  })
  const meanShares = groupShares.map((share, group) => share / Math.max(groupCounts[group] ?? 0, 1))
  const placed = drafts.map(({ counts, ...cell }) => ({ ...cell, population: { counts, shares: meanShares } }))
  return { cellOf, cells: placed }
}

function groupOf(rank: number): number {
  const ownGroups = 1 / GROUP_WIDTH
  return rank < ownGroups ? rank : ownGroups + Math.floor(Math.log((rank + 1) / (ownGroups + 1)) / GROUP_WIDTH)
}

function increment(array: Uint32Array | Float64Array, index: number, by: number): void {
  array[index] = (array[index] ?? 0) + by
}
