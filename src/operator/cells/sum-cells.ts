import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { CellDatabase } from './move-customer.ts'

export interface CellSums {
  readonly name: string
  /** Of customers that are in this cell now. */
  readonly customers: bigint
  /** Since ever. */
  readonly requests: bigint
  /** What the accounts of each kind hold. */
  readonly accounts: ReadonlyMap<string, Nanos>
}

export interface SumsOfCells {
  readonly cells: readonly CellSums[]
  readonly total: Omit<CellSums, 'name'>
  /** What has left a cell and has not arrived. */
  readonly inTransitNanos: Nanos
  /** Moves whose two ends differ, or whose beginning is missing. */
  readonly wrongMoves: readonly string[]
  /** Whether the money of all cells adds up: the ledger of each is zero, and the clearing accounts hold what is in transit. */
  readonly isExact: boolean
}

/** Sums the ledgers of cells, and compares the two ends of each move. Reads each ledger whole. */
export async function sumCells(databases: readonly CellDatabase[]): Promise<SumsOfCells> {
  const read = await Promise.all(databases.map(async ({ name, pool }) => ({ name, ...(await readCell(pool)) })))
  const total = {
    customers: read.reduce((sum, { customers }) => sum + customers, 0n),
    requests: read.reduce((sum, { requests }) => sum + requests, 0n),
    accounts: added(read.map(({ accounts }) => accounts)),
  }
  const arrived = new Map(
    read.flatMap(({ moves }) => moves).flatMap(m => (m.direction === 'in' ? [[m.moveId, m]] : [])),
  )
  const left = read.flatMap(({ moves }) => moves).filter(({ direction }) => direction === 'out')
  const inTransit = left.filter(({ moveId }) => !arrived.has(moveId))
  const inTransitNanos = inTransit.reduce((sum, { amountNanos }) => sum + amountNanos, 0n)
  const begun = new Set(left.map(({ moveId }) => moveId))
  const wrongMoves = [
    ...left.filter(({ moveId, amountNanos }) => (arrived.get(moveId)?.amountNanos ?? amountNanos) !== amountNanos),
    ...[...arrived.values()].filter(({ moveId }) => !begun.has(moveId)),
  ].map(({ moveId }) => moveId)
  const clearingNanos = (total.accounts.get('cell_clearing') ?? 0n) + (total.accounts.get('cell_promo') ?? 0n)
  const areZero = read.every(({ accounts }) => [...accounts.values()].reduce((sum, nanos) => sum + nanos, 0n) === 0n)
  return {
    cells: read,
    total,
    inTransitNanos,
    wrongMoves,
    isExact: areZero && wrongMoves.length === 0 && clearingNanos === inTransitNanos,
  }
}

interface Move {
  readonly moveId: string
  readonly direction: 'in' | 'out'
  readonly amountNanos: Nanos
}

interface ReadCell extends Omit<CellSums, 'name'> {
  readonly moves: readonly Move[]
}

async function readCell(sql: Sql): Promise<ReadCell> {
  const { rows } = await sql.query<{ kind: string; nanos: string }>(
    'SELECT account_kind AS kind, sum(amount_nanos)::text AS nanos FROM ledger_entry GROUP BY 1 ORDER BY 1',
  )
  const { rows: moves } = await sql.query<Move>(
    `SELECT move_id AS "moveId", direction, amount_nanos AS "amountNanos" FROM cell_move WHERE state IN ('sent', 'done', 'received')`,
  )
  const { rows: counts } = await sql.query<{ customers: bigint; requests: bigint }>(
    `SELECT (SELECT count(*) FROM balance WHERE last_cell_of(customer_id) IS NOT DISTINCT FROM own_cell()) AS customers,
            (SELECT coalesce(sum(requests), 0)::bigint FROM usage_day) AS requests`,
  )
  const { customers = 0n, requests = 0n } = counts[0] ?? {}
  return { customers, requests, accounts: new Map(rows.map(({ kind, nanos }) => [kind, BigInt(nanos)])), moves }
}

function added(accounts: readonly ReadonlyMap<string, Nanos>[]): Map<string, Nanos> {
  const sums = new Map<string, Nanos>()
  for (const [kind, nanos] of accounts.flatMap(each => [...each])) sums.set(kind, (sums.get(kind) ?? 0n) + nanos)
  return sums
}
