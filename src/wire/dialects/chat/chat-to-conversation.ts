import type {
  Conversation,
  Effort,
  OutputFormat,
  Tool,
  ToolChoice,
  ToolKind,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { readTurns, textsOf } from './read-turns.ts'

/**
 * Translates a checked body of `POST /v1/chat/completions`, with or without the fields that the gateway sets.
 *
 * @param maxOutputTokens the limit that the client sent, or null
 */
export function chatToConversation(body: JsonObject, maxOutputTokens: number | null = null): Conversation {
  const messages = body.messages as JsonObject[]
  const firstTurn = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const leading = firstTurn === -1 ? messages : messages.slice(0, firstTurn)
  const { verbosity } = body
  return {
    system: leading.flatMap(({ content }) => textsOf(content)),
    turns: readTurns(firstTurn === -1 ? [] : messages.slice(firstTurn)),
    tools: [...listOf(body.tools).flatMap(readTool), ...listOf(body.functions).flatMap(readFunction)],
    toolChoice: readToolChoice(body.tool_choice) ?? readFunctionChoice(body.function_call),
    parallelToolCalls: typeof body.parallel_tool_calls === 'boolean' ? body.parallel_tool_calls : null,
    maxOutputTokens,
    sampling: {
      temperature: numberOrNull(body.temperature),
      topP: numberOrNull(body.top_p),
      topK: numberOrNull(body.top_k),
      presencePenalty: numberOrNull(body.presence_penalty),
      frequencyPenalty: numberOrNull(body.frequency_penalty),
      seed: numberOrNull(body.seed),
      stop: (typeof body.stop === 'string' ? [body.stop] : Array.isArray(body.stop) ? body.stop : []).filter(isText),
    },
    reasoning: { effort: readEffort(body.reasoning_effort), isShown: null },
    outputFormat: readOutputFormat(body.response_format),
    verbosity: verbosity === 'low' || verbosity === 'medium' || verbosity === 'high' ? verbosity : null,
    cacheKey: textOrNull(body.prompt_cache_key),
    endUser: textOrNull(body.safety_identifier) ?? textOrNull(body.user),
  }
}

function readTool(tool: JsonObject): Tool[] {
  if (isJsonObject(tool.function)) return readFunction(tool.function)
  if (!isJsonObject(tool.custom)) return []
  const { name, description, format } = tool.custom
  return [
    {
      kind: 'custom',
      name: jsonText(name),
      description: textOrNull(description),
      parameters: null,
      strict: null,
      ...readGrammar(format),
    },
  ]
}

function readGrammar(format: unknown): Pick<Tool, 'grammar'> {
  const { syntax, definition } = isJsonObject(format) && isJsonObject(format.grammar) ? format.grammar : {}
  return isText(syntax) && isText(definition) ? { grammar: { syntax, definition } } : {}
}

function readFunction({ name, description, parameters, strict }: JsonObject): Tool[] {
  return [
    {
      kind: 'function',
      name: jsonText(name),
      description: textOrNull(description),
      parameters: isJsonObject(parameters) ? parameters : null,
      strict: typeof strict === 'boolean' ? strict : null,
    },
  ]
}

function readToolChoice(choice: unknown): ToolChoice | null {
  if (choice === 'auto' || choice === 'none') return { kind: choice }
  if (choice === 'required') return { kind: 'must' }
  if (!isJsonObject(choice)) return null
  // The set of allowed tools is a hint that other dialects do not have.
  if (isJsonObject(choice.allowed_tools)) return { kind: choice.allowed_tools.mode === 'required' ? 'must' : 'auto' }
  const named = choice[choice.type as ToolKind]
  return isJsonObject(named) ? { kind: 'only', name: jsonText(named.name) } : null
}

function readFunctionChoice(choice: unknown): ToolChoice | null {
  if (choice === 'auto' || choice === 'none') return { kind: choice }
  return isJsonObject(choice) ? { kind: 'only', name: jsonText(choice.name) } : null
}

const efforts: ReadonlySet<unknown> = new Set([
  'none',
  'minimal',
  'low',
  'medium',
  'high',
  'xhigh',
  'max',
] satisfies Effort[])

function readEffort(value: unknown): Effort | null {
  return efforts.has(value) ? (value as Effort) : null
}

function readOutputFormat(format: unknown): OutputFormat | null {
  if (!isJsonObject(format)) return null
  if (format.type === 'json_object') return { kind: 'json' }
  const described = format.json_schema
  if (format.type !== 'json_schema' || !isJsonObject(described) || !isJsonObject(described.schema)) return null
  const { name, schema, description, strict } = described
  return {
    kind: 'json_schema',
    name: textOrNull(name) ?? 'answer',
    schema,
    description: textOrNull(description),
    strict: typeof strict === 'boolean' ? strict : null,
  }
}

function listOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
