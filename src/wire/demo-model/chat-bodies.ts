import type {
  ChatChunk,
  ChatCompletion,
  ChunkChoice,
  CompletionChoice,
  FinishReason,
  TokenUsage,
} from '../../base/domain/completion.ts'
import type { DemoLanguage, Piece } from './demo-language.ts'
import type { Reply } from './plan-reply.ts'

/** The fields that every chunk of one answer repeats. */
export interface AnswerHead {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

export const systemFingerprint = 'switchyard-demo'

/** @param usage null if usage was requested but follows later, undefined if it was not requested */
export function chunkBody(head: AnswerHead, choices: ChunkChoice[], usage: TokenUsage | null | undefined): ChatChunk {
  const chunk = {
    id: head.id,
    object: 'chat.completion.chunk' as const,
    created: head.created,
    model: head.model,
    system_fingerprint: systemFingerprint,
    choices,
  }
  return usage === undefined ? chunk : { ...chunk, usage }
}

export function firstDelta(reply: Reply): ChunkChoice {
  const { toolCall, index } = reply
  if (toolCall === null) return { index, delta: { role: 'assistant', content: '' }, finish_reason: null }
  const call = { index: 0, id: toolCall.id, type: 'function', function: { name: toolCall.name, arguments: '' } }
  return { index, delta: { role: 'assistant', content: null, tool_calls: [call] }, finish_reason: null }
}

export function pieceDelta(reply: Reply, piece: Piece, logprobs: LogprobRow | null): ChunkChoice {
  const { index, toolCall } = reply
  const delta =
    toolCall === null ? { content: piece.text } : { tool_calls: [{ index: 0, function: { arguments: piece.text } }] }
  return {
    index,
    delta,
    ...(logprobs ? { logprobs: { content: [logprobs], refusal: null } } : {}),
    finish_reason: null,
  }
}

export function lastDelta(reply: Reply, finish: FinishReason): ChunkChoice {
  return { index: reply.index, delta: {}, finish_reason: finish }
}

/** Turns a chunk or a completion into the object of text completions. */
export function asTextBody({ choices, ...head }: ChatChunk | ChatCompletion): object {
  const texts = (choices as readonly (ChunkChoice | CompletionChoice)[]).map(choice => {
    const { message, delta } = choice as Partial<Pick<CompletionChoice, 'message'> & Pick<ChunkChoice, 'delta'>>
    const { index, finish_reason } = choice
    return { index, text: (message ?? delta)?.content ?? '', logprobs: null, finish_reason }
  })
  return { ...head, object: 'text_completion', choices: texts }
}

/** A choice that has been generated completely. */
export interface FinishedReply {
  readonly reply: Reply
  readonly text: string
  readonly finish: FinishReason
  readonly logprobs: readonly LogprobRow[] | null
}

export function completionBody(
  head: AnswerHead,
  finished: readonly FinishedReply[],
  usage: TokenUsage,
): ChatCompletion {
  return {
    id: head.id,
    object: 'chat.completion',
    created: head.created,
    model: head.model,
    system_fingerprint: systemFingerprint,
    choices: finished.map(({ reply, text, finish, logprobs }) => ({
      index: reply.index,
      message:
        reply.toolCall === null
          ? { role: 'assistant' as const, content: text, refusal: null }
          : {
              role: 'assistant' as const,
              content: null,
              refusal: null,
              tool_calls: [
                { id: reply.toolCall.id, type: 'function', function: { name: reply.toolCall.name, arguments: text } },
              ],
            },
      logprobs: logprobs && reply.toolCall === null ? { content: logprobs, refusal: null } : null,
      finish_reason: finish,
    })),
    usage,
  }
}

export function usageBody(promptTokens: number, replies: readonly Reply[]): TokenUsage {
  const completionTokens = replies.reduce((sum, reply) => sum + reply.tokens(), 0)
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  }
}

interface Logprob {
  readonly token: string
  /** Natural logarithm of the model's own probability, before temperature. */
  readonly logprob: number
  readonly bytes: readonly number[]
}

export interface LogprobRow extends Logprob {
  readonly top_logprobs: readonly Logprob[]
}

/** @param top how many of the most likely tokens to list next to the chosen one */
export function logprobRow(language: DemoLanguage, piece: Piece, top: number): LogprobRow {
  const chosen = logprob(piece.text, piece.probability)
  const listed =
    piece.candidates.length === 0
      ? [chosen].slice(0, top)
      : piece.candidates
          .slice(0, top)
          .map(candidate => logprob(language.textOf(candidate.token), candidate.probability))
  return { ...chosen, top_logprobs: listed }
}

function logprob(token: string, probability: number): Logprob {
  // OpenAI's value for "practically never". JSON has no minus infinity.
  return { token, logprob: probability > 0 ? Math.log(probability) : -9999, bytes: [...Buffer.from(token)] }
}
