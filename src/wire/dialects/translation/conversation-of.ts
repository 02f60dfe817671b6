import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { Conversation, Effort } from '../../../base/domain/conversation.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { chatToConversation } from '../chat/chat-to-conversation.ts'
import { isFor } from '../forwarded-body.ts'

/** The conversations of chat requests. Most requests never need one; a request that fails over needs it again. */
const conversations = new WeakMap<ChatJob, Conversation>()

/** Translates a request for servers of other dialects, at the first call. */
export function conversationOf(job: ChatJob): Conversation {
  if (job.source !== undefined) return job.source.conversation()
  let conversation = conversations.get(job)
  if (conversation === undefined) {
    conversation = chatToConversation(job.forward, job.maxTokens)
    conversations.set(job, conversation)
  }
  return conversation
}

/** Returns the conversation without the fields that the server of this offer rejects or does not get. */
export function conversationFor(job: ChatJob, offer: Offer): Conversation {
  const whole = conversationOf(job)
  const effort = whole.reasoning.effort ?? thinkingEffort(job, offer)
  const rejected = rejectedFields(offer)
  if (rejected.size === 0 && effort === whole.reasoning.effort) return whole
  const unless = <Value>(field: string, value: Value) => (rejected.has(field) ? null : value)
  const { sampling, reasoning } = whole
  return {
    ...whole,
    sampling: {
      temperature: unless('temperature', sampling.temperature),
      topP: unless('top_p', sampling.topP),
      topK: unless('top_k', sampling.topK),
      presencePenalty: unless('presence_penalty', sampling.presencePenalty),
      frequencyPenalty: unless('frequency_penalty', sampling.frequencyPenalty),
      seed: unless('seed', sampling.seed),
      stop: rejected.has('stop') ? [] : sampling.stop,
    },
    reasoning: { ...reasoning, effort: unless('reasoning_effort', effort) },
    outputFormat: unless('response_format', whole.outputFormat),
    verbosity: unless('verbosity', whole.verbosity),
    cacheKey: unless('prompt_cache_key', whole.cacheKey),
    endUser: rejected.has('user') || rejected.has('safety_identifier') ? null : whole.endUser,
    parallelToolCalls: unless('parallel_tool_calls', whole.parallelToolCalls),
  }
}

/**
 * Whether the client must get its own names of tools back here: it speaks chat, and has tools that no other dialect
 * has.
 */
export function hasCustomTools(job: ChatJob): boolean {
  return job.source === undefined && conversationOf(job).tools.some(({ kind }) => kind === 'custom')
}

/** The fields of a chat request that the server or the model rejects. */
export function rejectedFields({ endpoint, quirks }: Offer): ReadonlySet<string> {
  return new Set([...endpoint.dialect.dropFields, ...(quirks?.dropFields ?? [])])
}

/** Clients of chat ask Anthropic's models to think with `thinking`, where the server may get that field. */
function thinkingEffort({ forward, extraFields }: ChatJob, offer: Offer): Effort | null {
  const { thinking } = forward
  const extra = extraFields.find(({ name }) => name === 'thinking')
  if (!isJsonObject(thinking) || (extra !== undefined && !isFor(extra, offer))) return null
  if (thinking.type === 'disabled') return 'none'
  const { budget_tokens: budget } = thinking
  if (typeof budget !== 'number') return thinking.type === 'enabled' ? 'medium' : null
  return budget < 4_096 ? 'low' : budget < 16_384 ? 'medium' : 'high'
}
