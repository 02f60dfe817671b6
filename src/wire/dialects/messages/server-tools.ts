import { ApiError } from '../../../base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Tools that Anthropic's servers run, and that cost extra for each use. The date in their type changes with each
 * version, such as `web_search_20250305`.
 */
const pricedServerTool = /^(web_search|web_fetch|code_execution|advisor)_\d{8}$|^mcp_toolset$/
/** A search among deferred tools, which costs only tokens. Other dialects get all tools at once instead. */
const toolSearch = /^tool_search_tool_(bm25|regex)/
/** Tools of Anthropic's models that the client runs. These two have a known, short JSON Schema. */
const shellTool = /^bash_\d{8}$/
const editorTool = /^text_editor_\d{8}$/

/** `search`: the tool is left out for other dialects. `native`: other dialects cannot express the tool. */
export type MessagesToolKind = 'function' | 'shell' | 'editor' | 'search' | 'native'

/** Classifies a tool by its `type`. Tools of the client have the type `custom` or none. */
export function messagesToolKind({ type }: JsonObject): MessagesToolKind {
  if (typeof type !== 'string' || type === 'custom') return 'function'
  if (shellTool.test(type)) return 'shell'
  if (editorTool.test(type)) return 'editor'
  return toolSearch.test(type) ? 'search' : 'native'
}

/**
 * Removes the tools that a server runs for an extra price. Returns the names of the fields that were removed. Throws
 * ApiError `invalid_value` if the tool choice demands such a tool.
 */
export function dropServerTools(body: JsonObject): string[] {
  if (!Array.isArray(body.tools)) return []
  const index = body.tools.findIndex(isPriced)
  if (index === -1) return []
  const { type, name } = isJsonObject(body.tool_choice) ? body.tool_choice : { type: 'auto', name: undefined }
  const isDemanded =
    type === 'any' || (type === 'tool' && body.tools.some(tool => isPriced(tool) && tool.name === name))
  if (isDemanded) {
    throw new ApiError('invalid_value', {
      message: `"tools[${index}].type" must be a tool that the client runs: tools that a server runs have no price here. Remove it, or set "tool_choice" to auto.`,
      param: `tools[${index}].type`,
    })
  }
  const dropped = new Set<string>()
  for (const tool of body.tools) if (isPriced(tool)) dropped.add(`tools.${tool.type}`)
  body.tools = body.tools.filter(tool => !isPriced(tool))
  if ((body.tools as unknown[]).length === 0) {
    delete body.tools
    delete body.tool_choice
  }
  return [...dropped]
}

function isPriced(tool: unknown): tool is JsonObject & { type: string } {
  return isJsonObject(tool) && typeof tool.type === 'string' && pricedServerTool.test(tool.type)
}

/** The JSON Schema of Anthropic's shell tool, for models that were not trained on it. */
export const shellToolSchema: JsonObject = {
  type: 'object',
  properties: {
    command: { type: 'string', description: 'The shell command to run.' },
    restart: { type: 'boolean', description: 'Restart the shell instead of running a command.' },
  },
}

/** The JSON Schema of Anthropic's editor tool, for models that were not trained on it. */
export const editorToolSchema: JsonObject = {
  type: 'object',
  properties: {
    command: { type: 'string', enum: ['view', 'create', 'str_replace', 'insert'] },
    path: { type: 'string', description: 'Absolute path of the file or folder.' },
    view_range: { type: 'array', items: { type: 'integer' }, description: 'First and last line to view.' },
    file_text: { type: 'string', description: 'The content of the file to create.' },
    old_str: { type: 'string', description: 'The text to replace. It occurs exactly once.' },
    new_str: { type: 'string', description: 'The text to put in its place.' },
    insert_line: { type: 'integer', description: 'The line after which to insert.' },
    insert_text: { type: 'string', description: 'The text to insert.' },
  },
  required: ['command', 'path'],
}
