import { createHash } from 'node:crypto'
import { type Candidate, type DemoLanguage, sampleToken } from '../src/wire/demo-model/demo-language.ts'
import { seededRandom } from '../src/wire/demo-model/seeded-random.ts'
import { answerQuestion } from './read-question.ts'

/** A model without weights. Two models differ in what they know and in how they write. */
export interface ModelTraits {
  /** The probability of a right answer to a small question. */
  readonly skill: number
  /** Flattens (above 1) or sharpens the distribution of each next word: the handwriting of the model. */
  readonly spread: number
}

export interface ModelRequest {
  readonly prompt: string
  readonly temperature: number
  readonly maxTokens: number
}

/** One generated token, with the most likely tokens at its place. */
export interface ModelToken {
  readonly text: string
  readonly logprob: number
  readonly top: readonly { readonly token: string; readonly logprob: number }[]
}

/** Yields the tokens of an answer. At temperature 0 the same prompt always gives the same answer. */
export function* generate(
  language: DemoLanguage,
  traits: ModelTraits,
  request: ModelRequest,
): Generator<ModelToken, void, undefined> {
  const seed = createHash('sha256').update(`${traits.skill} ${traits.spread} ${request.prompt}`).digest().readInt32LE()
  const random = request.temperature === 0 ? seededRandom(seed) : Math.random
  const known = answerQuestion(request.prompt)
  if (known !== undefined) {
    yield plain(random() < traits.skill ? known : wrongAnswer(known, random))
    return
  }
  const opening = language.openings[Math.floor(seededRandom(seed)() * language.openings.length)] ?? []
  const written: number[] = [language.fullStop]
  for (let count = 0; count < request.maxTokens; count++) {
    const candidates = spreadOut(language.after(written), traits.spread)
    const forced = candidates.find(({ token }) => token === opening[count])
    if (forced !== undefined) {
      // A model is certain of how it begins, so that servers with the same model begin alike.
      written.push(forced.token)
      yield plain(language.textOf(forced.token))
      continue
    }
    const chosen = sampleToken(candidates, { temperature: request.temperature, topP: 1 }, random)
    written.push(chosen.token)
    yield {
      text: language.textOf(chosen.token),
      logprob: Math.log(chosen.probability),
      top: candidates.slice(0, 5).map(each => ({
        token: language.textOf(each.token),
        logprob: Math.log(each.probability),
      })),
    }
    if (count > request.maxTokens * 0.6 && chosen.token === language.fullStop) return
  }
}

function plain(text: string): ModelToken {
  return { text, logprob: -0.01, top: [{ token: text, logprob: -0.01 }] }
}

function wrongAnswer(right: string, random: () => number): string {
  return /^\d+$/.test(right) ? `${Number(right) + 1 + Math.floor(random() * 9)}` : 'I am not sure.'
}

function spreadOut(candidates: readonly Candidate[], spread: number): readonly Candidate[] {
  const weights = candidates.map(({ probability }) => probability ** (1 / spread))
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return candidates.map(({ token }, at) => ({ token, probability: weights[at]! / sum }))
}
