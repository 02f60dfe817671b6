import { type ChatJob, type Feature, routingOf } from '../../../base/domain/chat-job.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { mayHaveLoneSurrogates, replaceLoneSurrogates } from '../json/lone-surrogates.ts'
import { parseJsonObject } from '../json/parse-json.ts'
import type { ChatMessage } from './chat-request-schema.ts'
import { type ChatFields, checkChatFields, checkMessages } from './check-chat-request.ts'
import { type ExtraFieldRules, extraFieldRules, forwardedFields } from './forwarded-fields.ts'
import { measurePrompt, promptText } from './prompt-size.ts'

const usualRules = extraFieldRules()

/**
 * Parses the body of `POST /v1/chat/completions`. Checks the documented fields strictly, keeps the other fields
 * that servers may get, and removes the rest. Throws ApiError `invalid_json`, `missing_parameter` or
 * `invalid_value`, with the `param` at fault where there is one.
 */
export function parseChatRequest(body: Buffer, rules: ExtraFieldRules = usualRules): ChatJob {
  const input = parseJsonObject(body)
  const fields = checkChatFields(input)
  const messages = checkMessages(input.messages)
  const isCacheControlDropped = dropCacheControl(messages, input.tools)
  const { forward, extraFields, droppedFields } = forwardedFields(input, rules)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forward)
  const size = measurePrompt(messages, forward)
  const routing = routingOf(fields)
  return {
    task: 'chat',
    model: fields.model,
    constraints: routing.constraints,
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    maxTokens: readMaxTokens(fields),
    onInsufficient: routing.onInsufficient,
    maxCostNanos: routing.maxCostNanos,
    dryRun: routing.dryRun,
    openPreferences: routing.openPreferences,
    choices: fields.n ?? 1,
    hasStop: hasStop(input.stop),
    features: requiredFeatures(messages, input),
    inputTokensBound: size.tokensBound,
    promptText: () => promptText(messages, input),
    promptTextBytes: size.textBytes,
    promptLength: undefined,
    mediaTokensBound: size.mediaTokensBound,
    messageCount: messages.length,
    sessionKey: readSessionKey(input.prompt_cache_key),
    forward,
    extraFields,
    droppedFields: isCacheControlDropped ? [...droppedFields, 'cache_control'] : droppedFields,
  }
}

/** No schema checks `prompt_cache_key`: the server that gets it decides. */
function readSessionKey(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** True if `stop`, which no schema checks, names at least one sequence. */
function hasStop(stop: unknown): boolean {
  return Array.isArray(stop) ? stop.length > 0 : typeof stop === 'string' && stop !== ''
}

function readMaxTokens({ max_tokens: older, max_completion_tokens: newer }: ChatFields): number | null {
  if (typeof older === 'number' && typeof newer === 'number' && older !== newer) {
    throw new ApiError('invalid_value', {
      message: `"max_tokens" (${older}) and "max_completion_tokens" (${newer}) set the same limit but differ. Send one of them.`,
      param: 'max_tokens',
    })
  }
  return newer ?? older ?? null
}

function requiredFeatures(messages: readonly ChatMessage[], input: JsonObject): Set<Feature> {
  const features = new Set<Feature>()
  if (isNonEmptyList(input.tools) || isNonEmptyList(input.functions)) features.add('tools')
  if (isJsonObject(input.response_format) && input.response_format.type === 'json_schema') features.add('json_schema')
  if (Array.isArray(input.modalities) && input.modalities.includes('audio')) features.add('audio')
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) {
      if (part.type === 'image_url') features.add('images')
      else if (part.type === 'input_audio') features.add('audio')
    }
  }
  return features
}

function isNonEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0
}

/**
 * Removes `cache_control` from messages, their parts and tools, in place. Returns whether there was any. Clouds charge
 * up to twice the input price for what they cache (Anthropic, also through OpenRouter), and most servers of chat refuse
 * the field.
 * Parameters of a tool keep their names.
 */
function dropCacheControl(messages: readonly JsonObject[], tools: unknown): boolean {
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
