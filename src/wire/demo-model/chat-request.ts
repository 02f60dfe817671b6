import { z } from 'zod'
import { DemoError } from './demo-error.ts'
import { parseBody } from './parse-body.ts'

/** The fields of an OpenAI chat request that the demo supports, with defaults filled in. */
export interface ChatRequest {
  readonly model: string
  readonly messages: readonly RequestMessage[]
  readonly stream: boolean
  readonly includeUsage: boolean
  /** Tokens per choice; infinite if the request sets no limit. */
  readonly maxTokens: number
  readonly stop: readonly string[]
  readonly choices: number
  readonly temperature: number
  readonly topP: number
  readonly seed: number
  readonly format: { readonly type: 'text' } | { readonly type: 'json'; readonly schema: unknown }
  readonly tools: readonly FunctionTool[]
  readonly toolChoice: ToolChoice
  /** Number of alternatives to list with each token; null without log probabilities. */
  readonly topLogprobs: number | null
}

export type RequestMessage = z.infer<typeof message>

export interface FunctionTool {
  readonly name: string
  readonly parameters: unknown
}

export interface ToolChoice {
  readonly mode: 'none' | 'auto' | 'required'
  /** The only functions that may be called; null allows all. */
  readonly names: readonly string[] | null
}

/**
 * Parses the body of POST /v1/chat/completions. Ignores unknown fields and treats null as absent, as most
 * servers do.
 * @throws DemoError 400, naming the parameter.
 */
export function parseChatRequest(body: unknown): ChatRequest {
  const fields = parseBody(requestBody, body)
  const tools = (fields.tools ?? []).flatMap(tool =>
    tool.function ? [{ name: tool.function.name, parameters: tool.function.parameters ?? {} }] : [],
  )
  const toolChoice = readToolChoice(fields.tool_choice ?? 'auto')
  checkToolChoice(toolChoice, tools)
  return {
    model: fields.model,
    messages: fields.messages,
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens ?? Number.POSITIVE_INFINITY,
    stop: typeof fields.stop === 'string' ? [fields.stop] : (fields.stop ?? []),
    choices: fields.n ?? 1,
    temperature: fields.temperature ?? 1,
    topP: fields.top_p ?? 1,
    seed: fields.seed ?? 0,
    format: readFormat(fields.response_format),
    tools,
    toolChoice,
    topLogprobs: fields.logprobs ? (fields.top_logprobs ?? 0) : null,
  }
}

/** Returns the text of a message: its string, or its text parts joined by line breaks. */
export function messageText(content: RequestMessage['content']): string {
  if (typeof content === 'string') return content
  return (content ?? []).flatMap(part => (typeof part.text === 'string' ? [part.text] : [])).join('\n')
}

const part = z.looseObject({ type: z.string(), text: z.string().nullish() })

const message = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z.union([z.string(), z.array(part)]).nullish(),
  name: z.string().nullish(),
  tool_calls: z.array(z.looseObject({})).nullish(),
})

const stopText = z.string().min(1)
const STOP_ALLOWED = 'must be a non-empty string or a list of at most 4 of them'
const tokenLimit = z.int().min(1).nullish()

const toolChoiceBody = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
  z.looseObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.looseObject({
      mode: z.enum(['auto', 'required']),
      tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }).nullish() })),
    }),
  }),
])

const formatBody = z.union([
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({ type: z.literal('json_schema'), json_schema: z.looseObject({ schema: z.unknown().optional() }) }),
])

const requestBody = z.looseObject({
  model: z.string(),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: tokenLimit,
  max_completion_tokens: tokenLimit,
  stop: z.union([stopText, z.array(stopText).max(4)], { error: STOP_ALLOWED }).nullish(),
  n: z.int().min(1).max(8).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  seed: z.int().nullish(),
  response_format: formatBody.nullish(),
  tools: z
    .array(
      z.looseObject({
        type: z.string(),
        function: z.looseObject({ name: z.string().min(1), parameters: z.unknown().optional() }).nullish(),
      }),
    )
    .nullish(),
  tool_choice: toolChoiceBody.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
})

function readFormat(format: z.infer<typeof formatBody> | null | undefined): ChatRequest['format'] {
  if (format?.type === 'json_schema') return { type: 'json', schema: format.json_schema.schema ?? jsonObjectSchema }
  if (format?.type === 'json_object') return { type: 'json', schema: jsonObjectSchema }
  return { type: 'text' }
}

/** The schema used for `json_object`, which leaves the shape to the model. */
const jsonObjectSchema = {
  type: 'object',
  properties: { demo: { const: true }, text: { type: 'string' } },
}

function readToolChoice(choice: z.infer<typeof toolChoiceBody>): ToolChoice {
  if (typeof choice === 'string') return { mode: choice, names: null }
  if (choice.type === 'function') return { mode: 'required', names: [choice.function.name] }
  const { mode, tools } = choice.allowed_tools
  return { mode, names: tools.flatMap(tool => (tool.function ? [tool.function.name] : [])) }
}

function checkToolChoice(choice: ToolChoice, tools: readonly FunctionTool[]): void {
  const missing = choice.names?.find(name => !tools.some(tool => tool.name === name))
  if (missing !== undefined) {
    throw new DemoError(400, `tool_choice: no function named "${missing}" in tools`, {
      param: 'tool_choice',
      code: 'invalid_value',
    })
  }
  if (choice.mode === 'required' && tools.length === 0) {
    throw new DemoError(400, 'tool_choice: a call is required, but tools has no function', {
      param: 'tool_choice',
      code: 'invalid_value',
    })
  }
}
