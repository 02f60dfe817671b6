import { z } from 'zod'
import { keyPath } from '../../base/runtime/key-path.ts'
import { countTokens, estimateTokens, SHORT_TEXT_UNITS } from '../tokens/count-tokens.ts'

/** A refusal, sent in the shape of OpenAI's error body. */
export class DemoError extends Error {
  readonly status: number
  readonly param: string | null

  constructor(status: number, message: string, param: string | null = null) {
    super(message)
    this.status = status
    this.param = param
  }
}

/** The fields that the gateway has checked. */
interface CheckedFields {
  readonly messages: readonly Message[]
  readonly stream?: boolean | null
  readonly stream_options?: { readonly include_usage?: boolean | null } | null
  readonly max_tokens?: number | null
  readonly max_completion_tokens?: number | null
  readonly n?: number | null
  readonly temperature?: number | null
}

interface Message {
  readonly role: string
  readonly content?: string | readonly { readonly type: string; readonly text?: string }[] | null
  readonly tool_calls?: readonly unknown[] | null
}

const stopText = z.string().min(1)

/** The fields that the gateway passes on without a check. */
const otherFields = z.looseObject({
  stop: z
    .union([stopText, z.array(stopText).max(4)], { error: 'must be a non-empty string or a list of at most 4 of them' })
    .nullish(),
  top_p: z.number().nullish(),
  seed: z.int().nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  response_format: z
    .looseObject({ type: z.string(), json_schema: z.looseObject({ schema: z.unknown() }).nullish() })
    .nullish(),
  tools: z
    .array(
      z.looseObject({
        function: z.looseObject({ name: z.string(), parameters: z.looseObject({}).nullish() }).nullish(),
      }),
    )
    .nullish(),
  tool_choice: z
    .union([z.string(), z.looseObject({ function: z.looseObject({ name: z.string() }).nullish() })])
    .nullish(),
})

/** A chat request with defaults filled in. */
export type ChatRequest = ReturnType<typeof parseChatRequest>

/**
 * Parses the body of POST /v1/chat/completions. Ignores unknown fields and treats null as absent, as most
 * servers do. Throws DemoError 400.
 */
export function parseChatRequest(body: unknown) {
  const parsed = otherFields.safeParse(body)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const param = keyPath(issue?.path ?? [])
    throw new DemoError(400, `${param}: ${issue?.message}`, param)
  }
  const fields = body as z.infer<typeof otherFields> & CheckedFields
  return {
    messages: fields.messages,
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    /** For each choice. */
    maxTokens: Math.min(fields.max_completion_tokens ?? fields.max_tokens ?? MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS),
    stop: [fields.stop ?? []].flat(),
    choices: fields.n ?? 1,
    temperature: fields.temperature ?? 1,
    topP: fields.top_p ?? 1,
    seed: fields.seed ?? 0,
    /** Null for text. */
    schema: schemaOf(fields.response_format),
    tools: fields.tools ?? [],
    toolChoice: fields.tool_choice ?? 'auto',
    /** Number of alternatives to list with each token; null without log probabilities. */
    topLogprobs: fields.logprobs ? (fields.top_logprobs ?? 0) : null,
  }
}

export const CONTEXT_TOKENS = 131_072
export const MAX_OUTPUT_TOKENS = 4_096

function schemaOf(format: z.infer<typeof otherFields>['response_format']): unknown {
  if (format?.type !== 'json_object' && format?.type !== 'json_schema') return null
  // `json_object` leaves the shape to the model.
  return format.json_schema?.schema ?? { properties: { demo: { const: true }, text: { type: 'string' } } }
}

/** Returns the text of a message: its string, or its text parts joined by line breaks. */
export function messageText(content: Message['content']): string {
  if (typeof content === 'string') return content
  return (content ?? []).flatMap(part => part.text ?? []).join('\n')
}

/**
 * Counts the tokens of a prompt by OpenAI's published rule: 3 for each message plus its role and text, and 3
 * for the start of the answer. Tool calls and tool definitions count as their JSON. Images cost nothing, because the
 * demo ignores them.
 */
export function countPrompt({ messages, tools }: Pick<ChatRequest, 'messages' | 'tools'>): number {
  const texts = messages.flatMap(message => [message.role, messageText(message.content)])
  const calls = [tools, ...messages.map(message => message.tool_calls ?? [])].filter(each => each.length > 0)
  return 3 + 3 * messages.length + tokensOf([...texts, ...calls.map(each => JSON.stringify(each))])
}

/** Counts the tokens of texts. Long ones are estimated: the demo shares the event loop of the gateway. */
export function tokensOf(texts: readonly string[]): number {
  const units = texts.reduce((total, text) => total + text.length, 0)
  if (units > SHORT_TEXT_UNITS) return estimateTokens(texts.join('\n'))
  return texts.reduce((total, text) => total + countTokens(text), 0)
}
