import type { ClientToolType, Seal, ToolKind } from './conversation.ts'

/** A JSON object with unchecked contents. */
type JsonObject = Readonly<Record<string, unknown>>

/**
 * One step of an answer, in the order in which the model writes. Parts follow one another: `tool_end` comes before the
 * next part starts. A `finish` comes once, then at most one `usage`, which is the last report.
 */
export type AnswerEvent =
  | { readonly kind: 'text'; readonly text: string }
  | CitedTextEvent
  /**
   * Supports a part of the text, as `url_citation` does. The fields are those of responses; positions count characters
   * of the whole text of the answer.
   */
  | { readonly kind: 'annotation'; readonly annotation: JsonObject }
  | { readonly kind: 'reasoning'; readonly text: string }
  /** Ends the reasoning before it. Without text before it, the reasoning is secret. */
  | { readonly kind: 'reasoning_seal'; readonly seal: Seal; readonly id?: string }
  | {
      readonly kind: 'tool_start'
      readonly id: string
      readonly name: string
      readonly namespace?: string
      readonly toolKind: ToolKind
      /** See Tool. Only on the way to a client. */
      readonly clientTool?: ClientToolType
      /** The toolset of Anthropic that the tool belongs to. */
      readonly toolset?: string
      readonly seal?: Seal
    }
  | { readonly kind: 'tool_arguments'; readonly text: string }
  | { readonly kind: 'tool_end' }
  | { readonly kind: 'refusal'; readonly text: string }
  | { readonly kind: 'finish'; readonly reason: AnswerFinish; readonly stopSequence?: string }
  | { readonly kind: 'usage'; readonly usage: UsageParts }

/** `refused`: by a content filter. `context_full`: the model's context ended before the limit. */
export type AnswerFinish = 'end' | 'stop_sequence' | 'limit' | 'tools' | 'refused' | 'context_full'

/** Tokens as disjoint parts: the input is the sum of the first four. Null: the upstream does not report it. */
export interface UsageParts {
  readonly freshTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** Written to a cache that lives longer than the default. */
  readonly cacheWriteLongTokens: number
  readonly outputTokens: number
  /** Inside `outputTokens`. */
  readonly reasoningTokens: number | null
  /** Inside `freshTokens`. Absent: none. */
  readonly inputAudioTokens?: number
  readonly inputImageTokens?: number
  /** Inside `outputTokens`. Absent: none. */
  readonly outputAudioTokens?: number
  readonly outputImageTokens?: number
  /** The tier of the answer, as the server names it, if it costs more than the standard one. For the log. */
  readonly upstreamTier?: string | undefined
}

/** Only in answers of Anthropic's models to requests that ask for citations. */
export type CitedTextEvent =
  /** Starts a block of text. What a citation supports is the text of its block. */
  | { readonly kind: 'text_start' }
  /** Supports the text of the open block. Anthropic's object, unchanged. */
  | { readonly kind: 'citation'; readonly citation: JsonObject }
