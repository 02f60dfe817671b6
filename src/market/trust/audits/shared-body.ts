import type { ChatJob } from '../../../base/domain/chat-job.ts'

/** Fields that another server must get too, or its answer differs. */
const meaningfulFields: ReadonlySet<string> = new Set([
  ...['messages', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'stop', 'seed'],
  ...['temperature', 'top_p', 'top_k', 'min_p', 'presence_penalty', 'frequency_penalty', 'repetition_penalty'],
  ...['logit_bias', 'reasoning_effort', 'verbosity', 'chat_template_kwargs', 'enable_thinking'],
])
const identifierFields = ['user', 'safety_identifier', 'prompt_cache_key'] as const
/** Fields that name the person, keep the answer somewhere, or do not change it. No other server gets them. */
const leftOutFields: ReadonlySet<string> = new Set([
  ...[...identifierFields, 'metadata', 'store', 'n', 'logprobs', 'top_logprobs'],
])

/** Whether the answer depends on a field, for requests that are asked again. */
export function isMeaningful(field: string): boolean {
  return meaningfulFields.has(field)
}

/** The longest text of messages and tools of a request that is kept to be sent once more. */
export const KEPT_PROMPT_BYTES_MAX = 16_384

/** What asks a request once more. */
export interface SharedBody {
  /** A body of /v1/chat/completions without `model`. */
  readonly fields: Readonly<Record<string, unknown>>
  /** The length of `fields` as JSON. */
  readonly jsonLength: number
}

/**
 * Returns what asks a request once more. Null for requests that are never asked
 * again: with `privacy_mode`, media or several choices, of another task, or with fields of unknown effect.
 *
 * @param promptBytesMax the largest text of messages and tools
 */
export function sharedBody(job: ChatJob, promptBytesMax: number): SharedBody | null {
  const { task, constraints, choices, mediaTokensBound, promptTextBytes, source } = job
  if (task !== 'chat' || constraints.privacyMode || choices !== 1) return null
  if (mediaTokensBound > 0 || promptTextBytes > promptBytesMax || source?.isNativeOnly === true) return null
  const body: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(job.forward)) {
    if (meaningfulFields.has(name)) body[name] = value
    else if (!leftOutFields.has(name)) return null
  }
  if (job.maxTokens !== null) body.max_tokens = job.maxTokens
  if (job.stream) body.stream = true
  const jsonLength = JSON.stringify(body).length
  return jsonLength > jsonLengthMax(promptBytesMax) ? null : { fields: body, jsonLength }
}

/** The length of a prompt is that of its text only, so fields such as schemas have a limit too. */
export function jsonLengthMax(promptBytesMax: number): number {
  return 4 * promptBytesMax
}

/** Returns the fields of a request that name the person or the conversation. */
export function identifiersOf({ forward }: Pick<ChatJob, 'forward'>): Readonly<Record<string, unknown>> {
  const found = identifierFields.filter(name => forward[name] !== undefined)
  return Object.fromEntries(found.map(name => [name, forward[name]]))
}
