import type { Offer } from '../../domain/offer.ts'
import { referenceAnswersFor } from '../compare-answer.ts'
import type { AskedAnswer, AskOffer } from './ask-offer.ts'
import { hasPlainChoice } from './shadow.ts'

/** OpenAI and vLLM list at most so many tokens at each position. */
const TOP_LOGPROBS = 20

/**
 * Asks a reference what a hoster was asked, as often as `compareAnswer` needs: once at temperature 0 with log probabilities if it has them,
 * else in the same way. Null: it did not answer.
 */
export async function askReferenceLike(
  ask: AskOffer,
  reference: Offer,
  body: Readonly<Record<string, unknown>>,
): Promise<readonly AskedAnswer[] | null> {
  const { stream: _stream, logprobs: _logprobs, top_logprobs: _top, ...plain } = body
  const temperature = typeof body.temperature === 'number' ? body.temperature : undefined
  const detailed = hasPlainChoice(body)
    ? await ask(reference, { ...plain, temperature: 0, logprobs: true, top_logprobs: TOP_LOGPROBS })
    : null
  if (detailed !== null && (temperature === 0 || detailed.topTokens.length > 0)) return [detailed]
  const answers: AskedAnswer[] = []
  while (answers.length < referenceAnswersFor(temperature)) {
    const answer = await ask(reference, plain)
    if (answer === null) return null
    answers.push(answer)
  }
  return answers
}
