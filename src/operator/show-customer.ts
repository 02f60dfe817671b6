import type { Sql } from '../base/db/pool.ts'
import type { AccountLimits } from '../base/domain/caller.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { MemberRole } from '../base/domain/member-role.ts'
import { usd } from '../base/domain/money.ts'
import { noSpend, unused } from '../base/domain/spend.ts'
import { listKeysInUse } from '../identity/auth/keys.ts'
import { readSharing } from '../identity/people/request-sharing.ts'
import { readOwnLimits } from '../money/accounts/customers.ts'
import { readKeyUses } from '../money/usage/key-use.ts'
import { spendByCustomer } from '../money/usage/spend.ts'
import { showKey } from '../wire/api/keys.ts'
import type { CustomerDetail } from '../wire/api/operator/customers.ts'
import { findListedCustomer } from './list-customers.ts'
import { listGrants } from './list-grants.ts'

export interface Tiers {
  /** The limits of a tier; those of `free` for a tier that the configuration no longer has. */
  limitsOf(accountTier: string): AccountLimits
  readonly names: () => readonly string[]
}

/** Returns everything about a customer that fits on one screen. Throws `customer_not_found`. */
export async function showCustomer(
  sql: Sql,
  { customerId, viewerId, nowMs }: { customerId: string; viewerId: string; nowMs: number },
  tiers: Tiers,
): Promise<CustomerDetail> {
  const listed = await findListedCustomer(sql, customerId, nowMs)
  if (listed === undefined) throw new ApiError('customer_not_found')
  const [sharesRequests, own, spends, keys, useOfKeys, members, invitations, grants] = await Promise.all([
    readSharing(sql, customerId),
    readOwnLimits(sql, customerId),
    spendByCustomer(sql, customerId, nowMs),
    listKeysInUse(sql, customerId),
    readKeyUses(sql, customerId, nowMs),
    listMembers(sql, customerId),
    listInvitations(sql, customerId, nowMs),
    listGrants(sql, { state: 'waiting', customerId, viewerId }),
  ])
  const tier = tiers.limitsOf(listed.tier)
  const spend = spends.get(customerId) ?? noSpend
  return {
    ...listed,
    limits: {
      requests_per_minute: limit(own.requestsPerMinute, tier.requestsPerMinute),
      requests_per_day: limit(own.requestsPerDay, tier.requestsPerDay),
      daily_spend_cap_usd: limit(
        own.dailySpendCapNanos === null ? null : usd(own.dailySpendCapNanos),
        usd(tier.dailySpendCapNanos),
      ),
    },
    shares_requests: sharesRequests,
    tiers: [...tiers.names()],
    spend: {
      today_usd: usd(spend.todayNanos),
      week_usd: usd(spend.weekNanos),
      month_usd: usd(spend.monthNanos),
      total_usd: usd(spend.totalNanos),
    },
    members,
    invitations,
    api_keys: keys.map(listing => showKey(listing, useOfKeys.get(listing.keyId) ?? unused)),
    waiting_grants: grants,
  }
}

function limit(own: number | null, tier: number) {
  return { value: own ?? tier, own, tier }
}

async function listMembers(sql: Sql, customerId: string): Promise<CustomerDetail['members']> {
  const { rows } = await sql.query<{ id: string; email: string; name: string; role: MemberRole; since: Date }>(
    `SELECT person_id AS id, email, name, role, membership.created_at AS since
       FROM membership JOIN person USING (person_id) WHERE customer_id = $1 ORDER BY membership.created_at, person_id`,
    [customerId],
  )
  return rows.map(({ id, email, name, role, since }) => ({
    person_id: id,
    email,
    name,
    role,
    since: since.toISOString(),
  }))
}

async function listInvitations(sql: Sql, customerId: string, nowMs: number): Promise<CustomerDetail['invitations']> {
  const { rows } = await sql.query<{ email: string; role: MemberRole; expiresAt: Date }>(
    `SELECT email, role, expires_at AS "expiresAt" FROM person_token
      WHERE customer_id = $1 AND purpose = 'invite' AND expires_at > $2 ORDER BY created_at`,
    [customerId, new Date(nowMs)],
  )
  return rows.map(({ email, role, expiresAt }) => ({ email, role, expires_at: expiresAt.toISOString() }))
}
