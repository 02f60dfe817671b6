import type { Pool, Sql } from '../base/db/pool.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import type { Acting } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { InstallationRole } from '../base/domain/member-role.ts'
import { usd } from '../base/domain/money.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { findCustomer } from '../money/accounts/customers.ts'
import type { ErasedCustomer, ErasedPerson } from '../wire/api/operator/data-protection.ts'
import { eraseCustomer, erasePerson } from './erase.ts'
import { exportCustomer, exportPerson, type PersonalExport } from './export-personal-data.ts'
import { createExportPlaces } from './export-places.ts'
import { type Actor, act } from './operator-action.ts'

/**
 * Hands out and erases what is kept of people and customers, as the command line does. All methods reject with ApiError:
 * `not_found` or `customer_not_found`, and `database_unavailable`.
 */
export interface DataProtection {
  /** Also rejects with `too_many_concurrent_requests`. */
  exportPerson(acting: Acting, personId: string): Promise<PersonalExport>
  /** Also rejects with `too_many_concurrent_requests`. */
  exportCustomer(acting: Acting, customerId: string): Promise<PersonalExport>
  /** Also rejects with `has_role`, or `last_owner` for a person who alone owns something. */
  erasePerson(actor: Actor, personId: string): Promise<ErasedPerson>
  /** Also rejects with `has_role` if an operator is a member. */
  eraseCustomer(actor: Actor, customerId: string): Promise<ErasedCustomer>
}

/** Each export holds one of the connections while its reader takes it; one is left to erase. */
const EXPORTS_MAX = 2

/** @param pool of the desk role, with more connections than `EXPORTS_MAX` */
export function createDataProtection(pool: Pool): DataProtection {
  const takePlace = createExportPlaces(EXPORTS_MAX)
  const openExport = (open: () => Promise<PersonalExport>): Promise<PersonalExport> =>
    takePlace(open, ({ json }) => json).catch(refuseOutage)
  return {
    exportPerson: (acting, personId) =>
      openExport(async () => exportPerson(pool, acting, await findPersonById(pool, personId))),
    exportCustomer: (acting, customerId) =>
      openExport(async () => exportCustomer(pool, acting, await findLiveCustomer(pool, customerId))),
    erasePerson: (actor, personId) =>
      act(pool, actor, async sql => {
        await sql.query('SELECT FROM person WHERE person_id = $1 FOR UPDATE', [personId])
        const erased = await erasePerson(sql, actor, await findPersonById(sql, personId))
        if ('revokedKeys' in erased) return { deleted: true, revoked_keys: erased.revokedKeys }
        if (erased.role !== undefined) throw new ApiError('has_role')
        throw new ApiError('last_owner', {
          message: sayRefusal('refusal.only_owner', { names: erased.ownedAlone.join(', ') }),
        })
      }),
    eraseCustomer: (actor, customerId) =>
      act(pool, actor, async sql => {
        await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR UPDATE', [customerId])
        await findLiveCustomer(sql, customerId)
        const erased = await eraseCustomer(sql, actor, customerId)
        if (erased === undefined) throw new ApiError('has_role', { message: sayRefusal('refusal.operator_is_member') })
        return { deleted: true, revoked_keys: erased.revokedKeys, balance_usd: usd(erased.balanceNanos) }
      }),
  }
}

async function findPersonById(
  sql: Sql,
  personId: string,
): Promise<{ personId: string; email: string; installationRole: InstallationRole | null }> {
  const { rows } = await sql.query<{ email: string; installationRole: InstallationRole | null }>(
    'SELECT email, installation_role AS "installationRole" FROM person WHERE person_id = $1',
    [personId],
  )
  if (rows[0] === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_person') })
  return { personId, ...rows[0] }
}

async function findLiveCustomer(sql: Sql, customerId: string): Promise<{ customerId: string; email: string }> {
  const customer = await findCustomer(sql, customerId)
  if (customer === undefined || customer.deletedAt !== null) throw new ApiError('customer_not_found')
  return customer
}
