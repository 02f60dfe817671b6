import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { TextLength } from '../../base/domain/text-length.ts'
import { sliceText, tokenizer } from './tokenizer.ts'

/**
 * Counts the tokens of `text` in the o200k_base vocabulary, slice by slice.
 *
 * The result equals the unsliced count for text with a space at least every 512 characters, because slices end
 * before spaces and no token spans one. For longer unbroken runs it is less than 1% too high (at most one
 * token per slice). docs/decisions/2026-11-23-measuring-prompts.md compares other vocabularies.
 *
 * Blocks the calling thread for about 0.03 ms per 1,000 characters of prose or code, 0.5 ms of random letters, and
 * 1.3 ms of random CJK, the slowest text found. Pass `stopAbove` to count megabytes of untrusted text.
 *
 * @param stopAbove counting stops once the count exceeds this; the result is then some number above it.
 */
export function countTokens(text: string, stopAbove = Number.POSITIVE_INFINITY): number {
  const bpe = tokenizer()
  let count = 0
  const add = (_start: number, _end: number, _bytes: number, tokens: number) => {
    count += tokens
  }
  for (const slice of sliceText(text)) {
    bpe.count(slice, add)
    if (count > stopAbove) break
  }
  return count
}

/**
 * The longest text that is counted on the event loop, in UTF-16 units: 0.1 ms for prose, 5 ms for the slowest text
 * found.
 */
export const SHORT_TEXT_UNITS = 4_096

const SAMPLES = 32
const SAMPLE_UNITS = SHORT_TEXT_UNITS / SAMPLES

/**
 * Counts the tokens of an untrusted text at a bounded cost: at most 5 ms on the event loop. Exact up to
 * SHORT_TEXT_UNITS. In a longer text it counts one slice at a random place of each of 32 equal parts, and
 * extrapolates; for prose the error is about 5%. At fixed places a caller could put text that counts little.
 */
export function estimateTokens(text: string): number {
  if (text.length <= SHORT_TEXT_UNITS) return countTokens(text)
  const stride = text.length / SAMPLES
  let sampled = 0
  for (let part = 0; part < SAMPLES; part++) {
    const start = Math.floor(part * stride + Math.random() * (stride - SAMPLE_UNITS))
    sampled += countTokens(text.slice(start, start + SAMPLE_UNITS))
  }
  return Math.round((sampled / (SAMPLES * SAMPLE_UNITS)) * text.length)
}

const TOKENS_PER_MESSAGE = 3
/** The tokens that begin and end an input without messages, such as `[CLS]` and `[SEP]`. */
const TOKENS_PER_INPUT = 2

/**
 * Counts the tokens of the prompt: its text, a few for each message, and media at their flat bound. Never above
 * `inputTokensBound`. Long text that has not been measured is estimated.
 */
export function countPromptTokens(
  job: Pick<ChatJob, 'task' | 'promptText' | 'messageCount' | 'mediaTokensBound' | 'inputTokensBound'>,
  length: TextLength | undefined,
): number {
  const textTokens = length?.tokens ?? estimateTokens(job.promptText())
  const templateTokens =
    job.task === 'chat' ? (job.messageCount + 1) * TOKENS_PER_MESSAGE : job.messageCount * TOKENS_PER_INPUT
  const tokens = textTokens + templateTokens + job.mediaTokensBound
  return Math.min(tokens, job.inputTokensBound)
}
