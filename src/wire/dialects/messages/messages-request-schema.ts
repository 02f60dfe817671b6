import { z } from 'zod'
import { bounds, chatFieldsSchema } from '../chat/chat-request-schema.ts'
import { mediaUrlProblem } from '../chat/media-url.ts'
import { routingSchemas } from '../routing-schemas.ts'

// Each `error` text completes the sentence "`param` must be ...". In an optional field, `null` means the same
// as leaving it out. Unknown fields, types of blocks and betas are never refused: clients get them every week.

const string = z.string({ error: 'a string' })
const boolean = z.boolean({ error: 'true or false' })
const object = { error: 'an object' }

const cacheControl = z
  .looseObject(
    {
      type: z.literal('ephemeral', { error: '"ephemeral"' }),
      ttl: z.enum(['5m', '1h'], { error: '"5m" or "1h"' }).nullish(),
    },
    object,
  )
  .nullish()

const publicUrl = z.string({ error: 'a public https URL' }).check(({ value, issues }) => {
  const problem = value.startsWith('https:') ? mediaUrlProblem(value) : 'it does not begin with https:'
  if (problem !== undefined) issues.push({ code: 'custom', input: value, message: `a public https URL: ${problem}` })
})

const base64Source = z.looseObject({ type: z.literal('base64'), media_type: string, data: string })
const urlSource = z.looseObject({ type: z.literal('url'), url: publicUrl })
const textSource = z.looseObject({ type: z.literal('text'), data: string })
const contentSource = z.looseObject({ type: z.literal('content'), content: z.unknown() })

/** A file id would name a file in the account of the operator, so the type `file` is not among these. */
const imageSource = z.discriminatedUnion('type', [base64Source, urlSource], {
  error: issue => (issue.note === undefined ? 'an object' : 'base64 or url: files cannot be uploaded here'),
})
const documentSource = z.discriminatedUnion('type', [base64Source, urlSource, textSource, contentSource], {
  error: issue =>
    issue.note === undefined ? 'an object' : 'base64, url, text or content: files cannot be uploaded here',
})

const text = z.looseObject({ type: z.literal('text'), text: string, cache_control: cacheControl })

/** The blocks with fields to check, by type. Other blocks pass. */
const blocks: Readonly<Record<string, z.ZodType>> = {
  text,
  image: z.looseObject({ source: imageSource, cache_control: cacheControl }),
  document: z.looseObject({ source: documentSource, title: string.nullish(), cache_control: cacheControl }),
  thinking: z.looseObject({ thinking: string, signature: string.nullish() }),
  redacted_thinking: z.looseObject({ data: string }),
  tool_use: z.looseObject({ id: string, name: string, input: z.looseObject({}, object), cache_control: cacheControl }),
  tool_result: z.looseObject({
    tool_use_id: string,
    is_error: boolean.nullish(),
    content: z.unknown().optional(),
    cache_control: cacheControl,
  }),
}

const anyBlock = z.looseObject({ type: string }, { error: 'a content block object' })

/** Returns the schema for a content block of this type. */
export function blockSchema(type: unknown): z.ZodType {
  return (typeof type === 'string' && Object.hasOwn(blocks, type) ? blocks[type] : undefined) ?? anyBlock
}

/** A message without its content, which is checked block by block so that the first invalid one ends the check. */
export const messageRoleSchema = z.looseObject(
  { role: z.enum(['user', 'assistant', 'system'], { error: 'one of user, assistant, system' }) },
  object,
)

const tool = z.looseObject(
  {
    type: string.nullish(),
    name: string.optional(),
    description: string.nullish(),
    input_schema: z.looseObject({}, { error: 'a JSON Schema object' }).nullish(),
    cache_control: cacheControl,
  },
  object,
)

const effort = z.enum(['low', 'medium', 'high', 'xhigh', 'max'], { error: 'one of low, medium, high, xhigh, max' })

/** The gateway's own fields, which have the same names and meaning in every dialect. */
const gatewayFields = z.looseObject({ model: chatFieldsSchema.shape.model, ...routingSchemas })

const maxTokensError = `an integer from 1 to ${bounds.maxTokens}`

/** Every field of `POST /v1/messages` except the messages and the system prompt, which are checked one by one. */
export const messagesFieldsSchema = gatewayFields.extend({
  max_tokens: z
    .int({ error: maxTokensError })
    .min(1, { error: maxTokensError })
    .max(bounds.maxTokens, { error: maxTokensError }),
  stream: boolean.nullish(),
  temperature: z
    .number({ error: 'a number from 0 to 1' })
    .min(0, { error: 'a number from 0 to 1' })
    .max(1, { error: 'a number from 0 to 1' })
    .nullish(),
  top_p: z.number({ error: 'a number' }).nullish(),
  top_k: z.int({ error: 'an integer' }).nullish(),
  stop_sequences: z.array(string, { error: 'an array of strings' }).nullish(),
  metadata: z.looseObject({ user_id: string.nullish() }, object).nullish(),
  tools: z.array(tool, { error: 'an array of tools' }).nullish(),
  tool_choice: z
    .discriminatedUnion(
      'type',
      [
        z.looseObject({ type: z.enum(['auto', 'any', 'none']), disable_parallel_tool_use: boolean.nullish() }),
        z.looseObject({ type: z.literal('tool'), name: string, disable_parallel_tool_use: boolean.nullish() }),
      ],
      { error: issue => (issue.note === undefined ? 'an object' : 'one of auto, any, tool, none') },
    )
    .nullish(),
  thinking: z
    .looseObject(
      { type: string, budget_tokens: z.int({ error: 'an integer' }).nullish(), display: string.nullish() },
      object,
    )
    .nullish(),
  output_config: z
    .looseObject(
      {
        effort: effort.nullish(),
        format: z
          .looseObject({ type: string, schema: z.looseObject({}, { error: 'a JSON Schema object' }).nullish() }, object)
          .nullish(),
      },
      object,
    )
    .nullish(),
  cache_control: cacheControl,
})

const documentedMessage = messageRoleSchema.extend({
  content: z
    .union([string, z.array(anyBlock)])
    .describe('A text, or blocks: text, image, document, tool_use and others.'),
})

/** The body of `POST /v1/messages` as the OpenAPI document shows it. */
export const messagesRequestSchema = messagesFieldsSchema
  .extend({
    messages: z.array(documentedMessage).min(1).describe('The conversation so far, oldest message first.'),
    system: z
      .union([z.string(), z.array(anyBlock)])
      .nullish()
      .describe('Instructions before the first message.'),
  })
  .meta({
    id: 'MessagesRequest',
    examples: [{ model: 'demo', max_tokens: 1024, messages: [{ role: 'user', content: 'Hello!' }] }],
  })
