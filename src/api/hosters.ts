import { z } from 'zod'
import { hosterActors, hosterStates } from '../domain/hoster-state.ts'

// What hosters read and send: the addresses under /v1/hoster and /console/api/hosters/{hoster_id}.

const state = z.enum(hosterStates).meta({
  description: 'Only `active` hosters receive requests. docs/hosters.md describes the states.',
})

/** The answer of `GET /v1/hoster`. */
export const ownHoster = z
  .object({
    object: z.literal('hoster'),
    id: z.string(),
    name: z.string(),
    state,
    trust_score: z.number(),
    share: z.number().describe('The part of each charge that the hoster earns, from 0 to 1.'),
    created_at: z.string(),
    active_since: z.string().nullable().describe('When it was first active.'),
    endpoint: z.object({
      id: z.string(),
      transport: z.enum(['direct', 'agent']),
      base_url: z.string().nullable().describe('Null: the agent connects to the gateway.'),
      challenge_passed_at: z.string().nullable(),
    }),
    state_changes: z
      .array(
        z.object({
          from: z.enum(hosterStates).nullable(),
          to: z.enum(hosterStates),
          by: z.enum(hosterActors),
          reason: z.string(),
          at: z.string(),
        }),
      )
      .describe('The last 100, the newest first.'),
  })
  .meta({
    id: 'Hoster',
    example: {
      object: 'hoster',
      id: '5b0e7a1c-8f0d-4a34-9d7f-2f0f6f1d9c11',
      name: 'acme',
      state: 'active',
      trust_score: 0.84,
      share: 0.8,
      created_at: '2026-11-25T09:00:00.000Z',
      active_since: '2026-11-25T09:20:00.000Z',
      endpoint: {
        id: '0f1b54a4-6d0c-4d5a-8d57-0d6c2f5c1b77',
        transport: 'direct',
        base_url: 'https://models.acme.dev/v1',
        challenge_passed_at: '2026-11-25T09:05:00.000Z',
      },
      state_changes: [
        {
          from: 'verified',
          to: 'active',
          by: 'operator',
          reason: 'Reviewed.',
          at: '2026-11-25T09:20:00.000Z',
        },
      ],
    },
  })
