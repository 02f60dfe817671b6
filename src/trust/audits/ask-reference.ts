import type { Offer } from '../../domain/offer.ts'
import { referenceAnswersFor } from '../compare-answer.ts'
import type { AskedAnswer, AskOffer } from './ask-offer.ts'
import { hasPlainChoice, isTelling, likeliestBody } from './shadow.ts'

/**
 * Asks a reference what a hoster was asked, as often as `compareAnswer` needs: once at temperature 0 with log probabilities if it has them,
 * else in the same way. Null: it did not answer, or its answers would tell nothing.
 */
export async function askReferenceLike(
  ask: AskOffer,
  reference: Offer,
  body: Readonly<Record<string, unknown>>,
): Promise<readonly AskedAnswer[] | null> {
  const { stream: _stream, logprobs: _logprobs, top_logprobs: _top, ...plain } = body
  const temperature = typeof body.temperature === 'number' ? body.temperature : undefined
  const detailed = hasPlainChoice(body) ? await ask(reference, likeliestBody(plain)) : null
  if (detailed !== null && (temperature === 0 || detailed.topTokens.length > 0)) return [detailed]
  if (!isTelling({ forward: body }, temperature)) return null
  const answers: AskedAnswer[] = []
  while (answers.length < referenceAnswersFor(temperature)) {
    const answer = await ask(reference, plain)
    if (answer === null) return null
    answers.push(answer)
  }
  return answers
}
