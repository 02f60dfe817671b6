import { z } from 'zod'
import { insufficientChoices, serviceTiers } from '../../domain/chat-job.ts'
import { UUID } from '../../runtime/uuid.ts'
import { fileDataProblem, mediaUrlProblem } from './media-url.ts'

/** Limits of a chat request. The server limits the size of the whole body before these apply. */
export const bounds = {
  modelCharacters: 256,
  messages: 2_048,
  partsPerMessage: 2_048,
  tools: 512,
  choices: 16,
  fallbackModels: 16,
  hosters: 256,
  maxTokens: 2 ** 31 - 1,
  maxCostUsd: 1_000_000,
} as const

// Each `error` text completes the sentence "`param` must be ...". In an optional field, `null` means the same
// as leaving it out.

// biome-ignore lint/suspicious/noControlCharactersInRegex: a model id must not contain them
const noControlCharacters = /^[^\u0000-\u001f\u007f-\u009f]*$/

const string = z.string({ error: 'a string' })
const boolean = z.boolean({ error: 'true or false' })
/**
 * A model id is stored in the routing note of the usage row. PostgreSQL rejects NUL and lone surrogates, and
 * the charge would be lost with the row.
 */
export const modelId = (() => {
  const error = `a model id (1 to ${bounds.modelCharacters} characters, no control characters)`
  return z
    .string({ error })
    .min(1, { error })
    .max(bounds.modelCharacters, { error })
    .regex(noControlCharacters, { error })
    .refine(text => text.isWellFormed(), { error })
})()
const hosterIds = list(
  z.string({ error: 'a hoster UUID' }).regex(UUID, { error: 'a hoster UUID' }),
  bounds.hosters,
  'hoster UUIDs',
)

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
    tier: z
      .enum(serviceTiers, { error: `one of ${serviceTiers.join(', ')}` })
      .nullish()
      .describe(
        'How to order the servers that can serve the request: `cheapest` by price, `fastest` by predicted latency and load, `balanced` by price, latency and trust. Default `balanced`.',
      ),
    privacy_mode: boolean.nullish().describe('If `true`, never use a cloud. Default `false`.'),
    max_cost_usd: (() => {
      const error = `an amount of USD from 0.000000001 to ${bounds.maxCostUsd}`
      return z.number({ error }).min(1e-9, { error }).max(bounds.maxCostUsd, { error })
    })()
      .nullish()
      .describe(
        'Maximum cost of the request in USD, rounded down to 9 decimals. 0.000000001 to 1,000,000. `max_tokens` is lowered to what this amount can pay for. Default: no limit.',
      ),
    fallback_models: list(modelId, bounds.fallbackModels, 'model ids')
      .nullish()
      .describe(
        'Ids of models to try, in this order, when no server of `model` answers. At most 16. All other constraints apply to them too. Default: none.',
      ),
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
    on_insufficient: z
      .enum(insufficientChoices, { error: `one of ${insufficientChoices.join(', ')}` })
      .nullish()
      .describe(
        'What to do if the balance or a spend limit cannot pay for `max_tokens`: `refuse` the request with 402, or `clamp` `max_tokens` to what can be paid for. Default `refuse`.',
      ),
    dry_run: boolean
      .nullish()
      .describe(
        'If `true`, answer with a quote: which servers could serve the request, and what it would cost. Nothing is sent upstream, held or charged. Default `false`.',
      ),
    trusted_only: boolean
      .nullish()
      .describe(
        'If `true`, use no hoster with a trust score of 0.8 or less. Local servers and clouds are not affected. Default `false`.',
      ),
    max_latency_ms: between(1, bounds.maxTokens, z.int)
      .nullish()
      .describe(
        'Skip hosters with a higher predicted latency, in milliseconds, or with too few measurements. The latency of a stream is the time to its first content, otherwise the time to the complete answer. Default: no limit.',
      ),
    allow_hosters: hosterIds
      .nullish()
      .describe(
        'UUIDs of the only hosters to use, at most 256. An empty list allows no hoster. Local servers and clouds are not affected. Default: all hosters.',
      ),
    deny_hosters: hosterIds
      .nullish()
      .describe('UUIDs of hosters never to use, at most 256. Takes precedence over `allow_hosters`. Default: none.'),
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

function between(min: number, max: number, type: typeof z.int | typeof z.number) {
  const error = `${type === z.int ? 'an integer' : 'a number'} from ${min} to ${max}`
  return type({ error }).min(min, { error }).max(max, { error })
}

function list<Item extends z.ZodType>(item: Item, max: number, itemsText: string) {
  const error = `an array of at most ${max} ${itemsText}`
  return z.array(item, { error }).max(max, { error })
}
