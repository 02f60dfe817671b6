import { z } from 'zod'
import { features } from '../../base/domain/chat-job.ts'
import { hosterStates } from '../../base/domain/hoster-state.ts'
import { manifest, quantizations } from './hoster-manifest.ts'

const usdPerToken = z.string().describe('USD per token, as decimal text.')

/** What customers may know of a hoster. */
export const hosterFacts = z
  .object({
    id: z.string(),
    object: z.literal('hoster'),
    name: z.string(),
    state: z.enum(hosterStates).describe('Only `active` hosters receive requests.'),
    since: z.string().describe('When it was first active.'),
    region: z.string().nullable().describe('The country of its servers, as the hoster says.'),
    data_policy: manifest.shape.data_policy.unwrap().unwrap().nullable().describe('As the hoster says. Null: unknown.'),
    trust_score: z
      .number()
      .describe('From 0 to 1, as of an earlier day. Above 0.8 it may serve `trusted_only` requests.'),
    models: z.array(
      z.object({
        id: z.string(),
        name: z.string().nullable(),
        quantization: z.enum(quantizations).nullable(),
        context_length: z.int(),
        max_output_length: z.int(),
        supported_features: z.array(z.enum(features)),
        pricing: z.object({
          prompt: usdPerToken,
          completion: usdPerToken,
          input_cache_read: usdPerToken.nullable().describe('Null: the price of `prompt`.'),
          input_cache_write: usdPerToken.nullable().describe('Null: the price of `prompt`.'),
        }),
      }),
    ),
  })
  .meta({
    id: 'HosterFacts',
    example: {
      id: '5b0e7a1c-8f0d-4a34-9d7f-2f0f6f1d9c11',
      object: 'hoster',
      name: 'acme',
      state: 'active',
      since: '2026-11-25T09:20:00.000Z',
      region: 'DE',
      data_policy: { trains_on_data: false, retention_days: 0 },
      trust_score: 0.84,
      models: [
        {
          id: 'qwen3-8b',
          name: 'Qwen3 8B',
          quantization: 'int4',
          context_length: 32_768,
          max_output_length: 8_192,
          supported_features: ['tools', 'json_schema', 'chat'],
          pricing: {
            prompt: '0.00000005',
            completion: '0.0000002',
            input_cache_read: '0.00000001',
            input_cache_write: null,
          },
        },
      ],
    },
  })
export type HosterFacts = z.infer<typeof hosterFacts>

export const hosterFactsList = z
  .object({ object: z.literal('list'), data: z.array(hosterFacts) })
  .meta({ id: 'HosterFactsList' })
