import type { ChunkDelta } from '../../../base/domain/completion.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../../base/runtime/json-object.ts'
import { messageText, thinkingText } from './message-text.ts'
import type { ToolCalls } from './tool-calls.ts'

/**
 * Reads the delta of one upstream choice. Leaves out the role, nulls and empty texts; keeps unknown fields
 * such as `reasoning`. Returns null if nothing is left.
 */
export function readDelta(choice: JsonObject, toolCalls: ToolCalls): ChunkDelta | null {
  const raw = choice.delta ?? choice.message ?? (typeof choice.text === 'string' ? { content: choice.text } : null)
  if (!isJsonObject(raw)) return null
  const thought = thinkingText(raw.content)
  let delta: ChunkDelta | null = thought ? { reasoning_content: thought } : null
  for (const key in raw) {
    let value = raw[key]
    if (key === 'content') value = typeof value === 'string' ? value : messageText(value)
    else if (key === 'tool_calls') {
      const calls = toolCalls.read(value)
      value = calls.length > 0 ? calls : null
    } else if (key === 'role' || key === 'obfuscation' || isPrototypeKey(key)) continue
    if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) continue
    delta ??= {}
    delta[key] = value
  }
  return delta
}
