import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { parseObject } from '../tool-arguments.ts'

export type OutputCallType = 'function_call' | 'custom_tool_call' | 'tool_search_call'

/** Starts the ids of calls. */
export const callPrefixes: Readonly<Record<OutputCallType, string>> = {
  function_call: 'fc',
  custom_tool_call: 'ctc',
  tool_search_call: 'tsc',
}

/** Starts the names of the events of calls. Searches have none. */
export const callEvents = {
  function_call: 'response.function_call_arguments',
  custom_tool_call: 'response.custom_tool_call_input',
} as const

/** Returns the field of a call with what the model wrote. */
export function callContent(type: OutputCallType, text: string): JsonObject {
  if (type === 'custom_tool_call') return { input: text }
  return { arguments: type === 'tool_search_call' ? (parseObject(text) ?? {}) : text }
}
