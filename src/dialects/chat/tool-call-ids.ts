import { createHash } from 'node:crypto'
import type { ToolCallIds } from '../../domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../runtime/json-object.ts'

const forms: Readonly<Record<Exclude<ToolCallIds, 'any'>, { readonly fits: RegExp; readonly digits: number }>> = {
  short: { fits: /^[\w-]{1,40}$/, digits: 24 },
  nine: { fits: /^[a-zA-Z0-9]{9}$/, digits: 9 },
}

/**
 * Messages whose tool calls have ids that this upstream takes. A conversation brings the ids of the servers that answered before: vLLM's have 46
 * characters, of which OpenAI takes 40 (opencode issue 12653), Kimi's have a dot and a colon, which Anthropic refuses (LiteLLM pull request 34523), and
 * Mistral takes nine letters and digits alone (opencode issue 1680). An id becomes the same one wherever it stands, in each later turn too.
 */
export function withToolCallIds(messages: unknown, ids: ToolCallIds): unknown {
  if (ids === 'any' || !Array.isArray(messages)) return messages
  const { fits, digits } = forms[ids]
  const taken = (id: unknown) =>
    typeof id !== 'string' || fits.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, digits)
  return messages.map(message => {
    if (!isJsonObject(message)) return message
    const renamed: JsonObject = { ...message }
    if ('tool_call_id' in message) renamed.tool_call_id = taken(message.tool_call_id)
    if (Array.isArray(message.tool_calls)) {
      renamed.tool_calls = message.tool_calls.map(call => (isJsonObject(call) ? { ...call, id: taken(call.id) } : call))
    }
    return renamed
  })
}
