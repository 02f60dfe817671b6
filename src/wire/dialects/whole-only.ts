import type { TokenUsage } from '../../base/domain/completion.ts'
import type { AnswerFormat, StreamFormat } from './client-dialect.ts'

/** The format of answers without generated text. They arrive encoded, in a JSON object without usage. */
export const dataAnswer: AnswerFormat = {
  encode() {
    throw new Error('a task without generated text was answered with a completion')
  },
  withUsage: (text, usage) => `${text.slice(0, -1)},"usage":${JSON.stringify(inputUsage(usage))}}`,
}

function inputUsage({ prompt_tokens, total_tokens, cost_usd }: TokenUsage) {
  return { prompt_tokens, total_tokens, cost_usd }
}

/** The answers of these tasks, and compacted conversations, are never streamed. */
export const noStream: StreamFormat = {
  ping: '',
  encoder: neverStreamed,
  isComplete: () => false,
}

function neverStreamed(): never {
  throw new Error('an answer that is always whole was streamed')
}
