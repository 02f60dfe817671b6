import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { HOUR_MS } from '../../base/domain/durations.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { PaymentMissing, type PaymentProvider, type ProviderMove, type ProviderMoves } from './payment-driver.ts'

const DAY_MS = 24 * HOUR_MS
/** How long after a comparison the next one starts. */
const PAUSE_MS = HOUR_MS
/** What is listed at once. */
const SLICE_MS = DAY_MS
const SLICES_MAX = 3
/** Each span begins this much before the end of the last one: lists show charges late, and clocks differ. */
const OVERLAP_MS = DAY_MS
/** The first comparison begins with payments of this age: later, no bank takes money back. */
const FIRST_MS = 200 * DAY_MS
const RECHECKED_MAX = 200

interface CompareDeps {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  /** Asks for a payment and books it: see PaymentSync. */
  readonly book: (paymentId: string) => Promise<unknown>
  readonly driver: {
    readonly name: string
    readonly isLive: boolean
    readonly provider: PaymentProvider
    readonly moves: ProviderMoves
  }
}

/**
 * Lists what the provider has made since the last comparison, and compares it with the payments, in both directions. A
 * charge that names a payment without credit is adopted and booked. What then differs is noted for operators, until it
 * does not differ any more. Does nothing for an hour after a comparison, unless it is complete. Rejects when the
 * provider does not answer; the next call begins where this one ended.
 */
export async function compareCharges(deps: CompareDeps, isComplete: boolean): Promise<void> {
  const { pool, clock, driver } = deps
  const nowMs = clock.epochMs()
  const last = await readProgress(pool, driver.name)
  // A time ahead was written by a wrong clock.
  if (!isComplete && last !== undefined && Math.abs(nowMs - last.endedMs) < PAUSE_MS) return
  await recheckDifferences(deps)
  let fromMs = Math.min(last?.untilMs ?? (await firstPaymentMs(pool, driver.name, nowMs)), nowMs)
  for (let slices = 1; ; slices++) {
    const untilMs = Math.min(fromMs + SLICE_MS, nowMs)
    await compareSpan(deps, fromMs - OVERLAP_MS, untilMs)
    const isDone = untilMs === nowMs
    await writeProgress(pool, driver.name, { untilMs, endedMs: isDone ? nowMs : 0 })
    if (isDone || (!isComplete && slices === SLICES_MAX)) return
    fromMs = untilMs
  }
}

/** How much the clock of the provider may be ahead. */
const SKEW_MS = HOUR_MS

async function compareSpan(deps: CompareDeps, fromMs: number, untilMs: number): Promise<void> {
  const { pool, driver } = deps
  const moves = await driver.moves.between(fromMs, untilMs + SKEW_MS)
  const explained = await explainedRefs(pool, driver.name, moves)
  // Charges first: a refund belongs to one.
  for (const kind of ['charge', 'refund', 'dispute']) {
    for (const move of moves) {
      if (move.kind === kind && !explained.has(move.ref)) await checkMove(deps, move)
    }
  }
  const charged = moves.flatMap(({ kind, state, chargeRef }) =>
    kind === 'charge' && state !== 'failed' ? [chargeRef] : [],
  )
  for (const credit of await creditsWithout(pool, driver, charged, fromMs, untilMs)) await checkCredit(deps, credit)
}

/** Returns the moves that the books have. A charge explains its credit, and failed moves have moved nothing. */
async function explainedRefs(sql: Sql, driver: string, moves: readonly ProviderMove[]): Promise<Set<string>> {
  const { rows } = await sql.query<{ ref: string }>(
    `SELECT charge_ref AS ref FROM payment WHERE driver = $1 AND charge_ref = ANY ($2)
     UNION ALL
     SELECT r.provider_ref FROM payment_reversal r JOIN payment USING (payment_id) WHERE driver = $1 AND r.provider_ref = ANY ($3)`,
    [driver, moves.map(({ chargeRef }) => chargeRef), moves.map(({ ref }) => ref)],
  )
  const known = new Set(rows.map(({ ref }) => ref))
  const isExplained = ({ kind, state, chargeRef, ref }: ProviderMove) =>
    state === 'failed' || known.has(kind === 'charge' ? chargeRef : ref)
  return new Set(moves.filter(isExplained).map(({ ref }) => ref))
}

async function checkMove(deps: CompareDeps, move: ProviderMove): Promise<void> {
  const { pool, log, driver } = deps
  const found = move.kind === 'charge' ? await explainCharge(deps, move) : await explainReversal(deps, move)
  if (found === null) {
    await pool.query('SELECT end_payment_difference($1, $2, $3)', [driver.name, move.ref, move.state !== 'done'])
    return
  }
  const { isNew } = await queryRow<{ isNew: boolean }>(
    pool,
    'SELECT note_payment_difference($1, $2, $3, $4, $5, $6, $7, $8, $9) AS "isNew"',
    [
      driver.name,
      move.ref,
      move.kind,
      found.problem,
      found.paymentId,
      move.chargeRef,
      move.amountMinor,
      move.currency,
      new Date(move.atMs),
    ],
  )
  if (isNew) log.warn({ ...move, ...found }, 'the payment provider has made what the books do not have')
}

interface Difference {
  readonly problem: 'unknown_payment' | 'second_charge' | 'not_booked'
  readonly paymentId: string | null
}

/** Books a charge, if a payment of ours has its id and no credit. Returns how it still differs. */
async function explainCharge({ pool, book, driver }: CompareDeps, charge: ProviderMove): Promise<Difference | null> {
  if (charge.state === 'failed') return null
  const { paymentId, chargeRef } = charge
  const payment = paymentId === null ? undefined : await readPayment(pool, driver.name, paymentId)
  if (payment === undefined) {
    if (charge.state === 'returned' || !(await isOurs(pool, driver.name, charge))) return null
    return { problem: 'unknown_payment', paymentId: null }
  }
  if (!payment.isCredited && (charge.state === 'done' || payment.providerRef === null)) {
    const providerRef = await driver.moves.paymentOf(chargeRef)
    await pool.query('SELECT adopt_charge($1, $2)', [payment.paymentId, providerRef])
  }
  await book(payment.paymentId)
  const booked = (await readPayment(pool, driver.name, payment.paymentId))!
  if (booked.chargeRef === chargeRef || charge.state === 'returned') return null
  if (booked.isCredited) return { problem: 'second_charge', paymentId: payment.paymentId }
  // The payment follows a charge that is not decided.
  return charge.state === 'pending' ? null : { problem: 'not_booked', paymentId: payment.paymentId }
}

async function explainReversal({ pool, book, driver }: CompareDeps, move: ProviderMove): Promise<Difference | null> {
  if (move.state !== 'done') return null
  const { rows } = await pool.query<{ paymentId: string }>(
    'SELECT payment_id AS "paymentId" FROM payment WHERE driver = $1 AND $2 IN (charge_ref, provider_ref)',
    [driver.name, move.chargeRef],
  )
  const [payment] = rows
  if (payment === undefined) return null
  await book(payment.paymentId)
  const booked = await pool.query('SELECT FROM payment_reversal WHERE payment_id = $1 AND provider_ref = $2', [
    payment.paymentId,
    move.ref,
  ])
  return booked.rows.length > 0 ? null : { problem: 'not_booked', paymentId: payment.paymentId }
}

/**
 * Other programs may use the same account of the provider. Ours is what has the form of our ids, or was paid by a
 * customer of ours.
 */
async function isOurs(sql: Sql, driver: string, { paymentId, accountRef }: ProviderMove): Promise<boolean> {
  if (paymentId !== null && UUID.test(paymentId)) return true
  const { rows } = await sql.query(
    `SELECT FROM payment_account WHERE driver = $1 AND provider_ref = $2
     UNION ALL SELECT FROM payment_method WHERE driver = $1 AND account_ref = $2`,
    [driver, accountRef],
  )
  return rows.length > 0
}

interface KnownPayment {
  readonly paymentId: string
  readonly isCredited: boolean
  readonly providerRef: string | null
  readonly chargeRef: string | null
}

async function readPayment(sql: Sql, driver: string, paymentId: string): Promise<KnownPayment | undefined> {
  const { rows } = await sql.query<KnownPayment>(
    `SELECT payment_id AS "paymentId", tx_id IS NOT NULL AS "isCredited", provider_ref AS "providerRef", charge_ref AS "chargeRef"
       FROM payment WHERE driver = $1 AND payment_id::text = $2`,
    [driver, paymentId],
  )
  return rows[0]
}

interface Credit {
  readonly paymentId: string
  readonly providerRef: string | null
  readonly amountMinor: bigint
  readonly currency: string
  readonly paidAt: Date
}

const CREDIT = `payment_id AS "paymentId", provider_ref AS "providerRef", amount_minor AS "amountMinor", currency, paid_at AS "paidAt" FROM payment`

/** Returns the credits of a span without one of these charges: the charge may be older than the span. */
async function creditsWithout(
  sql: Sql,
  { name, isLive }: CompareDeps['driver'],
  charged: readonly string[],
  fromMs: number,
  untilMs: number,
): Promise<Credit[]> {
  const { rows } = await sql.query<Credit>(
    `SELECT ${CREDIT}
      WHERE driver = $1 AND is_live = $2 AND paid_at >= $3 AND paid_at < $4 AND tx_id IS NOT NULL AND (charge_ref = ANY ($5)) IS NOT TRUE
      ORDER BY paid_at`,
    [name, isLive, new Date(fromMs), new Date(untilMs), charged],
  )
  return rows
}

async function checkCredit({ pool, log, driver }: CompareDeps, credit: Credit): Promise<void> {
  const { paymentId, providerRef } = credit
  if (providerRef !== null && (await isPaid(driver.provider, providerRef, paymentId))) {
    await pool.query('SELECT end_payment_difference($1, $2, false)', [driver.name, paymentId])
    return
  }
  const { isNew } = await queryRow<{ isNew: boolean }>(
    pool,
    `SELECT note_payment_difference($1, $2::uuid::text, 'credit', 'no_charge', $2, $3, $4, $5, $6) AS "isNew"`,
    [driver.name, paymentId, providerRef, credit.amountMinor, credit.currency, credit.paidAt],
  )
  if (isNew) log.warn({ ...credit }, 'the payment provider has no charge for a credit')
}

async function isPaid(provider: PaymentProvider, providerRef: string, paymentId: string): Promise<boolean> {
  try {
    const { state, payment_id } = await provider.look(providerRef)
    return state === 'paid' && payment_id === paymentId
  } catch (error) {
    if (error instanceof PaymentMissing) return false
    throw error
  }
}

async function recheckDifferences(deps: CompareDeps): Promise<void> {
  const { pool, driver } = deps
  const { rows } = await pool.query<{ ref: string; kind: ProviderMove['kind'] | 'credit' }>(
    'SELECT ref, kind FROM payment_difference WHERE driver = $1 AND ended_at IS NULL ORDER BY found_at LIMIT $2',
    [driver.name, RECHECKED_MAX],
  )
  for (const { ref, kind } of rows) {
    if (kind === 'credit') {
      const credits = await pool.query<Credit>(`SELECT ${CREDIT} WHERE payment_id = $1`, [ref])
      await checkCredit(deps, elementAt(credits.rows, 0))
    } else {
      const move = await driver.moves.one(kind, ref)
      if (move !== null) await checkMove(deps, move)
    }
  }
}

async function firstPaymentMs(sql: Sql, driver: string, nowMs: number): Promise<number> {
  const { at } = await queryRow<{ at: Date | null }>(
    sql,
    'SELECT min(created_at) AS at FROM payment WHERE driver = $1',
    [driver],
  )
  return Math.max(at?.getTime() ?? nowMs, nowMs - FIRST_MS)
}

interface Progress {
  readonly untilMs: number
  /** When all was compared; 0 before. */
  readonly endedMs: number
}

const progressName = (driver: string) => `charges_compared_${driver}`

async function readProgress(sql: Sql, driver: string): Promise<Progress | undefined> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [
    progressName(driver),
  ])
  return rows[0] && (JSON.parse(rows[0].value) as Progress)
}

async function writeProgress(sql: Sql, driver: string, progress: Progress): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [progressName(driver), JSON.stringify(progress)],
  )
}
