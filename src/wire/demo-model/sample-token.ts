import { elementAt } from '../../base/runtime/collections.ts'
import type { Candidate } from './ngram-model.ts'

export interface Sampling {
  /** 0..2. 0 always takes the most probable candidate; values above 1 flatten the distribution. */
  readonly temperature: number
  /** 0..1. Only the most probable candidates that together reach this probability are considered. */
  readonly topP: number
}

/**
 * Chooses the next token. `candidates` must not be empty and must be sorted, most probable first.
 * @param random returns numbers in [0, 1); called once, or never at temperature 0
 */
export function sampleToken(candidates: readonly Candidate[], sampling: Sampling, random: () => number): Candidate {
  const likeliest = elementAt(candidates, 0)
  if (sampling.temperature === 0) return likeliest
  const nucleus = takeNucleus(candidates, sampling.topP)
  // Weights are relative to the most probable candidate, so that a low temperature cannot underflow all of
  // them to zero.
  const weights = nucleus.map(({ probability }) => (probability / likeliest.probability) ** (1 / sampling.temperature))
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0)
  for (const [index, weight] of weights.entries()) {
    rest -= weight
    if (rest < 0) return elementAt(nucleus, index)
  }
  return elementAt(nucleus, nucleus.length - 1)
}

function takeNucleus(candidates: readonly Candidate[], topP: number): readonly Candidate[] {
  if (topP >= 1) return candidates
  let reached = 0
  const size = candidates.findIndex(({ probability }) => {
    reached += probability
    return reached >= topP
  })
  return size === -1 ? candidates : candidates.slice(0, size + 1)
}
