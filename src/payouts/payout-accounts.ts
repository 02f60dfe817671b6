import type { Pool, Sql } from '../db/pool.ts'
import type { BankDetails, Enrolment, PayoutDriver, PayoutDriverName } from './payout-driver.ts'

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

/**
 * Names the payout account of a hoster that exists. Throws ApiError `invalid_value` for details that cannot be an account.
 *
 * @param details null where the provider asks for them
 */
export async function enrollHoster(
  pool: Pool,
  driver: PayoutDriver,
  hosterId: string,
  details: BankDetails | null,
  actor: EnrollActor,
): Promise<EnrolledAccount> {
  const known = await readPayoutAccount(pool, hosterId)
  const enrolment = await driver.enroll(hosterId, known.driver === driver.name ? known.destination : null, details)
  const state = await saveAccount(pool, driver, hosterId, enrolment, actor)
  if (state === 'refused') return { state, url: null, note: 'Another hoster is paid to this account.' }
  return { state, url: enrolment.url, note: enrolment.note }
}

/** Asks the provider for an account and notes what has changed. Does nothing for accounts of others. */
export async function refreshPayoutAccount(pool: Pool, driver: PayoutDriver, destination: string): Promise<void> {
  const { rows } = await pool.query<{ hosterId: string }>(
    'SELECT hoster_id AS "hosterId" FROM hoster_account WHERE driver = $1 AND destination = $2',
    [driver.name, destination],
  )
  const [found] = rows
  if (found === undefined) return
  const enrolment = await driver.provider!.account(destination)
  await saveAccount(pool, driver, found.hosterId, enrolment, { personId: null, address: null })
}

async function saveAccount(
  sql: Sql,
  driver: PayoutDriver,
  hosterId: string,
  { destination, holder, identities, isReady, note }: Enrolment,
  { personId, address }: EnrollActor,
): Promise<PayoutAccountState> {
  const { rows } = await sql.query<{ state: PayoutAccountState }>(
    'SELECT set_payout_account($1, $2, $3, $4, $5, $6, $7, $8, $9) AS state',
    [hosterId, driver.name, destination, holder, [...identities], isReady, note, personId, address],
  )
  return rows[0]!.state
}

/** Sets the customer that gets earnings which are spent here. Returns false without such a hoster or customer. */
export async function setHosterCustomer(
  sql: Sql,
  hosterId: string,
  customerId: string,
  { personId, address }: EnrollActor,
): Promise<boolean> {
  const { rows } = await sql.query<{ done: boolean }>('SELECT set_hoster_customer($1, $2, $3, $4) AS done', [
    hosterId,
    customerId,
    personId,
    address,
  ])
  return rows[0]!.done
}
