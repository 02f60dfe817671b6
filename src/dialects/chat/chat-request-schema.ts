import { z } from 'zod'
import { insufficientChoices, serviceTiers } from '../../domain/chat-job.ts'

/** Bounds of a chat request. The body as a whole is bounded by the server before any of these. */
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

// `error` texts complete the sentence "`param` must be ...", so each says what is allowed. `null` means the same as leaving an
// optional field out.

const uuidPattern = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a model id must not contain
const noControlCharacters = /^[^\u0000-\u001f\u007f-\u009f]*$/

const string = z.string({ error: 'a string' })
const boolean = z.boolean({ error: 'true or false' })
/** Goes into the routing note of a usage row, where PostgreSQL refuses NUL and halves of surrogate pairs: the charge would go with them. */
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
  z.string({ error: 'a hoster UUID' }).regex(uuidPattern, { error: 'a hoster UUID' }),
  bounds.hosters,
  'hoster UUIDs',
)

const partTypes = ['text', 'image_url', 'input_audio', 'file', 'refusal'] as const

const textPart = z.looseObject({ type: z.literal('text'), text: string })
const refusalPart = z.looseObject({ type: z.literal('refusal'), refusal: string })
const imagePart = z.looseObject({
  type: z.literal('image_url'),
  image_url: z.looseObject({ url: string }, { error: 'an object with "url"' }),
})
const audioPart = z.looseObject({
  type: z.literal('input_audio'),
  input_audio: z.looseObject({ data: string, format: string }, { error: 'an object with "data" and "format"' }),
})
const filePart = z.looseObject({ type: z.literal('file'), file: z.looseObject({}, { error: 'an object' }) })

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

/** One that its caller runs. Clouds run others themselves (searches, code) and charge for each call, for which nothing here has a price. */
const tool = z.looseObject(
  {
    type: z
      .enum(toolTypes, { error: `one of ${toolTypes.join(', ')}: tools that a server runs have no price here` })
      .nullish(),
  },
  { error: 'an object' },
)

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const

/** One message. Fields it does not name (such as `reasoning_content`) are passed on. */
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

/** Everything but the messages, which are checked one by one so that the first wrong one ends the work. */
export const chatFieldsSchema = z.looseObject(
  {
    model: modelId.describe('A model id of `GET /v1/models`, or `auto` for smart routing.'),
    max_tokens: tokenLimit().describe(
      'The most tokens to generate. When it is left out the gateway sets one: 4,096 unless its operator chose another, less where the model makes less or less is affordable.',
    ),
    max_completion_tokens: tokenLimit().describe(
      'The newer name of `max_tokens`; sending both with different values is an error.',
    ),
    stream: boolean.nullish().describe('Answer as server-sent events. Default false.'),
    stream_options: z
      .looseObject({ include_usage: boolean.nullish() }, { error: 'an object' })
      .nullish()
      .describe('`include_usage: true` adds a last chunk with the token usage.'),
    temperature: between(0, 2, z.number).nullish().describe('Sampling temperature.'),
    n: between(1, bounds.choices, z.int).nullish().describe('How many choices to generate. Each may use `max_tokens`.'),
    tools: list(tool, bounds.tools, 'tools').nullish().describe('Tools the model may call, as OpenAI defines them.'),
    tier: z
      .enum(serviceTiers, { error: `one of ${serviceTiers.join(', ')}` })
      .nullish()
      .describe('Which server to prefer among those that may serve the request. Default `balanced`.'),
    privacy_mode: boolean.nullish().describe('When true, the cloud fallback is never used.'),
    trusted_only: boolean.nullish().describe('When true, only hosters with a trust score above 0.8 are used.'),
    max_latency_ms: between(1, bounds.maxTokens, z.int)
      .nullish()
      .describe('Hosters slower than this many milliseconds are skipped.'),
    fallback_models: list(modelId, bounds.fallbackModels, 'model ids')
      .nullish()
      .describe('Model ids to try next, in this order.'),
    allow_hosters: hosterIds.nullish().describe('Use only these hosters.'),
    deny_hosters: hosterIds.nullish().describe('Never use these hosters.'),
    on_insufficient: z
      .enum(insufficientChoices, { error: `one of ${insufficientChoices.join(', ')}` })
      .nullish()
      .describe(
        'What to do when `max_tokens` cannot be paid for: `refuse` with 402, or `clamp` it to what can be. Default `refuse`.',
      ),
    max_cost_usd: (() => {
      const error = `an amount of USD from 0.000000001 to ${bounds.maxCostUsd}`
      return z.number({ error }).min(1e-9, { error }).max(bounds.maxCostUsd, { error })
    })()
      .nullish()
      .describe('The request must not cost more than this: `max_tokens` is lowered to what it pays for.'),
    dry_run: boolean
      .nullish()
      .describe('Answer with a quote: who would serve it and what it would cost. Nothing is sent, held or charged.'),
  },
  { error: 'a JSON object' },
)

/**
 * The documented body of `POST /v1/chat/completions`, which the OpenAPI document shows: strict in what it names, open for every other
 * OpenAI field.
 */
export const chatRequestSchema = chatFieldsSchema
  .extend({
    messages: z.array(messageSchema).min(1).max(bounds.messages).describe('The conversation so far, oldest first.'),
  })
  .meta({
    id: 'ChatCompletionRequest',
    examples: [{ model: 'demo', messages: [{ role: 'user', content: 'Hello!' }] }],
  })

export type ChatMessage = z.infer<typeof messageSchema>
export type ContentPart = z.infer<typeof contentPart>

function tokenLimit() {
  return between(1, bounds.maxTokens, z.int).nullish()
}

function between(min: number, max: number, type: typeof z.int | typeof z.number) {
  const error = `${type === z.int ? 'an integer' : 'a number'} from ${min} to ${max}`
  return type({ error }).min(min, { error }).max(max, { error })
}

function list<Item extends z.ZodType>(item: Item, max: number, ofWhat: string) {
  const error = `an array of at most ${max} ${ofWhat}`
  return z.array(item, { error }).max(max, { error })
}
