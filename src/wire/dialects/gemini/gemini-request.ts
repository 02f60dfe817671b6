import { gatewayFields } from '../../../base/domain/chat-fields.ts'
import type { ParsedRequest } from '../../../base/domain/chat-job.ts'
import type { Conversation, Effort, OutputFormat, ReasoningSettings } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import {
  checkValue,
  mayHaveLoneSurrogates,
  parseJsonObject,
  refuseManyKeys,
  replaceLoneSurrogates,
} from '../json/parse-json.ts'
import { jobFacts } from '../translation/job-facts.ts'
import { camelKeys } from './camel-keys.ts'
import {
  type GeminiFields,
  type GenerationConfig,
  geminiFieldsSchema,
  generationConfigSchema,
} from './gemini-request-schema.ts'
import { readContents, readSystem } from './read-contents.ts'
import { readFunctions } from './read-functions.ts'
import { schemaAsJsonSchema } from './schema-as-json-schema.ts'

/** A parsed body of `generateContent` or `streamGenerateContent`. */
export interface GeminiRequest extends ParsedRequest {
  readonly dialect: 'gemini'
  /** Only what the conversation cannot express, and a server of the same dialect gets. */
  readonly body: {
    readonly thinkingConfig?: JsonObject
    readonly enumSchema?: JsonObject
    readonly computerUse?: JsonObject
  }
}

/** What the address of a request says. */
interface RequestTarget {
  readonly model: string
  readonly stream: boolean
}

const readFields: ReadonlySet<string> = new Set([
  ...['contents', 'systemInstruction', 'tools', 'toolConfig', 'generationConfig', 'cachedContent'],
  ...gatewayFields,
])

/** Settings that the conversation holds; the others are dropped. */
const readSettings: ReadonlySet<string> = new Set(Object.keys(generationConfigSchema.shape))

/**
 * Parses a body of `POST /v1beta/models/{model}:generateContent`. The model and whether to stream stand in the path.
 * Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault where there is one.
 */
export function parseGeminiRequest(body: Buffer, target: RequestTarget): GeminiRequest {
  return readRequest(parseBody(body), target)
}

/** Parses a body of `countTokens`, which is a request or contains one. Throws like `parseGeminiRequest`. */
export function parseGeminiCount(body: Buffer, model: string): GeminiRequest {
  const parsed = parseBody(body)
  const { generateContentRequest: request } = camelKeys(parsed)
  return readRequest(isJsonObject(request) ? request : parsed, { model, stream: false })
}

function parseBody(body: Buffer): JsonObject {
  const parsed = parseJsonObject(body)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(parsed)
  return parsed
}

function readRequest(parsed: JsonObject, { model, stream }: RequestTarget): GeminiRequest {
  refuseManyKeys(parsed, '')
  const input = withGatewayFields(parsed)
  const { shape } = geminiFieldsSchema
  for (const field in input) {
    if (Object.hasOwn(shape, field)) checkValue(shape[field as keyof typeof shape], input[field], field)
  }
  const config = generationConfig(input.generationConfig)
  const { tools, choice, hostedTypes, computerUse, isNativeOnly } = readFunctions(input.tools, input.toolConfig)
  const turns = readContents(input.contents)
  const conversation: Conversation = {
    system: readSystem(input.systemInstruction),
    turns,
    tools,
    toolChoice: choice,
    parallelToolCalls: null,
    maxOutputTokens: config.maxOutputTokens ?? null,
    sampling: {
      temperature: config.temperature ?? null,
      topP: config.topP ?? null,
      topK: config.topK ?? null,
      presencePenalty: config.presencePenalty ?? null,
      frequencyPenalty: config.frequencyPenalty ?? null,
      seed: config.seed ?? null,
      stop: config.stopSequences ?? [],
    },
    reasoning: reasoningSettings(config.thinkingConfig),
    outputFormat: outputFormat(config),
    verbosity: null,
    cacheKey: null,
    endUser: null,
  }
  const dropped = [
    ...Object.keys(input).filter(name => input[name] !== null && !readFields.has(name)),
    ...Object.keys(config)
      .filter(name => !readSettings.has(name))
      .map(name => `generationConfig.${name}`),
    ...hostedTypes.map(type => `tools.${type}`),
  ]
  const facts = jobFacts(conversation, input as GeminiFields, {
    model,
    stream,
    messageCount: turns.length,
    droppedFields: dropped,
  })
  const enumSchema = isEnum(config) ? (config.responseSchema ?? config.responseJsonSchema) : null
  return {
    dialect: 'gemini',
    facts: {
      ...facts,
      features: new Set([
        ...facts.features,
        ...(enumSchema ? (['text_enum'] as const) : []),
        ...(isNativeOnly ? (['native_tools'] as const) : []),
      ]),
    },
    ...(isNativeOnly && { nativePart: 'computerUse' }),
    ...(computerUse !== null && { pictureTool: 'computerUse', hasKnownTools: true as const }),
    body: {
      ...(config.thinkingConfig && { thinkingConfig: camelKeys(config.thinkingConfig) }),
      ...(enumSchema && { enumSchema }),
      ...(computerUse !== null && { computerUse }),
    },
    conversation: () => conversation,
  }
}

/** Changes the names of Google's fields to camel case. The gateway's own fields keep their underscores. */
export function withGatewayFields(body: JsonObject): JsonObject {
  const own = Object.entries(body).filter(([name]) => gatewayFields.has(name))
  const others = Object.entries(body).filter(([name]) => !gatewayFields.has(name))
  return { ...camelKeys(Object.fromEntries(others)), ...Object.fromEntries(own) }
}

function generationConfig(value: unknown): GenerationConfig {
  if (value === undefined || value === null) return {}
  const config = isJsonObject(value) ? camelKeys(value) : value
  checkValue(generationConfigSchema, config, 'generationConfig')
  return config as GenerationConfig
}

/** The answer is one of a list of texts, without quotes: only Google's models can be asked so. */
function isEnum({ responseMimeType }: GenerationConfig): boolean {
  return responseMimeType === 'text/x.enum'
}

function outputFormat(config: GenerationConfig): OutputFormat | null {
  if (isEnum(config)) return null
  const { responseMimeType, responseSchema, responseJsonSchema } = config
  const schema = responseJsonSchema ?? (responseSchema ? schemaAsJsonSchema(responseSchema) : null)
  if (schema !== null) return { kind: 'json_schema', name: 'answer', schema, description: null, strict: null }
  return responseMimeType === 'application/json' ? { kind: 'json' } : null
}

const efforts = new Map<unknown, Effort>([
  ['MINIMAL', 'minimal'],
  ['LOW', 'low'],
  ['MEDIUM', 'medium'],
  ['HIGH', 'high'],
])

function reasoningSettings(value: JsonObject | null | undefined): ReasoningSettings {
  const { thinkingLevel, thinkingBudget: budget, includeThoughts } = value ? camelKeys(value) : {}
  const level = typeof thinkingLevel === 'string' ? efforts.get(thinkingLevel.toUpperCase()) : undefined
  return {
    effort: level ?? (typeof budget === 'number' ? effortOf(budget) : null),
    isShown: typeof includeThoughts === 'boolean' ? includeThoughts : null,
  }
}

/** A negative budget lets the model decide. */
function effortOf(budget: number): Effort | null {
  if (budget < 0) return null
  if (budget === 0) return 'none'
  return budget < 4_096 ? 'low' : budget < 16_384 ? 'medium' : 'high'
}
