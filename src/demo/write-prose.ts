import type { DemoLanguage, Piece } from './demo-language.ts'
import type { Candidate } from './ngram-model.ts'
import { type Sampling, sampleToken } from './sample-token.ts'

/**
 * Writes sentences until 40 to 100 tokens are reached and a sentence ends, at most 160 tokens.
 * The first piece starts with a space. The text depends on the sampling and on the numbers `random` gives, on nothing else.
 */
export function* writeProse(
  language: DemoLanguage,
  sampling: Sampling,
  random: () => number,
): Generator<Piece, void, undefined> {
  const enough = 40 + Math.floor(random() * 60)
  // The opening comes from the random numbers even at temperature 0: otherwise every answer would be the same sentence.
  const opening = language.openings[Math.floor(random() * language.openings.length)]!
  const written: number[] = [language.fullStop]
  const said = new Set<string>()
  for (let count = 0; count < longestAnswer - 1; count += 1) {
    const candidates = language.model.after(written)
    const forced = opening[count]
    const lately = written.slice(-5).join(' ')
    const chosen =
      forced === undefined
        ? sampleToken(withoutLoops(candidates, lately, said), sampling, random)
        : candidates.find(candidate => candidate.token === forced)!
    said.add(`${lately} ${chosen.token}`)
    written.push(chosen.token)
    yield { ...chosen, text: language.textOf(chosen.token), candidates }
    if (written.length > enough && language.endsSentence(chosen.token)) return
  }
  const candidates = language.model.after(written)
  const probability = candidates.find(candidate => candidate.token === language.fullStop)?.probability ?? 0
  yield { token: language.fullStop, text: language.textOf(language.fullStop), probability, candidates }
}

const longestAnswer = 160

/** Six tokens in a row are not said twice if anything else can follow: the likeliest path of a small model is a circle. */
function withoutLoops(
  candidates: readonly Candidate[],
  lately: string,
  said: ReadonlySet<string>,
): readonly Candidate[] {
  const fresh = candidates.filter(({ token }) => !said.has(`${lately} ${token}`))
  return fresh.length === 0 ? candidates : fresh
}
