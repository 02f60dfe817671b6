import { noteAction } from '../base/db/audit-log.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { MemberRole } from '../base/domain/member-role.ts'
import { type Nanos, signupCredit } from '../base/domain/money.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import type { Invitations, MadeInvitation } from '../identity/people/invitations.ts'
import { checkInvitation } from '../identity/people/members.ts'
import { createCustomer, findCustomer, setAccountTier, setDisabled, setOwnLimits } from '../money/accounts/customers.ts'
import { type CustomerState, noteCustomerChange, readCustomerState } from '../money/accounts/note-customer.ts'
import { hasPriceGroup } from '../money/accounts/price-groups.ts'
import type { CustomerChange } from '../wire/api/operator/customer-changes.ts'
import { type Actor, act } from './operator-action.ts'
import { lacksScope } from './operator-keys.ts'

/**
 * Adds a customer like `switchyard customer add` and returns its id. Throws `invalid_value` for a taken address or an
 * unknown tier, and `insufficient_scope` for a key that may not give the prices of the tier.
 */
export function addCustomer(
  pool: Pool,
  actor: Actor,
  { email, tier }: { email: string; tier: string | undefined },
  config: {
    readonly signup: { readonly tier: string; readonly creditNanos: Nanos }
    readonly tiers: readonly string[]
  },
): Promise<string> {
  if (tier !== undefined) requireTier(tier, config.tiers)
  return act(pool, actor, async sql => {
    if (tier !== undefined) await requirePricing(sql, actor, [tier])
    const customer = await createCustomer(
      sql,
      config,
      { email, accountTier: tier },
      async (customerId, creditNanos) => {
        // A key that may add customers must not make credit with them: a grant needs the scope of money.
        const values = [actor.session, customerId, actor.keyId === null ? signupCredit(creditNanos) : 0n, actor.address]
        await sql.query('SELECT open_account_by_operator($1, $2, $3, $4)', values)
      },
    )
    if (customer !== undefined) return customer.customerId
    throw new ApiError('invalid_value', {
      message: sayRefusal('refusal.customer_exists', { email }),
      param: 'email',
    })
  })
}

/**
 * Changes tier, limits and state like `switchyard customer tier`, `limits`, `disable` and `enable`. Throws
 * `customer_not_found`, and `insufficient_scope` for a key that may not change the prices that come with the tier.
 */
export function changeCustomer(
  pool: Pool,
  actor: Actor,
  customerId: string,
  change: CustomerChange,
  tiers: readonly string[],
): Promise<void> {
  if (change.tier !== undefined) requireTier(change.tier, tiers)
  return act(pool, actor, async sql => {
    await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR UPDATE', [customerId])
    const customer = await findCustomer(sql, customerId)
    if (customer === undefined || customer.deletedAt !== null) throw new ApiError('customer_not_found')
    const before = await readCustomerState(sql, customer)
    const after = { ...before, ...definedFields(change) }
    if (after.tier !== before.tier) {
      await requirePricing(sql, actor, [before.tier, after.tier])
      await setAccountTier(sql, customerId, after.tier)
    }
    if (after.isPaused !== before.isPaused) await setDisabled(sql, customerId, after.isPaused)
    const { requestsPerMinute, requestsPerDay, dailySpendCapNanos } = after
    await setOwnLimits(sql, customerId, { requestsPerMinute, requestsPerDay, dailySpendCapNanos })
    await noteCustomerChange(sql, actor, customer, { before, after })
  })
}

/**
 * Invites a person, as an owner of the customer does: with mail, only the person gets the link. Throws `customer_not_found`, or
 * `invalid_value` for members.
 */
export function inviteMember(
  invitations: Invitations,
  actor: Actor,
  invitation: { customerId: string; email: string; role: MemberRole },
  { name, nowMs }: { readonly name: string; readonly nowMs: number },
): Promise<MadeInvitation> {
  const { customerId, email, role } = invitation
  const { personId, keyId, address } = actor
  return invitations.send({
    target: { customerId },
    email,
    role,
    madeBy: { personId, name },
    check: sql => checkInvitation(sql, invitation, { mayAdd: true, nowMs }),
    note: sql =>
      noteAction(sql, {
        action: 'member.invited',
        personId,
        keyId,
        subject: email,
        customerId,
        detail: { role },
        address,
      }),
  })
}

/** The tier decides the prices of a customer where it has a price group, and prices need the scope of money. */
async function requirePricing(sql: Sql, { mayMoveMoney }: Actor, tiers: readonly string[]): Promise<void> {
  if (!mayMoveMoney && (await hasPriceGroup(sql, tiers))) throw lacksScope('money')
}

function definedFields(change: CustomerChange): Partial<CustomerState> {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
}

function requireTier(tier: string, tiers: readonly string[]): void {
  if (tiers.includes(tier)) return
  throw new ApiError('invalid_value', {
    message: sayRefusal('refusal.no_tier_named', { tier, tiers: tiers.join(', ') }),
    param: 'tier',
  })
}
