import { z } from 'zod'
import type { Answer } from './answer-chat.ts'
import { type ChatRequest, parseChatRequest } from './chat-request.ts'
import { tokensOf } from './count-prompt.ts'
import type { DemoLanguage } from './demo-language.ts'
import { parseBody } from './parse-body.ts'
import { planReply } from './plan-reply.ts'
import { listInputs, textInputs } from './text-inputs.ts'

const completionBody = z.looseObject({
  prompt: textInputs,
  suffix: z.string().nullish(),
})

/**
 * Plans the answer to POST /v1/completions: each prompt is answered like a message. Throws DemoError.
 *
 * @param seed added to the seed of the request
 */
export function planCompletion(
  language: DemoLanguage,
  body: unknown,
  seed: number,
): Pick<Answer, 'request' | 'promptTokens' | 'replies'> {
  const { prompt, suffix } = parseBody(completionBody, body)
  const prompts = listInputs(prompt)
  const requests = prompts.map((text): ChatRequest => {
    const { logprobs: _, ...fields } = body as Record<string, unknown>
    const content = typeof text === 'string' ? `${text}${suffix ?? ''}` : text.join(' ')
    const request = parseChatRequest({ ...fields, messages: [{ role: 'user', content }] })
    return { ...request, seed: request.seed + seed }
  })
  const [request] = requests
  const texts = prompts.filter(text => typeof text === 'string')
  const ids = prompts.reduce((sum, text) => sum + (typeof text === 'string' ? 0 : text.length), 0)
  return {
    request: request!,
    promptTokens: tokensOf([...texts, ...texts.map(() => suffix ?? '')]) + ids,
    replies: requests.flatMap(each => planReply(language, each)).map((reply, index) => ({ ...reply, index })),
  }
}
