import { createHash } from 'node:crypto'
import type { ToolCallIds } from '../../../base/domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

const formats: Readonly<
  Record<Exclude<ToolCallIds, 'any'>, { readonly pattern: RegExp; readonly hashDigits: number }>
> = {
  short: { pattern: /^[\w-]{1,40}$/, hashDigits: 24 },
  nine: { pattern: /^[a-zA-Z0-9]{9}$/, hashDigits: 9 },
}

/**
 * Returns the messages with tool call ids that this upstream accepts. A conversation contains ids from the
 * servers that answered earlier turns: vLLM's have 46 characters but OpenAI accepts 40 (opencode issue
 * 12653), Kimi's contain a dot and a colon, which Anthropic rejects (LiteLLM pull request 34523), and Mistral
 * accepts only nine letters and digits (opencode issue 1680). The same id always maps to the same
 * replacement, in later turns too.
 */
export function withToolCallIds(messages: unknown, ids: ToolCallIds): unknown {
  if (ids === 'any' || !Array.isArray(messages)) return messages
  const { pattern, hashDigits } = formats[ids]
  const accepted = (id: unknown) =>
    typeof id !== 'string' || pattern.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, hashDigits)
  return messages.map(message => {
    if (!isJsonObject(message)) return message
    const renamed: JsonObject = { ...message }
    if ('tool_call_id' in message) renamed.tool_call_id = accepted(message.tool_call_id)
    if (Array.isArray(message.tool_calls)) {
      renamed.tool_calls = message.tool_calls.map(call =>
        isJsonObject(call) ? { ...call, id: accepted(call.id) } : call,
      )
    }
    return renamed
  })
}
