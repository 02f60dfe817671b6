import type { Placement } from './place-customers.ts'

/** What moving the largest customers gives. */
export interface Moves {
  readonly moves: number
  /** The shares of the busiest cell before and after. */
  readonly busiestBefore: number
  readonly busiestAfter: number
}

/** Only so many of the largest customers move: a command for each takes seconds. */
const CANDIDATES = 10_000
/** A cell may have so much more than the mean cell, or than the largest customer. */
const ROOM = 1.1

/**
 * Moves customers from the busiest cell to the emptiest, the largest that lowers the peak first, until no cell has a tenth more
 * than the mean, or than the largest customer, which no move makes smaller, or until no candidate helps.
 */
export function moveCustomers(shares: Float64Array, { cellOf, cells }: Placement): Moves {
  const loads = cells.map(({ share }) => share)
  const busiestBefore = Math.max(...loads)
  const goal = ROOM * Math.max(1 / cells.length, shares[0] ?? 0)
  const homes: number[][] = loads.map(() => [])
  for (let rank = 0; rank < Math.min(CANDIDATES, shares.length); rank++) homes[cellOf[rank] ?? 0]?.push(rank)
  let moves = 0
  for (;;) {
    const busiest = Math.max(...loads)
    if (busiest <= goal) break
    const from = loads.indexOf(busiest)
    const emptiest = Math.min(...loads)
    const at = homes[from]?.findIndex(rank => emptiest + (shares[rank] ?? 0) < busiest) ?? -1
    const rank = homes[from]?.[at]
    if (rank === undefined) break
    const to = loads.indexOf(emptiest)
    homes[from]?.splice(at, 1)
    homes[to]?.push(rank)
    loads[from] = busiest - (shares[rank] ?? 0)
    loads[to] = emptiest + (shares[rank] ?? 0)
    moves++
  }
  return { moves, busiestBefore, busiestAfter: Math.max(...loads) }
}
