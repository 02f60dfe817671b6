import type {
  CacheHint,
  Conversation,
  Effort,
  Part,
  ReasoningSettings,
  TextPart,
  Tool,
  ToolChoice,
  Turn,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { SealReader } from '../seal.ts'
import { cacheHint, cacheOf, readBlocks, readTexts } from './read-blocks.ts'
import { editorToolSchema, messagesToolKind, shellToolSchema } from './server-tools.ts'
import { withoutBillingHeader } from './unpriced-fields.ts'

/** Translates a checked body of `POST /v1/messages`. */
export function messagesToConversation(body: JsonObject): Conversation {
  const seals = new SealReader()
  const turns = (body.messages as JsonObject[]).map(({ role, content }): Turn => {
    const parts = role === 'system' ? readTexts(content) : readBlocks(content, seals)
    return { role: role as Turn['role'], parts }
  })
  const firstTurn = turns.findIndex(({ role }) => role !== 'system')
  const leading = firstTurn === -1 ? turns : turns.slice(0, firstTurn)
  const metadata = isJsonObject(body.metadata) ? body.metadata : {}
  return {
    system: [...readTexts(withoutBillingHeader(body.system)), ...leading.flatMap(({ parts }) => parts as TextPart[])],
    turns: withCacheOnLastPart(firstTurn === -1 ? [] : turns.slice(firstTurn), cacheHint(body.cache_control)),
    tools: Array.isArray(body.tools) ? body.tools.flatMap(readTool) : [],
    ...readToolChoice(body.tool_choice),
    maxOutputTokens: numberOrNull(body.max_tokens),
    sampling: {
      temperature: numberOrNull(body.temperature),
      topP: numberOrNull(body.top_p),
      topK: numberOrNull(body.top_k),
      presencePenalty: null,
      frequencyPenalty: null,
      seed: null,
      stop: Array.isArray(body.stop_sequences) ? (body.stop_sequences as string[]) : [],
    },
    reasoning: readReasoning(body),
    outputFormat: readOutputFormat(body),
    verbosity: null,
    cacheKey: null,
    endUser: textOrNull(metadata.user_id),
  }
}

function readTool(tool: JsonObject): Tool[] {
  const kind = messagesToolKind(tool)
  // Offers without `native_tools` are never asked for a request with such tools.
  if (kind === 'search' || kind === 'native') return []
  const schemas = { function: tool.input_schema, shell: shellToolSchema, editor: editorToolSchema }
  const schema = schemas[kind]
  const descriptions = { function: null, shell: 'Runs a shell command.', editor: 'Views and edits text files.' }
  return [
    {
      kind: 'function',
      name: jsonText(tool.name),
      description: textOrNull(tool.description) ?? descriptions[kind],
      parameters: isJsonObject(schema) ? schema : null,
      strict: typeof tool.strict === 'boolean' ? tool.strict : null,
      ...cacheOf(tool),
    },
  ]
}

function readToolChoice(choice: unknown): Pick<Conversation, 'toolChoice' | 'parallelToolCalls'> {
  if (!isJsonObject(choice)) return { toolChoice: null, parallelToolCalls: null }
  const { disable_parallel_tool_use: isSerial } = choice
  return {
    toolChoice: toolChoices[choice.type as string] ?? { kind: 'only', name: choice.name as string },
    parallelToolCalls: typeof isSerial === 'boolean' ? !isSerial : null,
  }
}

const toolChoices: Readonly<Record<string, ToolChoice>> = {
  auto: { kind: 'auto' },
  none: { kind: 'none' },
  any: { kind: 'must' },
}

/** Budgets below these many tokens mean low and medium effort. */
const LOW_BUDGET = 4_096
const MEDIUM_BUDGET = 16_384

function readReasoning({ thinking, output_config }: JsonObject): ReasoningSettings {
  const { type, display, budget_tokens: budget } = isJsonObject(thinking) ? thinking : {}
  const named = isJsonObject(output_config) ? (textOrNull(output_config.effort) as Effort | null) : null
  const isShown = display === 'summarized' ? true : display === 'omitted' ? false : null
  if (type === 'disabled') return { effort: 'none', isShown }
  return { effort: named ?? (typeof budget === 'number' ? effortOfBudget(budget) : null), isShown }
}

function effortOfBudget(tokens: number): Effort {
  if (tokens < LOW_BUDGET) return 'low'
  return tokens < MEDIUM_BUDGET ? 'medium' : 'high'
}

/** The schema of an answer has no name in this dialect, but OpenAI's API requires one. */
const FORMAT_NAME = 'answer'

function readOutputFormat({ output_config, output_format }: JsonObject): Conversation['outputFormat'] {
  // Clients of the beta send `output_format`.
  const format = (isJsonObject(output_config) ? output_config.format : null) ?? output_format
  if (!isJsonObject(format) || !isJsonObject(format.schema)) return null
  return { kind: 'json_schema', name: FORMAT_NAME, schema: format.schema, description: null, strict: null }
}

/** A hint of the whole body applies to its last part that can have one. */
function withCacheOnLastPart(turns: Turn[], cache: CacheHint | null): Turn[] {
  const last = turns.at(-1)
  const part = last?.parts.at(-1)
  if (cache === null || !last || !part || part.kind === 'reasoning' || part.kind === 'opaque') return turns
  return turns.with(-1, { ...last, parts: last.parts.with(-1, { ...part, cache } as Part) })
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
