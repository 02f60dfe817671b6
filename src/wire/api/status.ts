import { z } from 'zod'
import { providerKinds } from '../../base/domain/offer.ts'

const state = z
  .enum(['ok', 'degraded', 'down', 'unknown'])
  .describe(
    'By the attempts of all customers. `down`: most of them fail, or no requests go there because they failed. `degraded`: a part fails, or some servers are down. `unknown`: no request for a day.',
  )

const history = {
  uptime: z.number().nullable().describe('The share of answered attempts over 90 days, from 0 to 1; null without any.'),
  days_used: z.int().describe('How many of the 90 days had an attempt.'),
  outages: z.int().describe('Incidents of these days.'),
}

/** The answer of `GET /status.json`. */
export const statusReport = z
  .object({
    as_of: z.string(),
    state,
    models: z.array(
      z.object({
        id: z.string(),
        state,
        servers: z.int().describe('How many servers offer it.'),
        healthy: z.int().describe('Of these, the ones that are not down.'),
        ...history,
      }),
    ),
    servers: z.array(
      z.object({
        name: z.string().describe('`Server 1` and so on, unless the operator shows names.'),
        provider: z.enum(providerKinds),
        state,
        models: z.array(z.string()),
        ...history,
        days: z
          .array(
            z.object({
              day: z.string(),
              uptime: z.number().nullable().describe('The share of attempts of the UTC day that were answered.'),
              outages: z.int().describe('Incidents that began on the day.'),
            }),
          )
          .describe('The last 90 UTC days, the oldest first.'),
      }),
    ),
    incidents: z
      .array(
        z.object({
          server: z.string(),
          models: z.array(z.string()),
          kind: z
            .enum(['ejected', 'credential_rejected', 'failing'])
            .describe(
              '`ejected`: the server failed, and got no requests. `credential_rejected`: it refused the key of the operator. `failing`: it failed most requests, and others were still sent.',
            ),
          began_at: z.string(),
          ended_at: z.string().nullable().describe('Null: it goes on.'),
        }),
      )
      .describe('The last 100 times that a server failed, the newest first.'),
  })
  .meta({
    id: 'Status',
    examples: [
      {
        as_of: '2026-11-24T09:00:00.000Z',
        state: 'ok',
        models: [{ id: 'demo', state: 'ok', servers: 1, healthy: 1, uptime: 0.9998, days_used: 1, outages: 0 }],
        servers: [
          {
            name: 'Server 1',
            provider: 'local',
            state: 'ok',
            models: ['demo'],
            uptime: 0.9998,
            days_used: 1,
            outages: 0,
            days: [{ day: '2026-11-24', uptime: 0.9998, outages: 0 }],
          },
        ],
        incidents: [],
      },
    ],
  })
export type StatusReport = z.infer<typeof statusReport>
