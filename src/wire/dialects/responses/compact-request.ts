import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField } from '../json/body-refusal.ts'

/** Enough for the state of a long session of a coding agent. What the model or the balance allows may be less. */
const SUMMARY_TOKENS_MAX = 16_384

/** Asks for what another model needs to go on. */
const COMPACT_PROMPT = `Summarise the conversation so far, so that it can be continued from your summary alone. The messages of the user are kept beside it; everything else is dropped.

State, as far as it applies: what the user wants, and every constraint and preference; what was decided, and why; what was done, with exact names of files, commands, identifiers, figures and results of tools that are still needed; what failed; what is open, and the next step. Keep facts exactly. Do not answer the last message, do not call tools, and do not invent anything. Write only the summary.`

/**
 * Turns a body of `POST /v1/responses/compact` into one of `POST /v1/responses` that asks the model for a summary. The
 * conversation stays as it is where the body has its tools, so that the server finds its beginning in its cache. Throws
 * ApiError.
 */
export function compactionBody(input: JsonObject): JsonObject {
  // Reading the request refuses it, after its other fields.
  if (input.input === undefined || input.input === null) return { ...input, input: null }
  const items = inputItems(input)
  const hasTools = Array.isArray(input.tools) && input.tools.length > 0
  const conversation = hasTools ? items : items.flatMap(withoutTools)
  return {
    ...input,
    input: [...conversation, { type: 'message', role: 'user', content: COMPACT_PROMPT }],
    tools: hasTools ? input.tools : null,
    tool_choice: hasTools ? 'none' : null,
    text: null,
    max_output_tokens: input.max_output_tokens ?? SUMMARY_TOKENS_MAX,
    stream: false,
  }
}

/** Returns the messages of a checked input that stay as they are: a model may not drop what others have said. */
export function keptMessages(input: JsonObject): JsonObject[] {
  return inputItems(input).filter(isKept).map(keptMessage)
}

/** Returns the input as items. Throws ApiError if it is neither a text nor a list. */
function inputItems({ input }: JsonObject): readonly unknown[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  if (!Array.isArray(input)) throw invalidField('input', 'a string or an array of items', input)
  return input
}

function isKept(item: unknown): item is JsonObject {
  if (!isJsonObject(item) || (item.type !== undefined && item.type !== 'message')) return false
  return item.role === 'user' || item.role === 'developer' || item.role === 'system'
}

function keptMessage({ role, content }: JsonObject, index: number): JsonObject {
  const parts = typeof content === 'string' ? [{ type: 'input_text', text: content }] : (content as unknown[])
  return {
    id: `msg_kept_${index}`,
    type: 'message',
    status: 'completed',
    role,
    content: parts.map(part => (isImage(part) ? { ...part, detail: part.detail ?? 'auto' } : part)),
  }
}

function isImage(part: unknown): part is JsonObject {
  return isJsonObject(part) && part.type === 'input_image'
}

/**
 * Writes calls and results as text: most servers refuse them in a request without tools, and servers of this dialect
 * refuse reasoning without the call that followed it.
 */
function withoutTools(item: unknown): unknown[] {
  if (!isJsonObject(item) || typeof item.type !== 'string') return [item]
  const { type } = item
  if (type === 'reasoning' || type === 'additional_tools') return []
  if (type.endsWith('_call')) return [textOf('assistant', 'output_text', 'Called a tool', item)]
  if (!type.endsWith('_output')) return [item]
  const { output } = item
  const message = textOf(
    'user',
    'input_text',
    'A tool returned',
    Array.isArray(output) ? { ...item, output: null } : item,
  )
  return [Array.isArray(output) ? { ...message, content: [...(message.content as unknown[]), ...output] } : message]
}

function textOf(role: string, partType: string, introduction: string, item: JsonObject): JsonObject {
  const { id: _, status: __, ...told } = item
  return { type: 'message', role, content: [{ type: partType, text: `${introduction}: ${JSON.stringify(told)}` }] }
}
