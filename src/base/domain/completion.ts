import type { AnswerEvent, CitedTextEvent } from './answer-event.ts'

/**
 * The key of a delta or message for the events of text with citations, in order. The text of a message is in its
 * `content` too. A symbol, because servers must not be able to set it, and clients of chat do not get it.
 */
export const citedText = Symbol('cited text')

type CitedText = Extract<AnswerEvent, { kind: 'text' }> | CitedTextEvent

/** A normalised answer in the OpenAI chat dialect. Harmless unknown fields of upstreams are kept. */
export interface ChatCompletion {
  id: string
  object: 'chat.completion'
  created: number
  model: string
  choices: CompletionChoice[]
  usage?: TokenUsage
  [extra: string]: unknown
}

export interface CompletionChoice {
  index: number
  message: {
    role: 'assistant'
    content: string | null
    [citedText]?: readonly CitedText[]
    [extra: string]: unknown
  }
  finish_reason: FinishReason
  [extra: string]: unknown
}

export interface ChatChunk {
  id: string
  object: 'chat.completion.chunk'
  created: number
  model: string
  choices: ChunkChoice[]
  usage?: TokenUsage | null
  [extra: string]: unknown
}

export interface ChunkChoice {
  index: number
  delta: ChunkDelta
  finish_reason: FinishReason | null
  [extra: string]: unknown
}

export interface ChunkDelta {
  role?: 'assistant'
  content?: string | null
  tool_calls?: ToolCallDelta[]
  [citedText]?: readonly CitedText[]
  [extra: string]: unknown
}

export interface ToolCallDelta {
  index: number
  id?: string
  type?: string
  function?: { name?: string; arguments?: string }
  [extra: string]: unknown
}

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call'

/** prompt_tokens includes cached_tokens, and completion_tokens includes reasoning_tokens: never add them. */
export interface TokenUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  /** See `UsageParts`. Never sent to the client. */
  upstreamTier?: string | undefined
  /** The model that the answer names, if it is not the one that the customer knows. Never sent to the client. */
  answeredModel?: string | undefined
  [detail: string]: unknown
}

/** The fields that are the same in every object of one answer. None of them comes from the upstream. */
export interface Envelope {
  readonly id: string
  /** Unix time in seconds. */
  readonly created: number
  /** The model id that the customer knows. */
  readonly model: string
}
