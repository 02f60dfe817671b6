import type { z } from 'zod'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { checkValue, refuseLongList, refuseManyKeys } from '../json/check-value.ts'
import { routingBounds } from '../routing-schemas.ts'
import { bounds, type ChatMessage, chatFieldsSchema, messageSchema } from './chat-request-schema.ts'

export type ChatFields = z.infer<typeof chatFieldsSchema>

/**
 * The longest lists allowed. They are checked before their items: a million invalid items would produce a
 * million issues.
 */
const listBounds: ReadonlyArray<readonly [field: string, max: number]> = [
  ['messages', bounds.messages],
  ['tools', bounds.tools],
  ['functions', bounds.tools],
  ['fallback_models', routingBounds.fallbackModels],
  ['allow_hosters', routingBounds.hosters],
  ['deny_hosters', routingBounds.hosters],
]

/** Messages with these roles need only a text as their content. */
const plainRoles = new Set<unknown>(['system', 'developer', 'user', 'assistant'])

const fieldChecks = new Map(
  Object.entries(chatFieldsSchema.shape).map(([field, schema]) => [field, fieldCheck(field, schema)]),
)

/** Checks the documented fields of a body, except its messages, in the order they were sent. Throws ApiError. */
export function checkChatFields(input: JsonObject): ChatFields {
  refuseManyKeys(input, '')
  for (const [field, max] of listBounds) refuseLongList(input[field], max, field)
  if (input.model === undefined) checkValue(chatFieldsSchema.shape.model, undefined, 'model')
  for (const field in input) fieldChecks.get(field)?.(input[field])
  return input as ChatFields
}

/** Customers send the same model and limit repeatedly: skips the schema for the last value it accepted. */
function fieldCheck(field: string, schema: z.ZodType): (value: unknown) => void {
  let lastAccepted: unknown
  return value => {
    if (value === lastAccepted) return
    checkValue(schema, value, field)
    // Lists and objects are never the same value twice.
    if (typeof value !== 'object') lastAccepted = value
  }
}

/**
 * Checks the messages, and drops null fields from them in place. Throws ApiError for the first invalid
 * message.
 */
export function checkMessages(value: unknown): ChatMessage[] {
  if (value === undefined || value === null) throw missingField('messages')
  if (!Array.isArray(value) || value.length === 0) {
    throw invalidField('messages', `an array of 1 to ${bounds.messages} messages`, value)
  }
  for (let i = 0; i < value.length; i++) {
    const message: unknown = value[i]
    if (isPlainMessage(message)) continue
    if (isJsonObject(message)) {
      refuseManyKeys(message, `messages[${i}]`)
      refuseLongList(message.content, bounds.partsPerMessage, `messages[${i}].content`)
    }
    checkValue(messageSchema, message, `messages[${i}]`)
    dropNulls(message as JsonObject)
  }
  return value as ChatMessage[]
}

/**
 * Drops null fields and empty lists of tool calls. SDKs send answers back unchanged, with `refusal: null`;
 * Mistral and Groq reject fields they do not know, null or not. OpenAI rejects an empty list of tool calls.
 * Null content stays: upstreams require it next to tool calls.
 */
function dropNulls(message: JsonObject): void {
  for (const key in message) if (message[key] === null && key !== 'content') delete message[key]
  if (Array.isArray(message.tool_calls) && message.tool_calls.length === 0) delete message.tool_calls
}

/**
 * True for a message of only a role and a text, as most are. It skips the schema: that check takes longer than
 * parsing.
 */
function isPlainMessage(message: unknown): boolean {
  if (!isJsonObject(message) || typeof message.content !== 'string' || !plainRoles.has(message.role)) return false
  for (const key in message) if (key !== 'role' && key !== 'content') return false
  return true
}
