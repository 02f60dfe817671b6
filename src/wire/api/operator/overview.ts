import { z } from 'zod'
import { providerKinds } from '../../../base/domain/offer.ts'

// Answers under /console/api/operator about the installation. Amounts are USD with at most 9 decimals.

export const serverStates = ['open', 'probing', 'ejected', 'unused'] as const

export const shownServer = z.object({
  endpoint_id: z.string(),
  name: z.string(),
  provider: z.enum(providerKinds),
  model: z.string(),
  state: z
    .enum(serverStates)
    .describe(
      'The worst of all nodes. `ejected`: the breaker keeps requests away. `unused`: no node has used it lately.',
    ),
  in_flight: z.int().describe('Running attempts on all nodes.'),
  first_token_p50_ms: z.number().nullable().describe('The median of the last answers of each node; null without any.'),
  answered_today: z.int(),
  failed_today: z.int(),
  ok_share: z.number().nullable().describe('Answered attempts of today (UTC), from 0 to 1; null without any.'),
})
export type ShownServer = z.infer<typeof shownServer>

export const alarmKinds = [
  'audit_violations',
  'audit_missing',
  'payment_differences',
  'server_ejected',
  'no_servers',
  'job_failed',
  'jobs_late',
  'sums_late',
  'grants_waiting',
  'models_waiting',
  'promotion_reviews',
  'promotion_over_budget',
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
        kind: z.enum(alarmKinds),
        severity: z.enum(['danger', 'warn']),
        message: z.string(),
        since: z.string().nullable(),
      }),
    ),
    servers: z.array(shownServer),
  })
  .meta({ id: 'OperatorOverview' })
export type Overview = z.infer<typeof overview>
export type Alarm = Overview['alarms'][number]
