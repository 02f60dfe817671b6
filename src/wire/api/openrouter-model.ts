import { z } from 'zod'
import type { Feature } from '../../base/domain/chat-job.ts'
import { type OfferPrice, stepOf, usdPerTokenText } from '../../base/domain/money.ts'
import { serves } from '../../base/domain/offer.ts'

// Keys of OpenRouter's list of models. Zed, Cline, Open WebUI and others read them from any list that has them.

const usdPerToken = z.string().describe('Decimal USD per token, as at OpenRouter.')

/** Prices of the cheapest offer for short prompts, as text, since programs parse them as decimals. */
export const openRouterPricing = {
  prompt: usdPerToken,
  completion: usdPerToken,
  input_cache_read: usdPerToken,
  input_cache_write: usdPerToken,
  request: z.string().describe('Decimal USD for each request.'),
}

export const openRouterKeys = {
  name: z.string().describe('The id, for programs that show a name.'),
  architecture: z
    .object({ input_modalities: z.array(z.string()), output_modalities: z.array(z.string()) })
    .describe('What the model reads and returns, as at OpenRouter.'),
  supported_parameters: z.array(z.string()).describe('Optional parameters of chat that the model supports.'),
  top_provider: z
    .object({ context_length: z.int(), max_completion_tokens: z.int(), is_moderated: z.literal(false) })
    .describe('Repeats `context_length` and `max_output_tokens`, as at OpenRouter.'),
}

export function showOpenRouterPricing(price: OfferPrice): z.infer<z.ZodObject<typeof openRouterPricing>> {
  const step = price.terms === undefined ? undefined : stepOf(price.terms, 0)
  return {
    prompt: usdPerTokenText(price.inputPicoPerToken),
    completion: usdPerTokenText(price.outputPicoPerToken),
    input_cache_read: usdPerTokenText(step?.parts.cache_read ?? price.inputPicoPerToken),
    input_cache_write: usdPerTokenText(step?.parts.cache_write ?? price.inputPicoPerToken),
    request: usdPerTokenText(step?.perRequestPicos ?? 0n),
  }
}

/** Parameters that every chat server gets. */
const SUPPORTED_BY_ALL = ['max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'stop', 'seed'] as const

export function showOpenRouterKeys(model: {
  readonly id: string
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly features: ReadonlySet<Feature>
}): z.infer<z.ZodObject<typeof openRouterKeys>> {
  const { id, contextTokens, maxOutputTokens, features } = model
  const isChat = serves(model, 'chat')
  return {
    name: id,
    architecture: {
      input_modalities: [
        'text',
        ...(features.has('images') ? ['image'] : []),
        ...(features.has('audio') ? ['audio'] : []),
      ],
      output_modalities:
        isChat || features.has('completions') ? ['text'] : features.has('embeddings') ? ['embeddings'] : ['rerank'],
    },
    supported_parameters: isChat
      ? [
          ...SUPPORTED_BY_ALL,
          ...(features.has('tools') ? ['tools', 'tool_choice'] : []),
          ...(features.has('json_schema') ? ['response_format', 'structured_outputs'] : []),
        ]
      : [],
    top_provider: { context_length: contextTokens, max_completion_tokens: maxOutputTokens, is_moderated: false },
  }
}
