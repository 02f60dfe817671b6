import { drawOne } from '../../base/runtime/collections.ts'
import type { DemoLanguage, Piece } from './demo-language.ts'
import type { Candidate } from './ngram-model.ts'
import { type Sampling, sampleToken } from './sample-token.ts'

/**
 * Writes sentences until it reaches 40 to 100 tokens and a sentence ends, with at most 160 tokens. The first
 * piece starts with a space. The text depends only on the sampling and on the numbers that `random` returns.
 */
export function* writeProse(
  language: DemoLanguage,
  sampling: Sampling,
  random: () => number,
): Generator<Piece, void, undefined> {
  const tokensMin = 40 + Math.floor(random() * 60)
  // Choose the opening at random even at temperature 0; otherwise every answer would be the same sentence.
  const opening = drawOne(language.openings, random)
  const written: number[] = [language.fullStop]
  const used = new Set<string>()
  for (let count = 0; count < TOKENS_MAX - 1; count += 1) {
    const candidates = language.model.after(written)
    const forced = opening[count]
    const recent = written.slice(-5).join(' ')
    const chosen =
      forced === undefined
        ? sampleToken(withoutLoops(candidates, recent, used), sampling, random)
        : candidates.find(candidate => candidate.token === forced)!
    used.add(`${recent} ${chosen.token}`)
    written.push(chosen.token)
    yield { ...chosen, text: language.textOf(chosen.token), candidates }
    if (written.length > tokensMin && language.endsSentence(chosen.token)) return
  }
  const candidates = language.model.after(written)
  const probability = candidates.find(candidate => candidate.token === language.fullStop)?.probability ?? 0
  yield { token: language.fullStop, text: language.textOf(language.fullStop), probability, candidates }
}

const TOKENS_MAX = 160

/**
 * Drops tokens that would repeat six tokens in a row, if others can follow. The most likely path of a small
 * model is a loop.
 */
function withoutLoops(
  candidates: readonly Candidate[],
  recent: string,
  used: ReadonlySet<string>,
): readonly Candidate[] {
  const unused = candidates.filter(({ token }) => !used.has(`${recent} ${token}`))
  return unused.length === 0 ? candidates : unused
}
