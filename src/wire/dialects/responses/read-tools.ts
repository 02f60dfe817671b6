import type { Tool, ToolChoice } from '../../../base/domain/conversation.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField } from '../json/body-refusal.ts'
import { checkValue, refuseLongList } from '../json/parse-json.ts'
import { clientTool, clientToolName } from './client-tools.ts'
import { bounds, toolSchemas } from './responses-request-schema.ts'

/** The name of the function that stands for the tool search which the client runs. */
export const TOOL_SEARCH = 'tool_search'

/** Collects the tools of a request from `tools` and from items of the input. Throws ApiError. */
export class ToolList {
  /** The types of tools that a server would run. */
  readonly hostedTypes = new Set<string>()
  hasToolSearch = false
  /** By namespace and name. A later definition replaces an earlier one: items repeat them in each request. */
  readonly #tools = new Map<string, Tool>()

  get tools(): Tool[] {
    return [...this.#tools.values()].map(tool =>
      tool.clientTool === undefined ? tool : { ...tool, name: this.clientToolName(tool.name) },
    )
  }

  /** Returns the name of the function for a tool that models know without a definition: a free one. */
  clientToolName(name: string): string {
    let free = name
    while (this.#tools.has(keyOf({ name: free }))) free += '_tool'
    return free
  }

  /** Adds a list of tools, the field `param` of the body. */
  add(tools: unknown, param: string): void {
    if (tools === undefined || tools === null) return
    if (!Array.isArray(tools)) throw invalidField(param, 'an array of tools', tools)
    refuseLongList(tools, bounds.tools, param)
    for (let i = 0; i < tools.length; i++) this.#addTool(tools[i], `${param}[${i}]`, undefined)
    if (this.#tools.size > bounds.tools) {
      throw new ApiError('invalid_value', {
        message: `The request defines more than ${bounds.tools} tools. Send fewer.`,
        param,
      })
    }
  }

  #addTool(tool: unknown, param: string, namespace: string | undefined): void {
    if (!isJsonObject(tool)) throw invalidField(param, 'an object', tool)
    const { type } = tool
    if (typeof type !== 'string')
      throw invalidField(`${param}.type`, 'one of function, custom, namespace, tool_search', type)
    switch (type) {
      case 'function':
        checkValue(toolSchemas.function, tool, param)
        this.#set({ ...functionTool(tool), ...(namespace !== undefined && { namespace }) })
        return
      case 'custom':
        checkValue(toolSchemas.custom, tool, param)
        this.#set({ ...customTool(tool), ...(namespace !== undefined && { namespace }) })
        return
      case 'namespace':
        this.#addNamespace(tool, param)
        return
      case 'tool_search':
        checkValue(toolSchemas.tool_search, tool, param)
        if (tool.execution !== 'client') break
        this.hasToolSearch = true
        this.#set({ ...functionTool(tool), name: TOOL_SEARCH })
        return
    }
    const own = namespace === undefined ? clientTool(tool) : null
    if (own !== null) this.#set(own)
    else this.hostedTypes.add(type.slice(0, 64))
  }

  #addNamespace(tool: JsonObject, param: string): void {
    checkValue(toolSchemas.namespace, tool, param)
    const { name, tools } = tool as { name: string; tools: JsonObject[] }
    refuseLongList(tools, bounds.tools, `${param}.tools`)
    tools.forEach((inner, i) => {
      if (inner.type === 'namespace') throw invalidField(`${param}.tools[${i}].type`, 'function or custom', inner.type)
      this.#addTool(inner, `${param}.tools[${i}]`, name)
    })
  }

  #set(tool: Tool): void {
    this.#tools.set(keyOf(tool), tool)
  }
}

function keyOf({ namespace, name, clientTool }: Pick<Tool, 'namespace' | 'name' | 'clientTool'>): string {
  return JSON.stringify([namespace, name, clientTool !== undefined])
}

/**
 * Reads `tool_choice` and returns it with the tools that the model may call: `allowed_tools` leaves only those that it
 * lists. Throws ApiError if the choice needs a tool that a server would run.
 */
export function readToolChoice(choice: unknown, list: ToolList): { choice: ToolChoice | null; tools: readonly Tool[] } {
  const { tools } = list
  if (choice === undefined || choice === null) return { choice: null, tools }
  if (choice === 'auto' || choice === 'none') return { choice: { kind: choice }, tools }
  if (choice === 'required') {
    const [hosted] = list.hostedTypes
    if (hosted !== undefined) throw hostedTool(hosted)
    return { choice: { kind: 'must' }, tools }
  }
  if (!isJsonObject(choice)) throw invalidField('tool_choice', 'none, auto, required or an object', choice)
  const { type } = choice
  if (typeof type !== 'string') throw invalidField('tool_choice.type', 'function, custom or allowed_tools', type)
  if (type === 'allowed_tools') return allowedTools(choice, list)
  const ownName = type === TOOL_SEARCH ? TOOL_SEARCH : clientNameOf(type, list)
  if (list.hostedTypes.has(type) || (type !== 'function' && type !== 'custom' && ownName === null)) {
    throw hostedTool(type.slice(0, 64))
  }
  const name = ownName ?? choice.name
  const tool = tools.find(each => each.name === name && (choice.namespace ?? each.namespace) === each.namespace)
  if (tool === undefined) throw invalidField('tool_choice.name', 'the name of a tool of this request', name)
  const { namespace } = tool
  return { choice: { kind: 'only', name: tool.name, ...(namespace !== undefined && { namespace }) }, tools }
}

function allowedTools(choice: JsonObject, list: ToolList): { choice: ToolChoice; tools: readonly Tool[] } {
  const { tools } = list
  if (!Array.isArray(choice.tools)) throw invalidField('tool_choice.tools', 'an array of tools', choice.tools)
  /** Names without a namespace allow the tools of all namespaces. */
  const names = new Set<unknown>()
  const namesInSpaces = new Set<string>()
  for (const { type, name, namespace } of choice.tools.filter(isJsonObject)) {
    const allowed = type === TOOL_SEARCH ? TOOL_SEARCH : (clientNameOf(type, list) ?? name)
    if (namespace === undefined) names.add(allowed)
    else namesInSpaces.add(JSON.stringify([namespace, allowed]))
  }
  const remaining = tools.filter(
    ({ namespace, name }) =>
      names.has(name) || (namespace !== undefined && namesInSpaces.has(JSON.stringify([namespace, name]))),
  )
  if (choice.mode !== 'required') return { choice: { kind: 'auto' }, tools: remaining }
  if (remaining.length === 0) throw invalidField('tool_choice.tools', 'tools of this request', choice.tools)
  return { choice: { kind: 'must' }, tools: remaining }
}

function clientNameOf(type: unknown, list: ToolList): string | null {
  const name = clientToolName(type)
  return name === null ? null : list.clientToolName(name)
}

function hostedTool(type: string): ApiError {
  return new ApiError('invalid_value', {
    message: `"tool_choice" asks for a tool of the type ${JSON.stringify(type)}, which a server would run. Send only tools that the client runs, or set "tool_choice" to "auto".`,
    param: 'tool_choice',
  })
}

function functionTool(tool: JsonObject): Tool {
  return {
    kind: 'function',
    name: tool.name as string,
    description: (tool.description as string | null | undefined) ?? null,
    parameters: (tool.parameters as JsonObject | null | undefined) ?? null,
    strict: (tool.strict as boolean | null | undefined) ?? null,
  }
}

function customTool({ name, description, format }: JsonObject): Tool {
  const { syntax, definition } = isJsonObject(format) && format.type === 'grammar' ? format : {}
  return {
    kind: 'custom',
    name: name as string,
    description: (description as string | null | undefined) ?? null,
    parameters: null,
    strict: null,
    ...(typeof syntax === 'string' && typeof definition === 'string' && { grammar: { syntax, definition } }),
  }
}
