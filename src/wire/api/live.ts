import { z } from 'zod'

/** The topics of `versions`. */
export const liveTopics = ['keys', 'alerts', 'people', 'payments', 'budgets'] as const

const version = z.int().nonnegative()

/** The data of the event `state` of `GET C/live`. */
export const liveState = z.object({
  balance_usd: z.number().describe('As `balance_usd` of `GET C/credits`.'),
  newest_request_id: z.string().nullable(),
  requests_today: z.int().nonnegative().describe('Settled requests that began on this UTC day.'),
  versions: z
    .object({ keys: version, alerts: version, people: version, payments: version, budgets: version })
    .describe('Each grows when something of its topic changes. The values have no meaning of their own.'),
})
export type LiveState = z.infer<typeof liveState>

/** The data of the event `end`, the last one. */
export const liveEnd = z.object({ reason: z.enum(['session_ended', 'stopping']) })
export type LiveEnd = z.infer<typeof liveEnd>
