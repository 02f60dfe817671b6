import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'

/** One of the two cells of a move. */
export interface CellDatabase {
  readonly name: string
  readonly pool: Pool
}

export interface CustomerMove {
  readonly customerId: string
  readonly from: CellDatabase
  readonly to: CellDatabase
  /** How long running requests may take to end. */
  readonly waitMs: number
}

/** Nodes notice within two seconds that a customer is moving: docs/scaling.md. */
const NOTICE_MS = 3_000
const LOOK_EVERY_MS = 100

/**
 * Moves a customer to another cell. Each step is a transaction in one database, and a repeat begins at the first one that is
 * missing, so it may be killed anywhere. Returns the balance that moved. Throws an Error for the operator.
 *
 * The order is what keeps the money exact: nothing is admitted here once the balance is taken out, nothing is admitted there
 * before it has arrived, and the keys are passed on last.
 */
export async function moveCustomer({ customerId, from, to, waitMs }: CustomerMove): Promise<Nanos> {
  await requireAlike(from, to)
  const { moveId } = await queryRow<{ moveId: string }>(from.pool, 'SELECT begin_cell_move($1, $2) AS "moveId"', [
    customerId,
    to.name,
  ])
  failpoint('cell-move-stopped')
  await untilIdle(from.pool, moveId, waitMs)
  const { parcel } = await queryRow<{ parcel: string | null }>(from.pool, 'SELECT send_cell_move($1)::text AS parcel', [
    moveId,
  ])
  failpoint('cell-move-sent')
  if (parcel !== null) await to.pool.query('SELECT receive_cell_move($1, $2, $3::jsonb)', [moveId, from.name, parcel])
  failpoint('cell-move-received')
  await from.pool.query('SELECT finish_cell_move($1)', [moveId])
  const { amountNanos } = await queryRow<{ amountNanos: Nanos }>(
    from.pool,
    'SELECT amount_nanos AS "amountNanos" FROM cell_move WHERE move_id = $1',
    [moveId],
  )
  return amountNanos
}

/**
 * Undoes the open move of a customer, unless it has arrived. Returns false when it has: then only a repeat ends it. Undefined
 * when there is none.
 */
export async function undoMove({ customerId, from, to }: Omit<CustomerMove, 'waitMs'>): Promise<boolean | undefined> {
  const moveId = await openMoveOf(from.pool, customerId)
  if (moveId === undefined) return undefined
  const { refused } = await queryRow<{ refused: boolean }>(to.pool, 'SELECT refuse_cell_move($1, $2, $3) AS refused', [
    moveId,
    customerId,
    from.name,
  ])
  failpoint('cell-move-refused')
  if (refused) await from.pool.query('SELECT undo_cell_move($1)', [moveId])
  return refused
}

async function openMoveOf(sql: Sql, customerId: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ moveId: string }>(
    `SELECT move_id AS "moveId" FROM cell_move WHERE customer_id = $1 AND state IN ('stopped', 'sent')`,
    [customerId],
  )
  return rows[0]?.moveId
}

/** Rows are copied whole, with values that the master key has sealed. */
async function requireAlike(from: CellDatabase, to: CellDatabase): Promise<void> {
  const [here, there] = await Promise.all([from, to].map(({ pool }) => queryRow<Likeness>(pool, LIKENESS)))
  if (there?.cell !== to.name)
    throw new Error(`The database_url of ${to.name} leads to ${there?.cell ?? 'a database that is no cell'}.`)
  if (here?.migration !== there.migration) throw new Error(`${from.name} and ${to.name} run different versions.`)
  if (here.mark !== there.mark) throw new Error(`${from.name} and ${to.name} have different master keys.`)
}

interface Likeness {
  readonly cell: string | null
  readonly migration: number
  /** Of the current master key. */
  readonly mark: string | null
}

const LIKENESS = `
  SELECT own_cell() AS cell, (SELECT max(version) FROM migration) AS migration,
         (SELECT mark FROM master_key WHERE state = 'current') AS mark`

/** Waits until every node has noticed the move and no request holds money. Charges in a journal have a hold until they are made. */
async function untilIdle(sql: Sql, moveId: string, waitMs: number): Promise<void> {
  const endMs = performance.now() + waitMs
  for (;;) {
    const { idle } = await queryRow<{ idle: boolean }>(
      sql,
      `SELECT state <> 'stopped' OR (at < clock_timestamp() - make_interval(secs => $2)
              AND NOT EXISTS (SELECT FROM lease l WHERE l.customer_id = m.customer_id)) AS idle
         FROM cell_move m WHERE move_id = $1`,
      [moveId, NOTICE_MS / 1000],
    )
    if (idle) return
    if (performance.now() > endMs)
      throw new Error('Requests of the customer still run. Repeat the command to go on, or undo the move with --undo.')
    await sleep(LOOK_EVERY_MS)
  }
}
