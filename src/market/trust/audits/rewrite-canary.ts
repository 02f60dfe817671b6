import type { Offer } from '../../../base/domain/offer.ts'
import type { OwnCanary } from '../../../base/domain/own-canary.ts'
import { type Canary, isCanaryAnswered } from '../canary.ts'
import type { AskOffer } from './ask-offer.ts'
import { cleanText, sharesWords } from './grow-prompt.ts'

const INSTRUCTION =
  'Put the following request into quite other words: another beginning, another order, other words for all that can be said ' +
  'differently. What is asked for, and so the right answer, stays the same. Do not answer it. Answer with nothing but the new request.'

/** A rewritten prompt may have fewer words in a row of the written one than this. */
const SAME_WORDS = 5
const LENGTH_MAX = 12_000

/**
 * Lets a reference put a prompt of the operator into other words, with its instructions, as one message. A hoster that has learned the
 * prompt does not recognise it. Null: the reference did not, or it gave the answer away.
 */
export async function rewriteCanary(
  { prompt, system, answers, maxTokens }: OwnCanary,
  ask: AskOffer,
  reference: Offer,
): Promise<Pick<Canary, 'messages' | 'answers' | 'maxTokens'> | null> {
  const written = system === undefined ? prompt : `${prompt}\n\n${system}`
  const messages = [{ role: 'user', content: `${INSTRUCTION}\n\n${written}` }]
  const answer = await ask(reference, { messages, temperature: 1, max_tokens: 1_500 })
  const content = answer === null ? '' : cleanText(answer.text)
  if (content === '' || content.length > LENGTH_MAX || isTooClose(content, prompt)) return null
  if (sharesWords(content, INSTRUCTION, SAME_WORDS)) return null
  if (isCanaryAnswered({ answers }, content) && !isCanaryAnswered({ answers }, prompt)) return null
  return { messages: [{ role: 'user', content }], answers, maxTokens }
}

/** Also a prompt of few words must not come back. */
function isTooClose(content: string, prompt: string): boolean {
  const words = prompt.match(/[\p{L}\p{N}]+/gu)?.length ?? 0
  return sharesWords(content, prompt, Math.max(1, Math.min(SAME_WORDS, words)))
}
