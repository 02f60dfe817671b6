/** One possible next token. */
export interface Candidate {
  readonly token: number
  /** 0..1; the candidates of one context sum to 1. */
  readonly probability: number
}

/** Predicts the next token from the previous two, with probabilities learned by counting. */
export interface NgramModel {
  /** Returns every possible next token, most probable first. Only the last two tokens of `before` matter. */
  after(before: readonly number[]): readonly Candidate[]
}

/**
 * Trains an order-3 model on one token sequence. The sequence is a ring, so that every token has a successor.
 *
 * A context of two tokens gives up `discount` of each distinct continuation to the context of one token
 * (absolute discounting). In a corpus of a few thousand tokens most pairs occur once, so without this share
 * the model could only recite. A context of one token backs off to plain frequencies only if the token is
 * unknown, because ignoring the previous word does not make a sentence. Unknown contexts never fail.
 */
export function trainNgram(sequence: readonly number[], discount = 0.15): NgramModel {
  if (sequence.length < 3) throw new RangeError('An n-gram model needs at least three tokens.')
  const allCounts: Counts = new Map()
  const afterOne = new Map<number, Counts>()
  const afterTwo = new Map<string, Counts>()
  for (let at = 0; at < sequence.length; at += 1) {
    const first = sequence.at(at - 2)!
    const second = sequence.at(at - 1)!
    const token = sequence[at]!
    increment(allCounts, token)
    increment(getOrAddCounts(afterOne, second), token)
    increment(getOrAddCounts(afterTwo, pairKey(first, second)), token)
  }
  const frequencies = ranked(shares(allCounts))
  const sharesAfterOne = new Map([...afterOne].map(([token, counts]) => [token, shares(counts)]))
  const rankedAfterOne = new Map([...sharesAfterOne].map(([token, probabilities]) => [token, ranked(probabilities)]))
  const rankedAfterTwo = new Map<string, readonly Candidate[]>()

  return {
    after(before) {
      const last = before.at(-1)
      const lastShares = last === undefined ? undefined : sharesAfterOne.get(last)
      if (last === undefined || lastShares === undefined) return frequencies
      const key = pairKey(before.at(-2), last)
      const counts = afterTwo.get(key)
      if (counts === undefined) return rankedAfterOne.get(last)!
      let candidates = rankedAfterTwo.get(key)
      if (candidates === undefined) {
        candidates = ranked(discounted(counts, lastShares, discount))
        rankedAfterTwo.set(key, candidates)
      }
      return candidates
    },
  }
}

type Counts = Map<number, number>

function pairKey(first: number | undefined, second: number): string {
  return `${first} ${second}`
}

function getOrAddCounts<K>(table: Map<K, Counts>, key: K): Counts {
  let counts = table.get(key)
  if (counts === undefined) {
    counts = new Map()
    table.set(key, counts)
  }
  return counts
}

function increment(counts: Counts, token: number): void {
  counts.set(token, (counts.get(token) ?? 0) + 1)
}

function shares(counts: Counts): Map<number, number> {
  const total = sum(counts)
  return new Map([...counts].map(([token, count]) => [token, count / total]))
}

function discounted(counts: Counts, lower: ReadonlyMap<number, number>, discount: number): Map<number, number> {
  const total = sum(counts)
  const backoffShare = (discount * counts.size) / total
  // A token that followed the pair also followed the last token of the pair, so `lower` covers every
  // candidate.
  return new Map(
    [...lower].map(([token, probability]) => {
      const count = counts.get(token)
      return [token, (count === undefined ? 0 : (count - discount) / total) + backoffShare * probability]
    }),
  )
}

function sum(counts: Counts): number {
  let total = 0
  for (const count of counts.values()) total += count
  return total
}

/** Sorts by probability. Breaks ties by token id, so that the same corpus always gives the same order. */
function ranked(probabilities: ReadonlyMap<number, number>): Candidate[] {
  return [...probabilities]
    .map(([token, probability]) => ({ token, probability }))
    .sort((a, b) => b.probability - a.probability || a.token - b.token)
}
