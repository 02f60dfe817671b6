import { z } from 'zod'
import { providerKinds } from '../../../base/domain/offer.ts'
import { serverStates } from '../../../base/domain/server-state.ts'
import { codedSentences } from '../coded-sentences.ts'

// Answers under /console/api/operator about the installation. Amounts are USD with at most 9 decimals.

export const shownServer = z.object({
  endpoint_id: z.string(),
  name: z.string(),
  provider: z.enum(providerKinds),
  model: z.string(),
  state: z
    .enum(serverStates)
    .describe(
      'By the attempts of all customers at all nodes, see docs/routing.md. `ejected`: a breaker keeps requests away. `unknown`: no attempt for a day.',
    ),
  in_flight: z.int().describe('Running attempts on all nodes.'),
  first_token_p50_ms: z.number().nullable().describe('The median of the last answers of each node; null without any.'),
  attempts_today: z.int().describe('Attempts of this UTC day: answered, failed, and refused as busy.'),
  answered_today: z.int(),
  failed_today: z.int(),
  busy_today: z.int(),
  ok_share: z
    .number()
    .nullable()
    .describe('The share of the attempts of today that were answered, 0 to 1; null without any.'),
  recent_attempts: z.int().describe('Of the last ten minutes.'),
  recent_failed: z.int(),
  customers_kept_away: z
    .int()
    .describe('Customers that it is kept away from while it serves others: the most of any node.'),
  attempted_at: z.string().nullable().describe('When a node last reported an attempt.'),
  last_error: z
    .object({
      at: z.string(),
      outcome: z.string().describe('As in `attempts` of a receipt.'),
      status: z.int().nullable().describe('The HTTP status; null if the server gave none.'),
      text: z.string().describe('Without keys, addresses and prompts.'),
      request_id: z.string().nullable(),
      customer_id: z.string().nullable(),
    })
    .nullable(),
})
export type ShownServer = z.infer<typeof shownServer>

export const alarmKinds = [
  'audit_violations',
  'audit_missing',
  'payment_differences',
  'server_ejected',
  'server_failing',
  'no_servers',
  'job_failed',
  'jobs_late',
  'sums_late',
  'grants_waiting',
  'models_waiting',
  'promotion_reviews',
  'promotion_over_budget',
  'hoster_suspended',
  'disk_low',
  'backup_old',
  'backup_failed',
  'restore_test_failed',
  'usage_archive_failed',
  'usage_export_failed',
  'price_below_cost',
  'budget_spent',
  'webhook_missing',
  'rotation_unfinished',
] as const

/** What waits for an operator. */
const waitingKinds = [
  'models',
  'hosters_verified',
  'hosters_joining',
  'appeals',
  'promotion_reviews',
  'payouts_prepared',
  'payouts_approved',
  'top_ups',
  'grants',
  'role_changes',
  'people_without_role',
  'invitations',
] as const

export const overview = z
  .object({
    as_of: z.string(),
    today: z
      .object({
        revenue_usd: z.number().describe("Charges less the hosters' shares."),
        charged_usd: z.number(),
        requests: z.int(),
        failed: z.int(),
        granted_usd: z.number().describe('Credit that was added, apart from signup credit.'),
        refunded_usd: z.number(),
        written_off_usd: z.number().describe('Measured cost that was charged to nobody.'),
      })
      .describe('The UTC day so far, as of `summed_at`.'),
    summed_at: z
      .string()
      .nullable()
      .describe('When a job last wrote the sums over all customers. Usually within a minute.'),
    held_usd: z.number().describe('Held for running requests, and by nodes for the next ones.'),
    customer_credit_usd: z.number().describe('The sum of all balances.'),
    payable_usd: z.number().describe('What hosters have earned, less their parts of refunds, as of `summed_at`.'),
    written_off_30d_usd: z.number(),
    last_audit: z
      .object({ at: z.string(), elapsed_ms: z.number(), violations: z.int() })
      .nullable()
      .describe('The last audit of the ledger on any node; null before the first.'),
    nodes: z.array(
      z.object({
        id: z.string(),
        started_at: z.string(),
        state: z.enum(['alive', 'silent', 'dead']).describe('`silent`: alive, but has not reported for a minute.'),
        version: z.string().nullable(),
        reported_at: z.string().nullable(),
      }),
    ),
    alarms: z.array(
      z.object({
        key: z.string().describe('The same as long as the alarm lasts: its kind and what it is about.'),
        kind: z.enum(alarmKinds),
        severity: z.enum(['danger', 'warn']),
        message: z.string(),
        message_codes: codedSentences,
        todo: z.string().describe('What to do.'),
        todo_codes: codedSentences,
        link: z.string().nullable().describe('The page of the console to do it on.'),
        since: z.string().nullable(),
      }),
    ),
    waiting: z
      .array(
        z.object({
          kind: z.enum(waitingKinds),
          count: z.int(),
          link: z.string().describe('The page of the console to do it on.'),
        }),
      )
      .describe('What waits for an operator. Kinds of which nothing waits are left out.'),
    servers: z.array(shownServer),
  })
  .meta({ id: 'OperatorOverview' })
export type Overview = z.infer<typeof overview>
export type Alarm = Overview['alarms'][number]
