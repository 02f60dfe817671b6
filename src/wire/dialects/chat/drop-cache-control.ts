import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Removes `cache_control` from messages, their parts and tools, in place. Returns whether there was any. Clouds charge
 * up to twice the input price for what they cache (Anthropic, also through OpenRouter), and most servers of chat refuse
 * the field.
 * Parameters of a tool keep their names.
 */
export function dropCacheControl(messages: readonly JsonObject[], tools: unknown): boolean {
  let isDropped = false
  const drop = (value: unknown) => {
    if (!isJsonObject(value) || value.cache_control === undefined) return
    delete value.cache_control
    isDropped = true
  }
  for (const message of messages) {
    drop(message)
    if (Array.isArray(message.content)) message.content.forEach(drop)
  }
  if (Array.isArray(tools)) {
    for (const tool of tools) {
      drop(tool)
      if (isJsonObject(tool)) drop(tool.function)
    }
  }
  return isDropped
}
