import type { Tool, ToolChoice } from '../../../base/domain/conversation.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField } from '../json/body-refusal.ts'
import { refuseLongList } from '../json/parse-json.ts'
import { camelKeys } from './camel-keys.ts'
import { computerUseTools } from './computer-use.ts'
import { bounds } from './read-contents.ts'
import { schemaAsJsonSchema } from './schema-as-json-schema.ts'

/** The functions of a request, and the tools that a server would run. */
export interface ReadTools {
  readonly tools: readonly Tool[]
  readonly choice: ToolChoice | null
  readonly hostedTypes: readonly string[]
  /** `computerUse`, whose functions the client runs; null if the request has none. */
  readonly computerUse: JsonObject | null
  /** True if no other model can get its functions. */
  readonly isNativeOnly: boolean
}

/**
 * Reads `tools` and `toolConfig`. Tools that a server would run, such as `googleSearch`, are left out unless the model
 * must call a tool. Throws ApiError.
 */
export function readFunctions(tools: unknown, toolConfig: unknown): ReadTools {
  const functions: Tool[] = []
  const hosted = new Set<string>()
  let computerUse: JsonObject | null = null
  let isNativeOnly = false
  const list: unknown[] = Array.isArray(tools) ? tools : tools === undefined || tools === null ? [] : [tools]
  refuseLongList(list, bounds.functions, 'tools')
  list.forEach((each, i) => {
    if (!isJsonObject(each)) throw invalidField(`tools[${i}]`, 'an object', each)
    const { functionDeclarations, computerUse: computer, ...others } = camelKeys(each)
    if (isJsonObject(computer)) {
      computerUse = computer
      const predefined = computerUseTools(computer)
      if (predefined === null) isNativeOnly = true
      else functions.push(...predefined)
    }
    if (functionDeclarations !== undefined) functions.push(...declarations(functionDeclarations, `tools[${i}]`))
    for (const name of Object.keys(others)) hosted.add(name.slice(0, 64))
  })
  refuseLongList(functions, bounds.functions, 'tools')
  return { ...readConfig(toolConfig, functions, hosted), hostedTypes: [...hosted], computerUse, isNativeOnly }
}

function declarations(value: unknown, param: string): Tool[] {
  const at = `${param}.functionDeclarations`
  if (!Array.isArray(value)) throw invalidField(at, 'an array of functions', value)
  refuseLongList(value, bounds.functions, at)
  return value.map((each, i) => {
    if (!isJsonObject(each)) throw invalidField(`${at}[${i}]`, 'an object', each)
    const { name, description, parameters, parametersJsonSchema } = camelKeys(each)
    if (typeof name !== 'string' || name === '') throw invalidField(`${at}[${i}].name`, 'a name', name)
    const schema = isJsonObject(parametersJsonSchema)
      ? parametersJsonSchema
      : isJsonObject(parameters)
        ? schemaAsJsonSchema(parameters)
        : null
    return {
      kind: 'function',
      name,
      description: typeof description === 'string' ? description : null,
      parameters: schema,
      strict: null,
    }
  })
}

function readConfig(
  toolConfig: unknown,
  tools: readonly Tool[],
  hosted: ReadonlySet<string>,
): { tools: readonly Tool[]; choice: ToolChoice | null } {
  const config = isJsonObject(toolConfig) ? camelKeys(toolConfig).functionCallingConfig : undefined
  if (!isJsonObject(config)) return { tools, choice: null }
  const { mode, allowedFunctionNames } = camelKeys(config)
  const at = 'toolConfig.functionCallingConfig'
  const allowed = Array.isArray(allowedFunctionNames) && allowedFunctionNames.length > 0 ? allowedFunctionNames : null
  // Each name is looked for in the list.
  refuseLongList(allowed, bounds.functions, `${at}.allowedFunctionNames`)
  const remaining = allowed === null ? tools : tools.filter(({ name }) => allowed.includes(name))
  switch (mode) {
    case undefined:
    case 'MODE_UNSPECIFIED':
      return { tools, choice: null }
    case 'NONE':
      return { tools, choice: tools.length === 0 ? null : { kind: 'none' } }
    case 'AUTO':
    case 'VALIDATED':
      return { tools: remaining, choice: remaining.length === 0 ? null : { kind: 'auto' } }
    case 'ANY': {
      const [firstHosted] = hosted
      if (allowed === null && firstHosted !== undefined) throw hostedTool(firstHosted)
      if (remaining.length === 0)
        throw invalidField(`${at}.allowedFunctionNames`, 'names of functions of this request', allowedFunctionNames)
      if (allowed?.length === 1) return { tools, choice: { kind: 'only', name: elementAt(remaining, 0).name } }
      return { tools: remaining, choice: { kind: 'must' } }
    }
    default:
      throw invalidField(`${at}.mode`, 'one of AUTO, ANY, NONE, VALIDATED', mode)
  }
}

function hostedTool(type: string): ApiError {
  return new ApiError('invalid_value', {
    message: `"toolConfig" demands a tool call, and ${JSON.stringify(type)} is a tool that a server would run. Send only functions, or set the mode to AUTO.`,
    param: 'toolConfig.functionCallingConfig.mode',
  })
}
