import { z } from 'zod'
import { between, boolean, list, modelId } from '../field-schemas.ts'
import { routingSchemas } from '../routing-schemas.ts'
import { fileDataProblem, mediaUrlProblem } from './media-url.ts'

/** Limits of a chat request. The server limits the size of the whole body before these apply. */
export const bounds = {
  messages: 2_048,
  partsPerMessage: 2_048,
  tools: 512,
  choices: 16,
  maxTokens: 2 ** 31 - 1,
} as const

// Each `error` text completes the sentence "`param` must be ...". In an optional field, `null` means the same
// as leaving it out.

const string = z.string({ error: 'a string' })
const partTypes = ['text', 'image_url', 'input_audio', 'file', 'refusal'] as const

const textPart = z.looseObject({ type: z.literal('text'), text: string })
const refusalPart = z.looseObject({ type: z.literal('refusal'), refusal: string })
const imagePart = z.looseObject({
  type: z.literal('image_url'),
  image_url: z.looseObject(
    { url: textWithout(mediaUrlProblem, 'a data: URL or a public https URL') },
    { error: 'an object with "url"' },
  ),
})
const audioPart = z.looseObject({
  type: z.literal('input_audio'),
  input_audio: z.looseObject({ data: string, format: string }, { error: 'an object with "data" and "format"' }),
})
const filePart = z.looseObject({
  type: z.literal('file'),
  file: z.looseObject(
    {
      file_data: textWithout(fileDataProblem, 'base64, a data: URL or a public https URL').nullish(),
      // A file id would name a file in the account of the operator.
      file_id: z.null({ error: 'left out: files cannot be uploaded here; send file_data' }).optional(),
    },
    { error: 'an object' },
  ),
})

const contentPart = z
  .discriminatedUnion('type', [textPart, imagePart, audioPart, filePart, refusalPart], {
    error: issue => (issue.note === undefined ? 'a content part object' : `one of ${partTypes.join(', ')}`),
  })
  .meta({ id: 'ContentPart' })

const content = z.union([z.string(), z.array(contentPart)], { error: 'a string or an array of content parts' })
const name = string.nullish()

const toolCalls = z.array(z.looseObject({ id: string, type: string.nullish() }, { error: 'an object with "id"' }), {
  error: 'an array of tool calls',
})

const toolTypes = ['function', 'custom'] as const

/**
 * A tool that the client runs. Clouds run other types themselves (searches, code) and charge for each call,
 * for which the gateway has no price.
 */
const tool = z.looseObject(
  {
    type: z
      .enum(toolTypes, { error: `one of ${toolTypes.join(', ')}: tools that a server runs have no price here` })
      .nullish(),
  },
  { error: 'an object' },
)

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const

/** One message. Unknown fields such as `reasoning_content` are passed on. */
export const messageSchema = z
  .discriminatedUnion(
    'role',
    [
      z.looseObject({ role: z.enum(['system', 'developer', 'user']), content, name }),
      z.looseObject({
        role: z.literal('assistant'),
        content: content.nullish(),
        name,
        refusal: string.nullish(),
        tool_calls: toolCalls.nullish(),
        function_call: z.looseObject({ name: string, arguments: string }, { error: 'an object' }).nullish(),
      }),
      z.looseObject({ role: z.literal('tool'), content, tool_call_id: string }),
      z.looseObject({ role: z.literal('function'), content: content.nullable(), name: string }),
    ],
    { error: issue => (issue.note === undefined ? 'an object' : `one of ${roles.join(', ')}`) },
  )
  .meta({ id: 'ChatMessage' })

/**
 * Every field except the messages, which are checked one by one so that the first invalid one ends the check. The API
 * reference shows the fields in this order, and folds all but the first 12 of the request.
 */
export const chatFieldsSchema = z.looseObject(
  {
    model: modelId.describe(
      'Id of a model from `GET /v1/models`, or `auto` to let the gateway choose the model as well. 1 to 256 characters.',
    ),
    stream: boolean.nullish().describe('Send the answer as server-sent events while it is generated. Default `false`.'),
    max_tokens: tokenLimit().describe(
      'Maximum number of tokens to generate for each choice. Default: 4,096 unless the operator configured another value, or less if the model generates fewer or the balance pays for fewer.',
    ),
    temperature: between(0, 2, z.number)
      .nullish()
      .describe('Sampling temperature, 0 to 2. Default: set by the server.'),
    tools: list(tool, bounds.tools, 'tools')
      .nullish()
      .describe(
        'Tools that the model may call and the client runs, in the format of OpenAI. At most 512, of type `function` or `custom`.',
      ),
    tier: routingSchemas.tier,
    privacy_mode: routingSchemas.privacy_mode,
    max_cost_usd: routingSchemas.max_cost_usd,
    max_input_usd_per_million: routingSchemas.max_input_usd_per_million,
    max_output_usd_per_million: routingSchemas.max_output_usd_per_million,
    fallback_models: routingSchemas.fallback_models,
    stream_options: z
      .looseObject({ include_usage: boolean.nullish() }, { error: 'an object' })
      .nullish()
      .describe(
        'Options of a stream. `include_usage: true` adds a last chunk with the billed tokens and their cost. Default `false`.',
      ),
    max_completion_tokens: tokenLimit().describe(
      'Newer name of `max_tokens`. Sending both with different values is an error.',
    ),
    n: between(1, bounds.choices, z.int)
      .nullish()
      .describe('Number of choices to generate, 1 to 16. Each may use `max_tokens`, and each is billed. Default 1.'),
    on_insufficient: routingSchemas.on_insufficient,
    dry_run: routingSchemas.dry_run,
    trusted_only: routingSchemas.trusted_only,
    max_latency_ms: routingSchemas.max_latency_ms,
    allow_hosters: routingSchemas.allow_hosters,
    deny_hosters: routingSchemas.deny_hosters,
  },
  { error: 'a JSON object' },
)

const { model, ...otherFields } = chatFieldsSchema.shape

/**
 * The body of `POST /v1/chat/completions` as the OpenAPI document shows it: strict for the documented fields,
 * open for every other OpenAI field.
 */
export const chatRequestSchema = z
  .looseObject({
    model,
    messages: z
      .array(messageSchema)
      .min(1)
      .max(bounds.messages)
      .describe('The conversation so far, oldest message first. 1 to 2,048 messages.'),
    ...otherFields,
  })
  .meta({
    id: 'ChatCompletionRequest',
    examples: [{ model: 'demo', messages: [{ role: 'user', content: 'Hello!' }] }],
  })

export type ChatMessage = z.infer<typeof messageSchema>
export type ContentPart = z.infer<typeof contentPart>

/** A text in which `problemOf` finds no problem. `what` completes the sentence "`param` must be ...". */
function textWithout(problemOf: (text: string) => string | undefined, what: string) {
  return z.string({ error: what }).check(({ value, issues }) => {
    const problem = problemOf(value)
    if (problem !== undefined) issues.push({ code: 'custom', input: value, message: `${what}: ${problem}` })
  })
}

function tokenLimit() {
  return between(1, bounds.maxTokens, z.int).nullish()
}
