import type { AnswerFinish } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'

/** Filters ended the answer. */
const refusals: ReadonlySet<unknown> = new Set([
  ...['SAFETY', 'RECITATION', 'LANGUAGE', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII'],
  ...['IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'MODEL_ARMOR'],
])
/** The model or the server made a mistake: another try may succeed. */
const FAULT = /^(MALFORMED|UNEXPECTED|TOO_MANY|MISSING)_/

/**
 * Reads a `finishReason`. Throws UpstreamFailure for calls and answers that the server could not read itself.
 *
 * @param hasCalls the answer has a function call
 */
export function readGeminiFinish(reason: string, hasCalls: boolean): AnswerFinish {
  if (FAULT.test(reason)) {
    throw new UpstreamFailure('malformed', `The answer ended with ${reason.slice(0, 64)}.`)
  }
  if (reason === 'MAX_TOKENS') return 'limit'
  if (refusals.has(reason)) return 'refused'
  return hasCalls ? 'tools' : 'end'
}

/** Returns the `finishReason` that a finish means in this dialect. */
export function geminiFinish(finish: AnswerFinish): string {
  if (finish === 'limit' || finish === 'context_full') return 'MAX_TOKENS'
  return finish === 'refused' ? 'SAFETY' : 'STOP'
}
