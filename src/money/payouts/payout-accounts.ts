import { randomUUID } from 'node:crypto'
import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { PayoutDriverName } from '../../base/domain/money-drivers.ts'
import type { WithProvider } from '../payments/provider-sync.ts'
import type { BankDetails, PayoutDriver } from './payout-driver.ts'

export type PayoutAccountState = 'pending' | 'ready' | 'refused'

/** A row of `hoster_account`: see the migration of payouts. The last columns are null until an account is named. */
export interface PayoutAccount {
  /** Gets earnings that are spent here; null: none is set. */
  readonly customerId: string | null
  readonly driver: PayoutDriverName | null
  readonly state: PayoutAccountState | null
  readonly destination: string | null
  readonly holder: string | null
  readonly note: string | null
}

export async function readPayoutAccount(sql: Sql, hosterId: string): Promise<PayoutAccount> {
  const { rows } = await sql.query<PayoutAccount>(
    `SELECT customer_id AS "customerId", driver, state, destination, holder, note FROM hoster_account WHERE hoster_id = $1`,
    [hosterId],
  )
  return rows[0] ?? { customerId: null, driver: null, state: null, destination: null, holder: null, note: null }
}

/** A row of `payout_change` that waits, or the account that it is about: see the migration of changes of payouts. */
export interface PayoutChange {
  readonly changeId: string
  readonly kind: 'account' | 'customer'
  readonly customerId: string | null
  readonly driver: PayoutDriverName | null
  readonly state: PayoutAccountState | null
  readonly destination: string | null
  readonly holder: string | null
  readonly note: string | null
  /** The person's mail address. Null: the command line, or the provider of the account. */
  readonly requestedBy: string | null
  readonly requestedAt: Date
  readonly effectiveAt: Date
}

/** Returns the changes of a hoster that wait, at most one of each kind. */
export async function listPayoutChanges(sql: Sql, hosterId: string): Promise<PayoutChange[]> {
  const { rows } = await sql.query<PayoutChange>(
    `SELECT change_id AS "changeId", kind, customer_id AS "customerId", driver, state, destination, holder, note,
       coalesce(p.email, requested_by::text) AS "requestedBy", requested_at AS "requestedAt", effective_at AS "effectiveAt"
     FROM payout_change LEFT JOIN person p ON p.person_id = requested_by WHERE hoster_id = $1 AND outcome IS NULL ORDER BY kind`,
    [hosterId],
  )
  return rows
}

export interface EnrolledAccount {
  readonly state: PayoutAccountState
  /** Where the hoster goes on; null if nothing is missing. */
  readonly url: string | null
  readonly note: string | null
}

/** The person that names an account; null for the command line and for keys. */
export interface EnrollActor {
  readonly personId: string | null
  readonly address: string | null
}

/** How long a change of where money goes waits, and since when. */
export interface ChangeWait {
  readonly nowMs: number
  readonly accountWaitHours: number
}

/**
 * Asks for another payout account of a hoster that exists. Throws ApiError `invalid_value` for details that cannot be
 * an account.
 *
 * @param asked `details` is null where the provider asks for them
 */
export async function enrollHoster(
  pool: Pool,
  driver: PayoutDriver,
  { hosterId, details }: { hosterId: string; details: BankDetails | null },
  { personId, address }: EnrollActor,
  { nowMs, accountWaitHours }: ChangeWait,
): Promise<EnrolledAccount> {
  const named = [await readPayoutAccount(pool, hosterId), ...(await listPayoutChanges(pool, hosterId))]
  const known = named.find(each => each.driver === driver.name)?.destination ?? null
  const { url, ...enrolment } = await driver.enroll(hosterId, known, details)
  const { destination, holder, identities, isReady, note } = enrolment
  const { state } = await queryRow<{ state: PayoutAccountState }>(
    pool,
    'SELECT set_payout_account($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS state',
    [
      randomUUID(),
      hosterId,
      driver.name,
      destination,
      holder,
      identities,
      isReady,
      note,
      personId,
      address,
      new Date(nowMs),
      accountWaitHours,
    ],
  )
  if (state === 'refused') return { state, url: null, note: 'Another hoster is paid to this account.' }
  return { state, url, note }
}

/** Asks the provider for an account and notes what has changed. Does nothing for accounts of others. */
export async function refreshPayoutAccount(
  pool: Pool,
  { name, provider }: WithProvider<PayoutDriver>,
  destination: string,
  { nowMs, accountWaitHours }: ChangeWait,
): Promise<void> {
  const { rows } = await pool.query('SELECT FROM payout_identity WHERE identity = $1', [`${name}:${destination}`])
  if (rows.length === 0) return
  const { identities, isReady, note } = await provider.account(destination)
  await pool.query('SELECT note_payout_account($1, $2, $3, $4, $5, $6, $7, $8)', [
    randomUUID(),
    name,
    destination,
    identities,
    isReady,
    note,
    new Date(nowMs),
    accountWaitHours,
  ])
}

/**
 * Asks for another customer that gets earnings which are spent here. Returns false without such a hoster or customer.
 */
export async function setHosterCustomer(
  sql: Sql,
  hosterId: string,
  customerId: string,
  { personId, address }: EnrollActor,
  { nowMs, accountWaitHours }: ChangeWait,
): Promise<boolean> {
  const { done } = await queryRow<{ done: boolean }>(
    sql,
    'SELECT set_hoster_customer($1, $2, $3, $4, $5, $6, $7) AS done',
    [randomUUID(), hosterId, customerId, personId, address, new Date(nowMs), accountWaitHours],
  )
  return done
}

/** Stops a change that waits; null: all of the hoster. Returns how many. */
export async function stopPayoutChanges(
  sql: Sql,
  { hosterId, changeId }: { readonly hosterId: string; readonly changeId: string | null },
  { personId, address }: EnrollActor,
  nowMs: number,
): Promise<number> {
  const { count } = await queryRow<{ count: number }>(sql, 'SELECT stop_payout_changes($1, $2, $3, $4, $5) AS count', [
    hosterId,
    changeId,
    personId,
    address,
    new Date(nowMs),
  ])
  return count
}

/** Applies all changes that have waited long enough. */
export async function applyPayoutChanges(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('SELECT apply_payout_changes($1)', [new Date(nowMs)])
}
