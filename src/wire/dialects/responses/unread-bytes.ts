import type { Tool } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Returns how many bytes a server of responses gets besides those of the conversation: fields that the gateway does not
 * know, the descriptions of namespaces, and tools that later ones with the same name replace or that may not be called.
 * Such a server may count them as input, so the hold must cover them.
 */
export function unreadBytes(forward: JsonObject, tools: readonly Tool[]): number {
  const sent: JsonObject[] = [...objectsOf(forward.tools)]
  let bytes = 0
  for (const item of objectsOf(forward.input)) {
    const known = itemFields.get(item.type ?? 'message')
    if (known === undefined) continue
    bytes += otherFieldBytes(item, known)
    sent.push(...objectsOf(item.tools))
    for (const list of partLists) for (const part of objectsOf(item[list])) bytes += partBytes(part)
  }
  for (const tool of sent) bytes += toolBytes(tool)
  const inner = sent.flatMap(tool => (tool.type === 'namespace' ? objectsOf(tool.tools) : [tool]))
  // Only tools that are not in the conversation make the lists differ, so most requests are not serialised here.
  return inner.length === tools.length ? bytes : bytes + Math.max(0, jsonBytes(inner) - jsonBytes(tools))
}

function partBytes(part: JsonObject): number {
  return otherFieldBytes(part, partFields.get(part.type) ?? anyPartFields)
}

function toolBytes(tool: JsonObject): number {
  const { type, format, tools } = tool
  let bytes = otherFieldBytes(tool, toolFields.get(type) ?? [])
  if (type === 'custom' && isJsonObject(format)) {
    bytes += otherFieldBytes(format, format.type === 'grammar' ? grammarFields : [])
  }
  if (type === 'namespace') for (const inner of objectsOf(tools)) bytes += toolBytes(inner)
  return bytes
}

function otherFieldBytes(object: JsonObject, known: readonly string[]): number {
  let bytes = 0
  for (const name in object) {
    const value = object[name]
    if (value === null || value === undefined || known.includes(name) || commonFields.includes(name)) continue
    bytes += Buffer.byteLength(name) + jsonBytes(value)
  }
  return bytes
}

function objectsOf(list: unknown): JsonObject[] {
  return Array.isArray(list) ? list.filter(isJsonObject) : []
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}

/**
 * Fields that the conversation has, or that are no part of a prompt, by the type of the item. Other types are read
 * whole.
 */
const itemFields: ReadonlyMap<unknown, readonly string[]> = new Map(
  Object.entries({
    message: ['role', 'content', 'phase'],
    function_call: ['call_id', 'name', 'namespace', 'arguments'],
    function_call_output: ['call_id', 'output'],
    custom_tool_call: ['call_id', 'name', 'namespace', 'input'],
    custom_tool_call_output: ['call_id', 'output'],
    tool_search_call: ['call_id', 'arguments', 'execution'],
    tool_search_output: ['call_id', 'tools', 'execution'],
    local_shell_call: ['call_id', 'action'],
    shell_call: ['call_id', 'action'],
    apply_patch_call: ['call_id', 'operation'],
    computer_call: ['call_id', 'action', 'actions'],
    local_shell_call_output: ['output'],
    shell_call_output: ['call_id', 'output'],
    apply_patch_call_output: ['call_id', 'output'],
    computer_call_output: ['call_id', 'output'],
    additional_tools: ['role', 'tools'],
    reasoning: ['summary', 'content', 'encrypted_content'],
  }),
)
const partFields: ReadonlyMap<unknown, readonly string[]> = new Map(
  Object.entries({
    input_text: ['text'],
    output_text: ['text'],
    summary_text: ['text'],
    reasoning_text: ['text'],
    refusal: ['refusal'],
    input_image: ['image_url', 'detail', 'file_id'],
    input_audio: ['input_audio'],
    input_file: ['file_data', 'file_url', 'filename', 'file_id'],
  }),
)
/** Parts of reasoning may have any type. */
const anyPartFields: readonly string[] = ['text']
const toolFields: ReadonlyMap<unknown, readonly string[]> = new Map(
  Object.entries({
    function: ['name', 'description', 'parameters', 'strict'],
    custom: ['name', 'description', 'format'],
    namespace: ['name', 'tools'],
    tool_search: ['description', 'parameters', 'execution'],
  }),
)
const grammarFields: readonly string[] = ['syntax', 'definition']
const commonFields: readonly string[] = ['type', 'id', 'status', 'prompt_cache_breakpoint']
/** The fields of items that hold parts. */
const partLists: readonly string[] = ['content', 'output', 'summary']
