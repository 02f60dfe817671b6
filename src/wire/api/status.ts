import { z } from 'zod'
import { providerKinds } from '../../base/domain/offer.ts'

const state = z
  .enum(['ok', 'degraded', 'down'])
  .describe('`degraded`: some servers get no requests, because they failed. `down`: none does.')

/** The answer of `GET /status.json`. */
export const statusReport = z
  .object({
    as_of: z.string(),
    state,
    models: z.array(
      z.object({ id: z.string(), state, servers: z.int().describe('How many servers offer it.'), healthy: z.int() }),
    ),
    servers: z.array(
      z.object({
        name: z.string().describe('`Server 1` and so on, unless the operator shows names.'),
        provider: z.enum(providerKinds),
        state,
        models: z.array(z.string()),
        uptime: z
          .number()
          .nullable()
          .describe('The share of answered attempts over all days, from 0 to 1; null without any.'),
        days: z
          .array(
            z.object({
              day: z.string(),
              uptime: z.number().nullable().describe('The share of attempts of the UTC day that were answered.'),
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
            .enum(['ejected', 'credential_rejected'])
            .describe('`ejected`: the server failed. `credential_rejected`: it refused the key of the operator.'),
          began_at: z.string(),
          ended_at: z.string().nullable().describe('Null: it goes on.'),
        }),
      )
      .describe('The last 100 times that the gateway kept requests away from a server, the newest first.'),
  })
  .meta({
    id: 'Status',
    examples: [
      {
        as_of: '2026-11-24T09:00:00.000Z',
        state: 'ok',
        models: [{ id: 'demo', state: 'ok', servers: 1, healthy: 1 }],
        servers: [
          {
            name: 'Server 1',
            provider: 'local',
            state: 'ok',
            models: ['demo'],
            uptime: 0.9998,
            days: [{ day: '2026-11-24', uptime: 0.9998 }],
          },
        ],
        incidents: [],
      },
    ],
  })
export type StatusReport = z.infer<typeof statusReport>
