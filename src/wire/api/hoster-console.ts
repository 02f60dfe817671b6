import { z } from 'zod'
import { features } from '../../base/domain/chat-job.ts'
import { serverStates } from '../../base/domain/server-state.ts'
import { codedSentences } from './coded-sentences.ts'
import { storedManifest } from './hoster-manifest.ts'

// What hosters see of their servers, offers and traffic: the addresses under /v1/hoster and
// /console/api/hosters/{hoster_id}.

/** The answer of `GET /v1/hoster/status`. */
export const hosterStatus = z
  .object({
    object: z.literal('hoster.status'),
    models: z
      .array(
        z.object({
          model: z.string(),
          state: z
            .enum(serverStates)
            .describe(
              'By the attempts of all customers at all nodes. `ejected`: it failed and gets no requests for a while. `unknown`: no request for a day.',
            ),
          in_flight: z.int(),
          first_token_p50_ms: z.number().nullable().describe('Of the last answers. Null: none lately.'),
          answered_today: z.int().describe('Attempts of this UTC day.'),
          failed_today: z.int(),
        }),
      )
      .describe('The models that are offered now.'),
    waiting: z
      .array(
        z.object({
          model: z.string(),
          state: z
            .enum(['scheduled', 'waiting', 'failed', 'unapproved', 'refused'])
            .describe(
              '`scheduled`: its price waits for the notice. `waiting`: it waits for its probes. `failed`: a probe failed. `unapproved`: its id waits for an operator. `refused`: the operator refused the id.',
            ),
          applies_at: z.string().nullable().describe('When the price applies. Only if `scheduled`.'),
          passed: z.int().describe('Probes that passed before one failed. Three are needed.'),
          problem: z.string().nullable().describe('Why the last probe failed, or why the id is refused.'),
          problem_codes: codedSentences,
          probed_at: z.string().nullable(),
          again_at: z
            .string()
            .nullable()
            .describe('When failed probes are repeated. Null: after a day they are not repeated by themselves.'),
        }),
      )
      .describe('New and changed models that are not offered yet.'),
    agents: z
      .array(
        z.object({
          id: z.string(),
          key_id: z.string(),
          version: z.string(),
          state: z.enum(['open', 'paused', 'draining']).describe('Only `open` agents take requests.'),
          reason: z.string().nullable().describe('Why it takes none.'),
          slots: z.int(),
          free_slots: z.int(),
          models: z.array(z.string()).describe('The ids at its server, at most 50.'),
          nodes: z.int().describe('To how many nodes of the gateway it is connected.'),
          connected_at: z.string(),
        }),
      )
      .describe('The agents that are connected, as the nodes reported in the last minute.'),
  })
  .meta({
    id: 'HosterStatus',
    example: {
      object: 'hoster.status',
      models: [
        {
          model: 'qwen3-8b',
          state: 'working',
          in_flight: 2,
          first_token_p50_ms: 410,
          answered_today: 1_204,
          failed_today: 3,
        },
      ],
      waiting: [
        {
          model: 'qwen3-32b',
          state: 'failed',
          applies_at: null,
          passed: 0,
          problem: 'the server answered with status 404',
          probed_at: '2026-11-25T09:00:00.000Z',
          again_at: '2026-11-25T09:10:00.000Z',
        },
      ],
      agents: [],
    },
  })
export type HosterStatus = z.infer<typeof hosterStatus>

const usdPerMillion = z.number().describe('USD per million tokens.')

const candidate = z.object({
  percent: z.int().describe('Of the current prices: 100 is now.'),
  input_usd_per_million: usdPerMillion,
  output_usd_per_million: usdPerMillion,
  request_usd: z.number().describe('What the typical request costs.'),
  price_rank: z.int().describe('1: no other server is cheaper for the typical request.'),
  wins_cheapest: z.boolean().describe('Whether it is tried first for requests with the tier `cheapest`.'),
  balanced_share: z
    .number()
    .describe(
      'The probability that it is tried first for a request with the tier `balanced`, if all servers are equally fast.',
    ),
  requests: z.int().describe('`market.requests` x `balanced_share`.'),
  earned_usd: z.number().describe('`requests` x `request_usd` x the share of the hoster.'),
  needs_notice: z.boolean().describe('The rise waits for the notice.'),
})

/** The answer of `GET /v1/hoster/offers`. */
export const hosterOffers = z
  .object({
    object: z.literal('hoster.offers'),
    manifest: storedManifest
      .nullable()
      .describe('The newest one. Null: none was sent, so the operator set the models.'),
    rules: z
      .object({
        max_input_usd_per_million: usdPerMillion,
        max_output_usd_per_million: usdPerMillion,
        change_minutes: z.number().describe('The least time between two changes.'),
        rise_percent: z.int().describe('A price that rises by more waits for the notice.'),
        notice_hours: z.number(),
        share_percent: z.number().describe('Of each charge, what the hoster earns.'),
      })
      .describe('The rules of the operator for prices.'),
    data: z.array(
      z.object({
        model: z.string(),
        upstream_model: z.string().describe("The id at the hoster's server."),
        context_length: z.int(),
        max_output_length: z.int(),
        max_concurrent: z
          .int()
          .nullable()
          .describe('How many requests at once the server takes. Null: the gateway finds a limit.'),
        supported_features: z.array(z.enum(features)),
        input_usd_per_million: usdPerMillion,
        output_usd_per_million: usdPerMillion,
        cache_read_usd_per_million: usdPerMillion.nullable().describe('Null: the price of input.'),
        cache_write_usd_per_million: usdPerMillion.nullable(),
        versions: z
          .array(
            z.object({
              version: z.int(),
              input_usd_per_million: usdPerMillion,
              output_usd_per_million: usdPerMillion,
              valid_from: z.string(),
              valid_until: z.string().nullable().describe('Null: the current one.'),
            }),
          )
          .describe('The last ten, the newest first.'),
        scheduled: z
          .object({
            input_usd_per_million: usdPerMillion,
            output_usd_per_million: usdPerMillion,
            applies_at: z.string(),
          })
          .nullable()
          .describe('A price that waits for its notice.'),
        market: z
          .object({
            days: z.int(),
            requests: z.int().describe('Answered requests for this model on these days, by all servers here.'),
            input_tokens: z.int().describe('Of the typical request: the mean of these requests.'),
            output_tokens: z.int(),
            is_assumed: z.boolean().describe('There were no requests, so the typical one is an assumption.'),
            others: z.array(
              z.object({
                name: z.string().describe('`platform` for servers of the operator.'),
                provider: z.enum(['local', 'hoster', 'cloud']),
                request_usd: z.number().describe('What the typical request costs there.'),
                trust: z.number().describe('From 0 to 1; servers of the operator count as 1.'),
              }),
            ),
          })
          .describe('The servers that compete for the requests of this model, the cheapest first.'),
        candidates: z.array(candidate).describe('What other prices would have done.'),
      }),
    ),
  })
  .meta({
    id: 'HosterOffers',
    example: {
      object: 'hoster.offers',
      manifest: null,
      rules: {
        max_input_usd_per_million: 100,
        max_output_usd_per_million: 400,
        change_minutes: 10,
        rise_percent: 20,
        notice_hours: 24,
        share_percent: 80,
      },
      data: [
        {
          model: 'qwen3-8b',
          upstream_model: 'qwen3:8b',
          context_length: 32_768,
          max_output_length: 8_192,
          max_concurrent: 8,
          supported_features: ['chat', 'tools'],
          input_usd_per_million: 0.05,
          output_usd_per_million: 0.2,
          cache_read_usd_per_million: 0.01,
          cache_write_usd_per_million: null,
          versions: [
            {
              version: 1,
              input_usd_per_million: 0.05,
              output_usd_per_million: 0.2,
              valid_from: '2026-11-25T09:10:00.000Z',
              valid_until: null,
            },
          ],
          scheduled: null,
          market: {
            days: 7,
            requests: 8_400,
            input_tokens: 600,
            output_tokens: 250,
            is_assumed: false,
            others: [{ name: 'other', provider: 'hoster', request_usd: 0.000075, trust: 0.9 }],
          },
          candidates: [
            {
              percent: 100,
              input_usd_per_million: 0.05,
              output_usd_per_million: 0.2,
              request_usd: 0.00008,
              price_rank: 2,
              wins_cheapest: false,
              balanced_share: 0.45,
              requests: 3_780,
              earned_usd: 0.24192,
              needs_notice: false,
            },
          ],
        },
      ],
    },
  })
export type HosterOffers = z.infer<typeof hosterOffers>
export type OfferCandidate = z.infer<typeof candidate>

const tokens = z
  .object({ reported: z.int(), counted: z.int(), billed: z.int() })
  .describe("The hoster's count, the gateway's count, and what was billed.")

/** The answer of `GET /v1/hoster/traffic`. */
export const hosterTraffic = z
  .object({
    object: z.literal('hoster.traffic'),
    from: z.string(),
    until: z.string(),
    data: z
      .array(
        z.object({
          day: z.string().describe('The UTC day on which the requests began.'),
          model: z.string(),
          answered: z.int().describe('Attempts that were answered.'),
          failed: z
            .record(z.string(), z.int())
            .describe(
              'The other attempts by outcome, such as `server_error`, `first_token_timeout`, `busy` and `cancelled`.',
            ),
          compared_requests: z.int().describe('Answers that both sides counted. The tokens below are theirs.'),
          input_tokens: tokens,
          output_tokens: tokens,
        }),
      )
      .describe('One for each day and model, the oldest first. Requests appear about 15 minutes after they began.'),
  })
  .meta({
    id: 'HosterTraffic',
    example: {
      object: 'hoster.traffic',
      from: '2026-11-25',
      until: '2026-11-25',
      data: [
        {
          day: '2026-11-25',
          model: 'qwen3-8b',
          answered: 1_204,
          failed: { server_error: 2, busy: 1 },
          compared_requests: 1_180,
          input_tokens: { reported: 402_000, counted: 400_100, billed: 402_000 },
          output_tokens: { reported: 190_500, counted: 190_000, billed: 190_500 },
        },
      ],
    },
  })
export type HosterTraffic = z.infer<typeof hosterTraffic>
