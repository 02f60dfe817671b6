/** The likeliest tokens at one position, as an OpenAI-compatible server reports them. */
export interface TopTokens {
  readonly tokens: readonly { readonly token: string; readonly logprob: number }[]
}

/**
 * Returns the distance of two answers to the same prompt, 0..1: the mean over positions of the total variation between the
 * distributions of the next token, up to and with the first position at which the likeliest tokens differ. From there on, the
 * answers have different prefixes. Probability outside the lists counts as one more token. Null without positions.
 */
export function distributionDistance(a: readonly TopTokens[], b: readonly TopTokens[]): number | null {
  let sum = 0
  let positions = 0
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    sum += totalVariation(a[at]!, b[at]!)
    positions++
    if (likeliest(a[at]!) !== likeliest(b[at]!)) break
  }
  return positions === 0 ? null : sum / positions
}

function likeliest({ tokens }: TopTokens): string | undefined {
  return tokens.reduce<TopTokens['tokens'][number] | undefined>(
    (best, entry) => (best === undefined || entry.logprob > best.logprob ? entry : best),
    undefined,
  )?.token
}

function totalVariation(a: TopTokens, b: TopTokens): number {
  const probabilities = new Map<string, [number, number]>()
  const add = ({ tokens }: TopTokens, side: 0 | 1) => {
    for (const { token, logprob } of tokens) {
      const pair = probabilities.get(token) ?? [0, 0]
      pair[side] += Math.min(1, Math.exp(logprob))
      probabilities.set(token, pair)
    }
  }
  add(a, 0)
  add(b, 1)
  let difference = 0
  let [restA, restB] = [1, 1]
  for (const [inA, inB] of probabilities.values()) {
    difference += Math.abs(inA - inB)
    restA -= inA
    restB -= inB
  }
  return Math.min(1, (difference + Math.abs(Math.max(0, restA) - Math.max(0, restB))) / 2)
}

/** Returns the distance of two texts, 0..1: one minus the cosine of their counts of n-grams of 1 to 4 characters. */
export function textDistance(a: string, b: string): number {
  return Math.max(0, 1 - similarity(gramsOf(a), gramsOf(b)))
}

const GRAM_LENGTH_MAX = 4

/** The counts of the n-grams of a text, scaled to length 1. */
type Grams = ReadonlyMap<string, number>

function gramsOf(text: string): Grams {
  const counts = new Map<string, number>()
  const units = text.trim().toLowerCase()
  for (let length = 1; length <= GRAM_LENGTH_MAX; length++)
    for (let at = 0; at + length <= units.length; at++) {
      const gram = units.slice(at, at + length)
      counts.set(gram, (counts.get(gram) ?? 0) + 1)
    }
  let squares = 0
  for (const count of counts.values()) squares += count * count
  const norm = Math.sqrt(squares) || 1
  for (const [gram, count] of counts) counts.set(gram, count / norm)
  return counts
}

function similarity(a: Grams, b: Grams): number {
  if (a.size === 0 || b.size === 0) return a.size === b.size ? 1 : 0
  let product = 0
  for (const [gram, weight] of a) product += weight * (b.get(gram) ?? 0)
  return product
}

/**
 * Tests whether two sets of completions of one prompt come from one model: the maximum mean discrepancy with a kernel over
 * n-grams of the texts (Gao et al., 2024, "Model equality testing"), and a permutation test. Returns the p-value, exact
 * for any distribution of texts.
 *
 * @param random uniform in [0, 1)
 */
export function sameModelPValue(a: readonly string[], b: readonly string[], random: () => number): number {
  const grams = [...a, ...b].map(gramsOf)
  const kernel = grams.map(x => grams.map(y => similarity(x, y)))
  const order = grams.map((_, at) => at)
  const observed = discrepancy(kernel, order, a.length)
  let asLarge = 1
  for (let run = 0; run < PERMUTATIONS; run++) {
    shuffle(order, random)
    if (discrepancy(kernel, order, a.length) >= observed - 1e-12) asLarge++
  }
  return asLarge / (PERMUTATIONS + 1)
}

const PERMUTATIONS = 999

/** The biased estimate of the squared discrepancy between the first `split` items of `order` and the rest. */
function discrepancy(kernel: readonly (readonly number[])[], order: readonly number[], split: number): number {
  const rest = order.length - split
  let sum = 0
  for (let i = 0; i < order.length; i++)
    for (let j = 0; j < order.length; j++) {
      const weight = (i < split ? 1 / split : -1 / rest) * (j < split ? 1 / split : -1 / rest)
      sum += weight * kernel[order[i]!]![order[j]!]!
    }
  return sum
}

function shuffle(items: number[], random: () => number): void {
  for (let at = items.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1))
    ;[items[at], items[other]] = [items[other]!, items[at]!]
  }
}
