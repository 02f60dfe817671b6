import type { ParsedRequest } from '../../../base/domain/chat-job.ts'
import type { Conversation, OutputFormat } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import {
  checkValue,
  mayHaveLoneSurrogates,
  parseJsonObject,
  refuseManyKeys,
  replaceLoneSurrogates,
} from '../json/parse-json.ts'
import { jobFacts } from '../translation/job-facts.ts'
import { returnsPictures } from './client-tools.ts'
import type { CompactionSeal } from './compaction-seal.ts'
import { forwardedBody } from './forwarded-body.ts'
import { readInput } from './read-input.ts'
import { readToolChoice, ToolList } from './read-tools.ts'
import { type ResponseSettings, responseSettings } from './response-settings.ts'
import { type ResponsesFields, responsesFieldsSchema } from './responses-request-schema.ts'
import { unreadBytes } from './unread-bytes.ts'

/** A parsed body of `POST /v1/responses`. */
export interface ResponsesRequest extends ParsedRequest {
  readonly dialect: 'responses'
  /** The settings that the answer repeats. */
  readonly settings: ResponseSettings
}

/**
 * Parses the body of `POST /v1/responses`. Checks the documented fields, ignores the others. Throws ApiError
 * `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault where there is one.
 *
 * @param seal opens the compaction items of this gateway; without it they stay closed
 */
export function parseResponsesRequest(body: Buffer, seal?: CompactionSeal): ResponsesRequest {
  const input = parseResponsesBody(body)
  return readResponsesRequest(seal === undefined ? input : withOpenCompactions(input, seal))
}

/** Parses the JSON of a body. Throws ApiError `invalid_json`. */
export function parseResponsesBody(body: Buffer): JsonObject {
  const input = parseJsonObject(body)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(input)
  return input
}

/**
 * Returns the body with the summaries of the conversations that this gateway compacted. Throws ApiError
 * `invalid_value`.
 */
export function withOpenCompactions(input: JsonObject, seal: CompactionSeal): JsonObject {
  if (!Array.isArray(input.input)) return input
  const opened = seal.openItems(input.input)
  return opened === input.input ? input : { ...input, input: opened }
}

/** Checks a parsed body, as `parseResponsesRequest` does. */
export function readResponsesRequest(input: JsonObject): ResponsesRequest {
  const fields = checkFields(input)
  const tools = new ToolList()
  tools.add(input.tools, 'tools')
  const read = readInput(input.input, tools)
  const conversation = readConversation(input, fields, tools, read)
  const { forward, droppedFields, ownFields } = forwardedBody(input)
  const pictureTool = conversation.tools.find(returnsPictures)?.clientTool
  const facts = jobFacts(conversation, fields, {
    model: fields.model,
    stream: fields.stream ?? false,
    messageCount: read.itemCount,
    droppedFields: [...droppedFields, ...[...tools.hostedTypes].map(type => `tools.${type}`)],
  })
  return {
    dialect: 'responses',
    facts: { ...facts, inputTokensBound: facts.inputTokensBound + unreadBytes(forward, conversation.tools) },
    body: forward,
    ownFields,
    ...(pictureTool !== undefined && { pictureTool }),
    ...(conversation.tools.some(({ clientTool }) => clientTool !== undefined) && { hasKnownTools: true as const }),
    conversation: () => conversation,
    settings: responseSettings(input, conversation, tools.hasToolSearch),
  }
}

function checkFields(input: JsonObject): ResponsesFields {
  refuseManyKeys(input, '')
  const { shape } = responsesFieldsSchema
  if (input.model === undefined) checkValue(shape.model, undefined, 'model')
  for (const field in input) {
    if (Object.hasOwn(shape, field)) checkValue(shape[field as keyof typeof shape], input[field], field)
  }
  return input as ResponsesFields
}

function readConversation(
  input: JsonObject,
  fields: ResponsesFields,
  list: ToolList,
  { system, turns }: ReturnType<typeof readInput>,
): Conversation {
  const { choice, tools } = readToolChoice(input.tool_choice, list)
  const { instructions, reasoning, text } = fields
  return {
    system: instructions ? [{ kind: 'text', text: instructions }, ...system] : system,
    turns,
    tools,
    toolChoice: choice,
    parallelToolCalls: fields.parallel_tool_calls ?? null,
    maxOutputTokens: fields.max_output_tokens ?? null,
    sampling: {
      temperature: fields.temperature ?? null,
      topP: fields.top_p ?? null,
      topK: null,
      presencePenalty: null,
      frequencyPenalty: null,
      seed: null,
      stop: [],
    },
    reasoning: { effort: reasoning?.effort ?? null, isShown: reasoning?.summary ? true : null },
    outputFormat: outputFormat(text?.format),
    verbosity: text?.verbosity ?? null,
    cacheKey: fields.prompt_cache_key ?? null,
    endUser: fields.safety_identifier ?? fields.user ?? null,
  }
}

function outputFormat(format: unknown): OutputFormat | null {
  if (!isJsonObject(format) || format.type === 'text') return null
  if (format.type === 'json_object') return { kind: 'json' }
  return {
    kind: 'json_schema',
    name: format.name as string,
    schema: format.schema as JsonObject,
    description: (format.description as string | null | undefined) ?? null,
    strict: (format.strict as boolean | null | undefined) ?? null,
  }
}
