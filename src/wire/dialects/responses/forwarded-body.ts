import { gatewayFields } from '../../../base/domain/chat-fields.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { readSeal } from '../seal.ts'
import { isClientTool } from './client-tools.ts'

/** How long OpenAI keeps a prompt unless it is asked for more. */
const DEFAULT_CACHE_TIME = '30m'
const definedTools: ReadonlySet<unknown> = new Set(['function', 'custom', 'namespace', 'tool_search'])

/**
 * The fields that an upstream of the same dialect gets. Left out because clouds charge extra for them: `service_tier`,
 * `prompt_cache_retention`, `prompt_cache_options`, `moderation`, `context_management`. Left out because they need
 * state or hosted tools: `background`, `conversation`, `max_tool_calls`, `previous_response_id`, `prompt`.
 */
const forwardedFields: ReadonlySet<string> = new Set([
  ...['input', 'instructions', 'tools', 'tool_choice', 'parallel_tool_calls', 'reasoning', 'text', 'temperature'],
  ...['top_p', 'truncation', 'prompt_cache_key', 'safety_identifier', 'user'],
])

/** Fields that the gateway answers itself or that have no effect without storage. */
export const withoutEffect: ReadonlySet<string> = new Set([
  ...['model', 'max_output_tokens', 'stream', 'stream_options', 'store', 'include', 'metadata', 'client_metadata'],
  ...['background', 'previous_response_id', 'conversation', 'prompt'],
])

/** `reasoning.mode` of OpenAI costs more than the billed tokens. */
const reasoningFields: ReadonlySet<string> = new Set(['effort', 'summary', 'generate_summary', 'context'])

/**
 * Returns the fields of a checked body that an upstream of the same dialect gets, untouched as far as their price
 * allows, the names of those that no upstream gets, and as `ownFields` the names of those that no upstream of another
 * dialect gets. The caller adds the model, the limit and `stream`.
 */
export function forwardedBody(input: JsonObject): {
  forward: JsonObject
  droppedFields: string[]
  ownFields: string[]
} {
  const forward: JsonObject = {}
  const droppedFields: string[] = []
  const ownFields = input.truncation === 'auto' ? ['truncation'] : []
  for (const name of Object.keys(input)) {
    if (input[name] === null || gatewayFields.has(name)) continue
    if (forwardedFields.has(name)) forward[name] = input[name]
    else if (!withoutEffect.has(name)) droppedFields.push(name)
  }
  if (Array.isArray(forward.input)) {
    const dropped = new Set<string>()
    forward.input = forward.input.flatMap(item => itemForUpstream(item, dropped))
    droppedFields.push(...dropped)
  }
  if (Array.isArray(forward.tools)) {
    const tools = withoutHosted(forward.tools)
    if (tools.length > 0) forward.tools = tools
    else {
      delete forward.tools
      if (forward.tool_choice === 'auto') delete forward.tool_choice
    }
  }
  if (isJsonObject(forward.reasoning)) {
    const given = Object.entries(forward.reasoning)
    const isForwarded = ([name]: readonly [string, unknown]) => reasoningFields.has(name)
    forward.reasoning = Object.fromEntries(given.filter(isForwarded))
    for (const field of given) if (!isForwarded(field) && field[1] !== null) droppedFields.push(`reasoning.${field[0]}`)
  }
  // OpenAI keeps no state for the gateway: a stored answer would bind the customer to one account.
  forward.store = false
  forward.include = ['reasoning.encrypted_content']
  return { forward, droppedFields: [...droppedFields, ...droppedIncludes(input.include)], ownFields }
}

/** The answer always has sealed reasoning. The rest belongs to hosted tools, or is `logprobs`, which no answer has. */
function droppedIncludes(wanted: unknown): string[] {
  if (!Array.isArray(wanted)) return []
  return wanted.filter(name => name !== 'reasoning.encrypted_content').map(name => `include.${String(name)}`)
}

function itemForUpstream(item: unknown, dropped: Set<string>): unknown[] {
  if (!isJsonObject(item)) return [item]
  // A reference to an item that is stored nowhere.
  if (item.type === 'item_reference' || (item.type === undefined && item.role === undefined)) return []
  if ((item.type === 'additional_tools' || item.type === 'tool_search_output') && Array.isArray(item.tools)) {
    return [{ ...item, tools: withoutHosted(item.tools) }]
  }
  return item.type === 'reasoning' ? reasoningItem(item) : [withoutCacheTime(item, dropped)]
}

/**
 * Returns a reasoning item that an upstream of this dialect may be able to read, or none. The upstream stores no
 * reasoning, so that an item without a seal is worth something only if it has the full text, as servers of open models
 * send it. Which account made the seal is checked for each attempt: see own-seals.ts.
 */
function reasoningItem(item: JsonObject): JsonObject[] {
  const { encrypted_content: sealed } = item
  if (typeof sealed !== 'string' || sealed === '') {
    return Array.isArray(item.content) && item.content.length > 0 ? [item] : []
  }
  return readSeal(sealed, 'openai')?.family === 'openai' ? [item] : []
}

/** The fields of items that hold parts: messages, and the outputs of tools. */
const partFields = ['content', 'output'] as const

/**
 * Removes the time to live of cache points: a longer one costs more. Adds its name to `dropped` if there was such a
 * one.
 */
function withoutCacheTime(item: JsonObject, dropped: Set<string>): JsonObject {
  const changed: JsonObject = {}
  for (const field of partFields) {
    const parts = item[field]
    if (!Array.isArray(parts) || !parts.some(hasBreakpoint)) continue
    changed[field] = parts.map(part => {
      if (!hasBreakpoint(part)) return part
      const { ttl } = part.prompt_cache_breakpoint
      if (typeof ttl === 'string' && ttl !== DEFAULT_CACHE_TIME) dropped.add('prompt_cache_breakpoint.ttl')
      return { ...part, prompt_cache_breakpoint: { mode: 'explicit' } }
    })
  }
  return { ...item, ...changed }
}

function hasBreakpoint(part: unknown): part is JsonObject & { readonly prompt_cache_breakpoint: JsonObject } {
  return isJsonObject(part) && isJsonObject(part.prompt_cache_breakpoint)
}

/** Leaves only the tools that the client runs, also in namespaces. */
function withoutHosted(tools: readonly unknown[]): unknown[] {
  return tools
    .filter(
      tool =>
        isJsonObject(tool) &&
        (isClientTool(tool) ||
          (definedTools.has(tool.type) && (tool.type !== 'tool_search' || tool.execution === 'client'))),
    )
    .map(tool => {
      if (!isJsonObject(tool) || tool.type !== 'namespace' || !Array.isArray(tool.tools)) return tool
      return { ...tool, tools: withoutHosted(tool.tools) }
    })
}
