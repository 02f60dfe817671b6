import { z } from 'zod'
import { memberRoles } from '../../../base/domain/member-role.ts'
import { cursorParameter } from '../cursor.ts'
import { key } from '../keys.ts'
import { queryInteger } from '../query-integer.ts'

// Answers under /console/api/operator about customers. Amounts are USD with at most 9 decimals.

export const customerStates = ['active', 'paused', 'deleted'] as const
export type CustomerState = (typeof customerStates)[number]

const SEARCH_CHARACTERS_MAX = 254
const searchText = `must be a text of at most ${SEARCH_CHARACTERS_MAX} characters`

/** What the list of customers can be sorted by. */
export const customerSorts = ['created', 'email', 'balance', 'spent', 'requests'] as const
export type CustomerSort = (typeof customerSorts)[number]

/** The key of a cursor: the id of the last customer of the page, after the figure by which the list is sorted. */
export const customersCursor = /^(?:(-?\d{1,18})\|)?([0-9a-f-]{36})$/

export const customersQuery = z.object({
  search: z
    .string(searchText)
    .max(SEARCH_CHARACTERS_MAX, searchText)
    .optional()
    .describe('A part of the e-mail address, or of the name or address of a member, or the beginning of the id.'),
  state: z.enum(customerStates, `must be one of ${customerStates.join(', ')}`).optional(),
  tier: z.string(searchText).max(SEARCH_CHARACTERS_MAX, searchText).optional(),
  sort: z
    .enum(customerSorts, `must be one of ${customerSorts.join(', ')}`)
    .default('created')
    .describe('`spent` and `requests` are of the last 30 UTC days, as summed within the last minute.'),
  order: z.enum(['asc', 'desc'], 'must be one of asc, desc').default('desc'),
  limit: queryInteger({ max: 100, example: 50 }).default(50),
  cursor: cursorParameter(customersCursor),
})
export type CustomersQuery = z.output<typeof customersQuery>

const listedCustomer = z.object({
  id: z.string(),
  email: z.string().nullable().describe('Null for a deleted customer.'),
  tier: z.string(),
  state: z.enum(customerStates),
  created_at: z.string(),
  balance_usd: z.number(),
  held_usd: z.number().describe('Held for running requests, and by nodes for the next ones.'),
  spent_30d_usd: z.number().describe('Charges of the last 30 UTC days, including today.'),
  requests_30d: z.int(),
  last_used_on: z.string().nullable().describe('The UTC day of the last request of the last 30 days.'),
  people: z.int(),
  keys: z.int().describe('Keys that are not revoked.'),
})
export type ListedCustomer = z.infer<typeof listedCustomer>

export const customerPage = z
  .object({
    data: z.array(listedCustomer).describe('Sorted by `sort`; by default, the newest customer first.'),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'OperatorCustomers' })
export type CustomerPage = z.infer<typeof customerPage>

const limit = z.object({
  value: z.number().describe('The limit in force.'),
  own: z.number().nullable().describe("The customer's own limit; null: that of the tier."),
  tier: z.number().describe('The limit of the tier.'),
})

export const customerDetail = z
  .object({
    ...listedCustomer.shape,
    limits: z.object({ requests_per_minute: limit, requests_per_day: limit, daily_spend_cap_usd: limit }),
    shares_requests: z.boolean().describe('Some of its requests may be sent once more, to find hosters that cheat.'),
    tiers: z.array(z.string()).describe('The account tiers to choose from.'),
    spend: z.object({
      today_usd: z.number(),
      week_usd: z.number().describe('Since Monday.'),
      month_usd: z.number(),
      total_usd: z.number(),
    }),
    members: z.array(
      z.object({
        person_id: z.string(),
        email: z.string(),
        name: z.string(),
        role: z.enum(memberRoles),
        since: z.string(),
      }),
    ),
    invitations: z.array(z.object({ email: z.string(), role: z.enum(memberRoles), expires_at: z.string() })),
    api_keys: z.array(key).describe('Keys that are not revoked, the newest first.'),
    waiting_grants: z.array(z.lazy(() => grantShown)),
  })
  .meta({ id: 'OperatorCustomer' })
export type CustomerDetail = z.infer<typeof customerDetail>

export const issuedCustomerKey = z
  .object({ ...key.shape, key: z.string().describe('The key itself. Only this answer has it.') })
  .meta({ id: 'OperatorIssuedKey' })
export type IssuedCustomerKey = z.infer<typeof issuedCustomerKey>

export const foundKey = z
  .object({
    customer_id: z.string(),
    customer_email: z.string(),
    key_id: z.string(),
    name: z.string(),
    hint: z.string(),
    state: z.enum(['active', 'paused', 'expired', 'revoked']),
  })
  .meta({ id: 'OperatorFoundKey' })
export type FoundKey = z.infer<typeof foundKey>

export const grantShown = z
  .object({
    id: z.string(),
    customer_id: z.string(),
    email: z.string().nullable(),
    amount_usd: z.number(),
    reason: z.string(),
    ref: z.string(),
    is_promotion: z.boolean().describe('Nobody paid for it, so its part of earnings of hosters has a budget.'),
    state: z.enum(['waiting', 'granted', 'rejected']),
    requested_by: z
      .string()
      .describe('The e-mail address of the operator, or the id of a person who no longer exists.'),
    requested_at: z.string(),
    decided_by: z.string().nullable(),
    decided_at: z.string().nullable(),
    is_own: z.boolean().describe('The signed-in operator asked for it, so another one must approve it.'),
  })
  .meta({ id: 'OperatorGrant' })
export type GrantShown = z.infer<typeof grantShown>

export const grantsQuery = z.object({
  state: z.enum(['waiting', 'all'], 'must be one of waiting, all').default('waiting'),
})
export const grantList = z.object({ data: z.array(grantShown).max(100) }).meta({ id: 'OperatorGrants' })

export const grantResult = z
  .object({
    state: z
      .enum(['granted', 'waiting', 'duplicate'])
      .describe('`waiting`: a second operator must approve it. `duplicate`: this ref was granted before.'),
    dry_run: z.boolean().describe('True: nothing was changed, and the other fields show what would happen.'),
    grant_id: z.string().nullable().describe('Null for a dry run and a duplicate.'),
    ref: z.string().nullable().describe('Null for a dry run without a ref: the grant itself draws one.'),
    amount_usd: z.number(),
    is_promotion: z.boolean(),
    balance_before_usd: z.number(),
    balance_after_usd: z.number(),
    tier: z.string(),
    tier_after: z.string().describe('The first grant that was paid for moves a customer from `free` to `standard`.'),
  })
  .meta({ id: 'OperatorGrantResult' })
export type GrantResult = z.infer<typeof grantResult>

export const refundResult = z
  .object({
    request_id: z.string(),
    refunded: z.boolean().describe('False for a dry run, and when the same amount was refunded before.'),
    would_refund: z.boolean(),
    dry_run: z.boolean(),
    charged_usd: z.number(),
    amount_usd: z.number(),
    hoster_share_usd: z.number(),
    fee_usd: z.number(),
    balance_usd: z.number(),
  })
  .meta({ id: 'OperatorRefund' })
export type RefundResult = z.infer<typeof refundResult>
