import type { Conversation } from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { TOOL_SEARCH } from './read-tools.ts'

/** The settings of a request that its answer repeats, and how calls are named in it. */
export interface ResponseSettings {
  /** The fields of the response object, without those that change while it is generated. */
  readonly fields: JsonObject
  /** The function that is given back as `tool_search_call`; null if the request has no tool search. */
  readonly searchTool: string | null
}

/** Returns the settings that the answer to this checked body repeats, with OpenAI's defaults for those not sent. */
export function responseSettings(
  input: JsonObject,
  conversation: Conversation,
  hasToolSearch: boolean,
): ResponseSettings {
  const { reasoning, sampling } = conversation
  return {
    fields: {
      background: false,
      instructions: input.instructions ?? null,
      max_output_tokens: conversation.maxOutputTokens,
      max_tool_calls: null,
      metadata: input.metadata ?? {},
      parallel_tool_calls: conversation.parallelToolCalls ?? true,
      previous_response_id: null,
      prompt_cache_key: conversation.cacheKey,
      reasoning: { effort: reasoning.effort, summary: summaryOf(input) },
      safety_identifier: input.safety_identifier ?? null,
      service_tier: 'default',
      store: false,
      temperature: sampling.temperature ?? 1,
      text: echoedText(input),
      tool_choice: input.tool_choice ?? 'auto',
      tools: ((input.tools ?? []) as JsonObject[]).map(echoedTool),
      top_logprobs: 0,
      top_p: sampling.topP ?? 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      truncation: 'disabled',
      user: input.user ?? null,
    },
    searchTool: hasToolSearch ? TOOL_SEARCH : null,
  }
}

/** Clients of Open Responses refuse a function without these three keys, also where the request left them out. */
function echoedTool(tool: JsonObject): JsonObject {
  if (tool.type === 'namespace') return { ...tool, tools: (tool.tools as JsonObject[]).map(echoedTool) }
  if (tool.type !== 'function') return tool
  return {
    ...tool,
    description: tool.description ?? null,
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? null,
  }
}

/** A format of null means the same as none. */
function echoedText(input: JsonObject): JsonObject {
  const text = (input.text ?? {}) as JsonObject
  const format = (text.format ?? { type: 'text' }) as JsonObject
  if (format.type !== 'json_schema') return { ...text, format }
  return { ...text, format: { ...format, description: format.description ?? null, strict: format.strict ?? false } }
}

function summaryOf({ reasoning }: JsonObject): unknown {
  return (reasoning as JsonObject | null | undefined)?.summary ?? null
}
