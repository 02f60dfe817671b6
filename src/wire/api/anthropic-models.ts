import { z } from 'zod'
import { ALIAS_PREFIX } from '../dialects/messages/messages-request.ts'
import type { ListedModel } from './models.ts'

export const anthropicModel = z.object({
  type: z.literal('model'),
  id: z.string().describe('Value for `model` in a request. `claude/` before it is ignored there.'),
  display_name: z.string(),
  created_at: z.iso.datetime(),
  max_input_tokens: z.int().positive(),
  max_tokens: z.int().positive().describe('Largest number of output tokens.'),
})

/** Anthropic's list of models. All are on one page. */
export const anthropicModelPage = z
  .object({
    data: z.array(anthropicModel),
    has_more: z.literal(false),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .meta({
    id: 'AnthropicModelPage',
    examples: [
      {
        data: [
          {
            type: 'model',
            id: 'claude/llama-3.3-70b',
            display_name: 'llama-3.3-70b',
            created_at: '2026-11-21T09:29:55.000Z',
            max_input_tokens: 131072,
            max_tokens: 8192,
          },
        ],
        has_more: false,
        first_id: 'claude/llama-3.3-70b',
        last_id: 'claude/llama-3.3-70b',
      },
    ],
  })

/** Claude Code lists only models that it believes to be Anthropic's. */
const ANTHROPIC_ID = /^(?:claude|anthropic)/

/**
 * Returns all models as Anthropic lists them, sorted by id. A model with another name is listed twice: as it is, and as
 * `claude/<id>`.
 */
export function listAnthropicModels(listed: Iterable<ListedModel>): z.infer<typeof anthropicModelPage> {
  const sorted = [...listed].sort((a, b) => (a.id < b.id ? -1 : 1))
  const data = sorted.flatMap(listed => {
    const names = ANTHROPIC_ID.test(listed.id) ? [listed.id] : [listed.id, `${ALIAS_PREFIX}${listed.id}`]
    return names.map(name => showAnthropicModel(listed, name))
  })
  return { data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
}

/** Returns a model as Anthropic shows it, under the name that the client asked for. */
export function showAnthropicModel(
  { id, created, contextTokens, maxOutputTokens }: ListedModel,
  name: string,
): z.infer<typeof anthropicModel> {
  return {
    type: 'model',
    id: name,
    display_name: id,
    created_at: new Date(created * 1000).toISOString(),
    max_input_tokens: contextTokens,
    max_tokens: maxOutputTokens,
  }
}
