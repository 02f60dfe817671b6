import { z } from 'zod'
import { chatFieldsSchema } from '../chat/chat-request-schema.ts'
import { fileDataProblem, mediaUrlProblem } from '../chat/media-url.ts'
import { routingSchemas } from '../routing-schemas.ts'

/** Limits of a request. The server limits the size of the whole body before these apply. */
export const bounds = { items: 8_192, partsPerItem: 2_048, tools: 1_024 } as const

// Each `error` text completes the sentence "`param` must be ...". In an optional field, `null` means the same as
// leaving it out.

const string = z.string({ error: 'a string' })
const name = z
  .string({ error: 'a name' })
  .min(1, { error: 'a name' })
  .max(256, { error: 'a name of at most 256 characters' })
const jsonObject = z.looseObject({}, { error: 'an object' })
const boolean = z.boolean({ error: 'true or false' })

const noFileId = z.null({ error: 'left out: files cannot be uploaded here; send the data or a URL' }).optional()

const inputPartTypes = ['input_text', 'input_image', 'input_file', 'output_text', 'refusal'] as const

/** The parts of a message and of the output of a tool. */
const contentParts = [
  z.looseObject({ type: z.enum(['input_text', 'output_text']), text: string }),
  z.looseObject({ type: z.literal('refusal'), refusal: string }),
  z.looseObject({
    type: z.literal('input_image'),
    image_url: withoutProblem(mediaUrlProblem, 'a data: URL or a public https URL'),
    detail: string.nullish(),
    file_id: noFileId,
  }),
  z
    .looseObject({
      type: z.literal('input_file'),
      file_data: withoutProblem(fileDataProblem, 'base64 or a data: URL').nullish(),
      file_url: withoutProblem(mediaUrlProblem, 'a public https URL').nullish(),
      filename: string.nullish(),
      file_id: noFileId,
    })
    .refine(part => part.file_data || part.file_url, { error: 'an object with "file_data" or "file_url"' }),
] as const

const audioPart = z.looseObject({
  type: z.literal('input_audio'),
  input_audio: z.looseObject({ data: string, format: string }, { error: 'an object with "data" and "format"' }),
})

function partError(types: readonly string[]): z.core.$ZodErrorMap {
  return issue => (issue.note === undefined ? 'a content part object' : `one of ${types.join(', ')}`)
}

const toolPart = z.discriminatedUnion('type', contentParts, { error: partError(inputPartTypes) })
const contentPart = z.discriminatedUnion('type', [...contentParts, audioPart], {
  error: partError([...inputPartTypes, 'input_audio']),
})

const noContent = { error: 'a string or an array of content parts' }
const content = z.union([z.string(), z.array(contentPart)], noContent)

const toolOutput = z.looseObject({ call_id: string, output: z.union([z.string(), z.array(toolPart)], noContent) })

/** The items that are read, by type. Items of other types belong to tools that servers run. */
export const itemSchemas = {
  message: z.looseObject(
    {
      role: z.enum(['user', 'assistant', 'system', 'developer'], {
        error: 'one of user, assistant, system, developer',
      }),
      content,
    },
    { error: 'an object' },
  ),
  function_call: z.looseObject({ call_id: string, name, namespace: name.nullish(), arguments: string }),
  function_call_output: toolOutput,
  custom_tool_call: z.looseObject({ call_id: string, name, namespace: name.nullish(), input: string }),
  custom_tool_call_output: toolOutput,
  tool_search_call: z.looseObject({ call_id: string.nullish() }),
  tool_search_output: z.looseObject({
    call_id: string.nullish(),
    tools: z.array(jsonObject, { error: 'an array of tools' }),
  }),
  additional_tools: z.looseObject({ tools: z.array(jsonObject, { error: 'an array of tools' }) }),
  reasoning: z.looseObject({
    summary: z.array(z.looseObject({ text: string }), { error: 'an array of summary parts' }).nullish(),
    content: z.array(z.looseObject({ text: string }), { error: 'an array of reasoning parts' }).nullish(),
    encrypted_content: string.nullish(),
  }),
} as const

const customFormat = z.looseObject({
  type: z.enum(['text', 'grammar'], { error: 'text or grammar' }),
  syntax: string.optional(),
  definition: string.optional(),
})

/** The tools that the client runs. */
export const toolSchemas = {
  function: z.looseObject({
    name,
    description: string.nullish(),
    parameters: jsonObject.nullish(),
    strict: boolean.nullish(),
  }),
  custom: z.looseObject({ name, description: string.nullish(), format: customFormat.nullish() }),
  namespace: z.looseObject({ name, tools: z.array(jsonObject, { error: 'an array of tools' }) }),
  tool_search: z.looseObject({ description: string.nullish(), parameters: jsonObject.nullish() }),
} as const

const textFormat = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.enum(['text', 'json_object']) }),
    z.looseObject({
      type: z.literal('json_schema'),
      name,
      schema: jsonObject,
      description: string.nullish(),
      strict: boolean.nullish(),
    }),
  ],
  { error: issue => (issue.note === undefined ? 'an object' : 'one of text, json_object, json_schema') },
)

const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

const { shape } = chatFieldsSchema

/** Every documented field except the input, which is checked item by item. */
export const responsesFieldsSchema = z.looseObject(
  {
    model: shape.model,
    instructions: string.nullish().describe('Instructions before the input.'),
    max_output_tokens: shape.max_tokens.describe(
      'Maximum number of tokens to generate, including reasoning. A higher limit than the model or the balance allows is lowered. Default: the most that the model generates.',
    ),
    stream: shape.stream,
    temperature: shape.temperature,
    top_p: z.number({ error: 'a number from 0 to 1' }).min(0).max(1).nullish(),
    parallel_tool_calls: boolean.nullish(),
    reasoning: z
      .looseObject(
        {
          effort: z.enum(efforts, { error: `one of ${efforts.join(', ')}` }).nullish(),
          summary: string.nullish(),
        },
        { error: 'an object' },
      )
      .nullish(),
    text: z
      .looseObject(
        {
          format: textFormat.nullish(),
          verbosity: z.enum(['low', 'medium', 'high'], { error: 'low, medium or high' }).nullish(),
        },
        { error: 'an object' },
      )
      .nullish(),
    include: z.array(string, { error: 'an array of strings' }).nullish(),
    metadata: jsonObject.nullish().describe('Written into the answer, not stored.'),
    prompt_cache_key: string.nullish(),
    safety_identifier: string.nullish(),
    user: string.nullish(),
    store: boolean.nullish().describe('Accepted, but answers are never stored.'),
    previous_response_id: stateful(),
    conversation: stateful(),
    prompt: stateful(),
    background: z
      .literal(false, { error: 'false: answers are not stored here, so send the request without it and wait' })
      .nullish(),
    ...routingSchemas,
    on_insufficient: routingSchemas.on_insufficient.describe(
      'What to do if the balance or a spend limit cannot pay for `max_output_tokens`: `clamp` it to what can be paid for, or `refuse` the request with 402. Default `clamp`.',
    ),
  },
  { error: 'a JSON object' },
)

const typedObject = z.looseObject({ type: z.string() })
/** Only a message may leave its type out. */
const documentedItem = z.looseObject({}).meta({ anyOf: [{ required: ['type'] }, { required: ['role'] }] })

/** The body of `POST /v1/responses` as the OpenAPI document shows it. */
export const responsesRequestSchema = responsesFieldsSchema
  .extend({
    input: z
      .union([z.string(), z.array(documentedItem).min(1).max(bounds.items)])
      .describe('A text, or the whole conversation as items, oldest first.'),
    tools: z
      .array(typedObject)
      .max(bounds.tools)
      .nullish()
      .describe(
        'Tools that the client runs: `function`, `custom`, `namespace`, `tool_search`, `apply_patch`, `shell` without a container, `local_shell`, `computer` and `computer_use_preview`. Tools that a server would run are left out if `tool_choice` is `auto`.',
      ),
    tool_choice: z.union([z.enum(['none', 'auto', 'required']), typedObject]).nullish(),
  })
  .meta({ id: 'ResponsesRequest', examples: [{ model: 'demo', input: 'Hello!' }] })

export type ResponsesFields = z.infer<typeof responsesFieldsSchema>
export type ContentPart = z.infer<typeof contentPart>

function stateful() {
  return z
    .null({ error: 'left out: nothing is stored here; send the whole conversation in "input"' })
    .optional()
    .describe('Not supported: send the whole conversation in `input`.')
}

/** A text in which `problemOf` finds no problem. `what` completes the sentence "`param` must be ...". */
function withoutProblem(problemOf: (text: string) => string | undefined, what: string) {
  return z.string({ error: what }).check(({ value, issues }) => {
    const problem = problemOf(value)
    if (problem !== undefined) issues.push({ code: 'custom', input: value, message: `${what}: ${problem}` })
  })
}
