import type Anthropic from '@anthropic-ai/sdk'
import type { GenerateContentResponse } from '@google/genai'
import type OpenAI from 'openai'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { type Behaviour, bytewise, rawResponse, status } from './scripted-upstream.ts'

// Answers as the vendors of the other dialects send them. Their SDKs' types check the shapes.

/** Those with streams of text; for `converse` see scripted-bedrock.ts. */
export type NativeDialect = Exclude<Dialect, 'chat' | 'converse'>
export type ScriptedDialect = NativeDialect | 'chat'

interface VendorCall {
  readonly id: string
  readonly name: string
  readonly args: Record<string, unknown>
  /** Only Anthropic has them. */
  readonly toolset?: string
}

/** What a scripted vendor answers: its reasoning, then text, then calls. */
export interface VendorAnswer {
  readonly thinking?: { readonly text: string; readonly seal: string }
  readonly text?: string
  /** Blocks of text with their citations, after `text`. Only Anthropic has them. */
  readonly cited?: readonly { readonly text: string; readonly citations: readonly Anthropic.TextCitation[] }[]
  readonly calls?: readonly VendorCall[]
  /** Sources of `text`. Only OpenAI has them. */
  readonly annotations?: readonly OpenAI.Responses.ResponseOutputText.URLCitation[]
  readonly limitReached?: boolean
  /** What the server reports. Default: `vendorUsage`. */
  readonly tokens?: ReportedTokens
}

/** A report without tokens of a cache and of reasoning. */
export interface ReportedTokens {
  readonly input: number
  readonly output: number
}

/** The usage of a scripted answer without `tokens`: 10 fresh tokens, 20 read from a cache, 7 of output, 3 of them reasoning. */
export const vendorUsage = {
  prompt_tokens: 30,
  completion_tokens: 7,
  total_tokens: 37,
  prompt_tokens_details: { cached_tokens: 20 },
  completion_tokens_details: { reasoning_tokens: 3 },
}

/** A correct answer in a dialect: a stream if the request asks for one. `split`: each byte of the stream arrives alone. */
export function vendorAnswer(dialect: ScriptedDialect, answer: VendorAnswer, split = false): Behaviour {
  return async (request, response) => {
    const isStream = request.body.stream === true || request.path.includes(':streamGenerateContent')
    if (!isStream) return status(200, wholeAnswers[dialect](answer))(request, response)
    const bytes = eventBytes(streams[dialect](answer)) + (dialect === 'chat' ? 'data: [DONE]\n\n' : '')
    await rawResponse(split ? bytewise(bytes) : bytes, { framing: 'chunked' })(request, response)
  }
}

/** The events of a stream, one text each. */
export function vendorEvents(dialect: ScriptedDialect, answer: VendorAnswer): string[] {
  const events = streams[dialect](answer).map(event => eventBytes([event]))
  return dialect === 'chat' ? [...events, 'data: [DONE]\n\n'] : events
}

/** The body of a whole answer. */
export function vendorBody(dialect: ScriptedDialect, answer: VendorAnswer): object {
  return wholeAnswers[dialect](answer)
}

/** The first events of a stream, then the end of the connection. */
export function vendorCut(dialect: NativeDialect, answer: VendorAnswer, events: number): Behaviour {
  return rawResponse(eventBytes(streams[dialect](answer).slice(0, events)), { framing: 'chunked', ending: 'reset' })
}

/** The first events of a stream but its last, at most `most`, and then another event. */
export function vendorBreak(dialect: NativeDialect, answer: VendorAnswer, most: number, event: object): Behaviour {
  const events = streams[dialect](answer)
  return rawResponse(eventBytes([...events.slice(0, Math.min(most, events.length - 1)), event]), { framing: 'chunked' })
}

/** The vendor's answer to a request that it does not serve. */
export function vendorError(dialect: NativeDialect, code: number, message: string): Behaviour {
  const bodies: Record<NativeDialect, object> = {
    messages: { type: 'error', error: { type: anthropicErrors[code], message }, request_id: 'req_1' },
    gemini: { error: { code, message, status: googleErrors[code] } },
    responses: { error: { message, type: openaiErrors[code], param: null, code: null } },
  }
  return status(code, bodies[dialect])
}

const anthropicErrors: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}
const googleErrors: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  429: 'RESOURCE_EXHAUSTED',
  529: 'UNAVAILABLE',
}
const openaiErrors: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'invalid_request_error',
  429: 'requests',
  529: 'server_error',
}

interface NamedEvent {
  readonly type?: string
}

function eventBytes(events: readonly NamedEvent[]): string {
  return events
    .map(event => `${event.type === undefined ? '' : `event: ${event.type}\n`}data: ${JSON.stringify(event)}\n\n`)
    .join('')
}

function anthropicMessage(answer: VendorAnswer): Anthropic.Message {
  const { thinking, text, cited = [], calls = [], limitReached, tokens } = answer
  const content: object[] = [
    ...(thinking ? [{ type: 'thinking', thinking: thinking.text, signature: thinking.seal }] : []),
    ...(text === undefined ? [] : [{ type: 'text', text, citations: null }]),
    ...cited.map(block => ({ type: 'text', ...block })),
    ...calls.map(({ id, name, args, toolset }) => ({
      ...{ type: 'tool_use', id, name, input: args, caller: { type: 'direct' } },
      ...(toolset !== undefined && { toolset_name: toolset }),
    })),
  ]
  return {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-upstream',
    content: content as unknown as Anthropic.ContentBlock[],
    stop_reason: limitReached ? 'max_tokens' : calls.length > 0 ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: {
      input_tokens: tokens?.input ?? 10,
      cache_read_input_tokens: tokens ? 0 : 20,
      cache_creation_input_tokens: 0,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      output_tokens: tokens?.output ?? 7,
      output_tokens_details: { thinking_tokens: tokens ? 0 : 3 },
    },
  } as unknown as Anthropic.Message
}

function anthropicEvents(answer: VendorAnswer): Anthropic.RawMessageStreamEvent[] {
  const message = anthropicMessage(answer)
  const events: unknown[] = [
    {
      type: 'message_start',
      message: { ...message, content: [], stop_reason: null, usage: { ...message.usage, output_tokens: 1 } },
    },
    { type: 'ping' },
  ]
  for (const [index, block] of message.content.entries()) {
    const delta = (change: object) => events.push({ type: 'content_block_delta', index, delta: change })
    const start = (empty: object) =>
      events.push({ type: 'content_block_start', index, content_block: { ...block, ...empty } })
    if (block.type === 'thinking') {
      start({ thinking: '', signature: '' })
      delta({ type: 'thinking_delta', thinking: block.thinking })
      delta({ type: 'signature_delta', signature: block.signature })
    } else if (block.type === 'text') {
      start({ text: '', ...(block.citations && { citations: [] }) })
      for (const word of words(block.text)) delta({ type: 'text_delta', text: word })
      for (const citation of block.citations ?? []) delta({ type: 'citations_delta', citation })
    } else if (block.type === 'tool_use') {
      start({ input: {} })
      const json = JSON.stringify(block.input)
      delta({ type: 'input_json_delta', partial_json: '' })
      delta({ type: 'input_json_delta', partial_json: json.slice(0, 4) })
      delta({ type: 'input_json_delta', partial_json: json.slice(4) })
    }
    events.push({ type: 'content_block_stop', index })
  }
  const { stop_reason, stop_sequence, usage } = message
  events.push({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage }, { type: 'message_stop' })
  return events as Anthropic.RawMessageStreamEvent[]
}

/** As DeepSeek answers: it has no seals, and wants the text of the reasoning back. */
function chatCompletion({
  thinking,
  text,
  annotations,
  calls = [],
  limitReached,
}: VendorAnswer): OpenAI.ChatCompletion {
  const message = {
    role: 'assistant',
    content: text ?? null,
    refusal: null,
    ...(thinking && { reasoning_content: thinking.text }),
    ...(annotations && {
      annotations: annotations.map(({ type, ...url_citation }) => ({ type, url_citation })),
    }),
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ id, name, args }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(args) },
      })),
    }),
  } as OpenAI.ChatCompletionMessage
  const finish_reason = limitReached ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop'
  return {
    id: 'chatcmpl-upstream',
    object: 'chat.completion',
    created: 1,
    model: 'chat-upstream',
    choices: [{ index: 0, message, finish_reason, logprobs: null }],
    usage: vendorUsage,
  }
}

function chatChunks(answer: VendorAnswer): OpenAI.ChatCompletionChunk[] {
  const { choices, usage, ...head } = chatCompletion(answer)
  const [{ message, finish_reason }] = choices as [OpenAI.ChatCompletion.Choice]
  const chunk = (delta: object, finish: string | null = null) =>
    ({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason: finish }],
      usage: null,
    }) as OpenAI.ChatCompletionChunk
  const calls = (message.tool_calls ?? []) as OpenAI.ChatCompletionMessageFunctionToolCall[]
  return [
    chunk({ role: 'assistant', content: '' }),
    ...words(answer.thinking?.text ?? '').map(word => chunk({ reasoning_content: word })),
    ...words(message.content ?? '').map(word => chunk({ content: word })),
    ...(message.annotations ?? []).map(annotation => chunk({ annotations: [annotation] })),
    ...calls.flatMap(({ id, type, function: { name, arguments: json } }, index) => [
      chunk({ tool_calls: [{ index, id, type, function: { name, arguments: '' } }] }),
      chunk({ tool_calls: [{ index, function: { arguments: json.slice(0, 4) } }] }),
      chunk({ tool_calls: [{ index, function: { arguments: json.slice(4) } }] }),
    ]),
    chunk({}, finish_reason),
    { ...chunk({}), choices: [], usage: usage! },
  ]
}

type GeminiChunk = Pick<GenerateContentResponse, 'candidates' | 'usageMetadata' | 'modelVersion' | 'responseId'>

function geminiChunk(parts: readonly object[], last: boolean, { limitReached, tokens }: VendorAnswer): GeminiChunk {
  const output = tokens
    ? { candidatesTokenCount: tokens.output, totalTokenCount: tokens.input + tokens.output }
    : { candidatesTokenCount: 4, thoughtsTokenCount: 3, totalTokenCount: 37 }
  return {
    candidates: [
      {
        content: { parts: parts as object[], role: 'model' },
        index: 0,
        ...(last && { finishReason: limitReached ? 'MAX_TOKENS' : 'STOP' }),
      },
    ],
    usageMetadata: {
      ...(tokens ? { promptTokenCount: tokens.input } : { promptTokenCount: 30, cachedContentTokenCount: 20 }),
      ...(last && output),
    },
    modelVersion: 'gemini-upstream',
    responseId: 'r_1',
  } as GeminiChunk
}

function geminiParts({ thinking, text, calls = [] }: VendorAnswer): object[] {
  return [
    ...(thinking ? [{ text: thinking.text, thought: true }] : []),
    ...(text === undefined ? [] : words(text).map(word => ({ text: word }))),
    ...calls.map(({ id, name, args }, index) => ({
      functionCall: { id, name, args },
      ...(index === 0 && thinking && { thoughtSignature: thinking.seal }),
    })),
  ]
}

function geminiEvents(answer: VendorAnswer): GeminiChunk[] {
  const parts = geminiParts(answer)
  return parts.map((part, index) => geminiChunk([part], index === parts.length - 1, answer))
}

function openaiResponse(answer: VendorAnswer): OpenAI.Responses.Response {
  const { thinking, text, annotations = [], calls = [], limitReached, tokens = { input: 30, output: 7 } } = answer
  const isStandard = answer.tokens === undefined
  const output: object[] = [
    ...(thinking
      ? [
          {
            type: 'reasoning',
            id: 'rs_1',
            summary: [{ type: 'summary_text', text: thinking.text }],
            encrypted_content: thinking.seal,
          },
        ]
      : []),
    ...(text === undefined
      ? []
      : [
          {
            type: 'message',
            id: 'msg_1',
            role: 'assistant',
            status: 'completed',
            content: [{ type: 'output_text', text, annotations, logprobs: [] }],
          },
        ]),
    ...calls.map(({ id, name, args }) => ({
      type: 'function_call',
      id: `fc_${id}`,
      call_id: id,
      name,
      arguments: JSON.stringify(args),
      status: 'completed',
    })),
  ]
  return {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    model: 'gpt-upstream',
    status: limitReached ? 'incomplete' : 'completed',
    incomplete_details: limitReached ? { reason: 'max_output_tokens' } : null,
    error: null,
    output,
    usage: {
      input_tokens: tokens.input,
      input_tokens_details: { cached_tokens: isStandard ? 20 : 0 },
      output_tokens: tokens.output,
      output_tokens_details: { reasoning_tokens: isStandard ? 3 : 0 },
      total_tokens: tokens.input + tokens.output,
    },
  } as unknown as OpenAI.Responses.Response
}

function openaiEvents(answer: VendorAnswer): OpenAI.Responses.ResponseStreamEvent[] {
  const response = openaiResponse(answer)
  const started = { ...response, status: 'in_progress', output: [], usage: null }
  const events: object[] = [
    { type: 'response.created', response: started },
    { type: 'response.in_progress', response: started },
  ]
  for (const [output_index, item] of response.output.entries()) {
    const at = { output_index, item_id: item.id }
    if (item.type === 'reasoning') {
      events.push({ type: 'response.output_item.added', output_index, item: { ...item, summary: [] } })
      events.push({
        type: 'response.reasoning_summary_part.added',
        ...at,
        summary_index: 0,
        part: { type: 'summary_text', text: '' },
      })
      events.push({
        type: 'response.reasoning_summary_text.delta',
        ...at,
        summary_index: 0,
        delta: item.summary[0]!.text,
      })
      events.push({
        type: 'response.reasoning_summary_text.done',
        ...at,
        summary_index: 0,
        text: item.summary[0]!.text,
      })
    } else if (item.type === 'message') {
      const [part] = item.content as [OpenAI.Responses.ResponseOutputText]
      events.push({
        type: 'response.output_item.added',
        output_index,
        item: { ...item, content: [], status: 'in_progress' },
      })
      events.push({
        type: 'response.content_part.added',
        ...at,
        content_index: 0,
        part: { ...part, text: '', annotations: [] },
      })
      for (const word of words(part.text)) {
        events.push({ type: 'response.output_text.delta', ...at, content_index: 0, delta: word, logprobs: [] })
      }
      for (const [annotation_index, annotation] of part.annotations.entries()) {
        const type = 'response.output_text.annotation.added'
        events.push({ type, ...at, content_index: 0, annotation_index, annotation })
      }
      events.push({ type: 'response.output_text.done', ...at, content_index: 0, text: part.text, logprobs: [] })
      events.push({ type: 'response.content_part.done', ...at, content_index: 0, part })
    } else if (item.type === 'function_call') {
      events.push({
        type: 'response.output_item.added',
        output_index,
        item: { ...item, arguments: '', status: 'in_progress' },
      })
      for (const delta of [item.arguments.slice(0, 4), item.arguments.slice(4)]) {
        events.push({ type: 'response.function_call_arguments.delta', ...at, delta })
      }
      events.push({ type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: item.arguments })
    }
    events.push({ type: 'response.output_item.done', output_index, item })
  }
  events.push({ type: `response.${response.status}`, response })
  return events.map((event, sequence_number) => ({
    ...event,
    sequence_number,
  })) as OpenAI.Responses.ResponseStreamEvent[]
}

function words(text: string): string[] {
  return text.split(/(?<= )/)
}

const wholeAnswers: Record<ScriptedDialect, (answer: VendorAnswer) => object> = {
  chat: chatCompletion,
  messages: anthropicMessage,
  gemini: answer => geminiChunk(geminiParts(answer), true, answer),
  responses: openaiResponse,
}

const streams: Record<ScriptedDialect, (answer: VendorAnswer) => readonly NamedEvent[]> = {
  chat: answer => chatChunks(answer) as readonly NamedEvent[],
  messages: anthropicEvents,
  gemini: answer => geminiEvents(answer) as readonly NamedEvent[],
  responses: openaiEvents,
}
