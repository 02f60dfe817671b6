/** The likeliest tokens at one position, as an OpenAI-compatible server reports them. */
export interface TopTokens {
  readonly tokens: readonly { readonly token: string; readonly logprob: number }[]
}

/** How far apart the answers of two servers to the same prompts are, each 0..1. */
export interface AnswerDistance {
  /** Over all prompts: shows a server that always answers with another model. */
  readonly overall: number
  /** The distance of the prompt that differs most. It shows a server that only sometimes answers with another model. */
  readonly worst: number
}

/**
 * Returns the distance of two servers by the distributions of the next token: the mean over positions of the total
 * variation, in each answer up to and with the first position at which the likeliest tokens differ. From there on, the
 * answers have different prefixes. Probability outside the lists counts as one more token. Null without positions.
 */
export function distributionDistance(
  a: readonly (readonly TopTokens[])[],
  b: readonly (readonly TopTokens[])[],
): AnswerDistance | null {
  return distanceOver(a, (ofA, prompt) => {
    const ofB = b[prompt] ?? []
    let sum = 0
    let positions = 0
    for (const [at, atA] of ofA.entries()) {
      const atB = ofB[at]
      if (atB === undefined) break
      sum += totalVariation(atA, atB)
      positions++
      if (likeliest(atA) !== likeliest(atB)) break
    }
    return { sum, positions }
  })
}

/** The answer of a server to one prompt of a panel. */
export interface ComparedAnswer {
  readonly text: string
  readonly topTokens: readonly TopTokens[]
}

/**
 * Returns the distance of two servers by the distributions of the next token, or by the texts. Null without positions.
 */
export function answerDistance(
  a: readonly ComparedAnswer[],
  b: readonly ComparedAnswer[],
  by: 'distributions' | 'texts',
): AnswerDistance | null {
  const topTokens = (answers: readonly ComparedAnswer[]) => answers.map(answer => answer.topTokens)
  const texts = (answers: readonly ComparedAnswer[]) => answers.map(({ text }) => text)
  return by === 'distributions' ? distributionDistance(topTokens(a), topTokens(b)) : divergenceRate(texts(a), texts(b))
}

/** @param compare returns the sum of the distances in two answers to one prompt, and of how many positions */
function distanceOver<Answer>(
  answers: readonly Answer[],
  compare: (answer: Answer, prompt: number) => { readonly sum: number; readonly positions: number },
): AnswerDistance | null {
  const each = answers.map(compare).filter(({ positions }) => positions > 0)
  if (each.length === 0) return null
  const total = (of: 'sum' | 'positions') => each.reduce((sum, one) => sum + one[of], 0)
  return {
    overall: total('sum') / total('positions'),
    worst: Math.max(...each.map(({ sum, positions }) => sum / positions)),
  }
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

/**
 * Returns the distance of two servers by the texts of their answers at temperature 0: how often the next word differs
 * while all words before are the same. Two runs of one model part ways after many words, since hardware and batching
 * decide near ties; another model does after a few. Null without words.
 */
export function divergenceRate(a: readonly string[], b: readonly string[]): AnswerDistance | null {
  return distanceOver(a, (ofA, prompt) => {
    const [wordsA, wordsB] = [wordsOf(ofA), wordsOf(b[prompt] ?? '')]
    const shared = sharedWords(wordsA, wordsB)
    // At the end of the shorter answer nothing is known about the next word.
    const parted = shared < Math.min(wordsA.length, wordsB.length) ? 1 : 0
    return { sum: parted, positions: shared + parted }
  })
}

function wordsOf(text: string): string[] {
  return text.trim().split(/\s+/).filter(Boolean)
}

function sharedWords(a: readonly string[], b: readonly string[]): number {
  let at = 0
  while (at < Math.min(a.length, b.length) && a[at] === b[at]) at++
  return at
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

/** Returns how much alike two texts are, 0..1: the cosine of their n-grams. */
export function textSimilarity(a: string, b: string): number {
  return similarity(gramsOf(a), gramsOf(b))
}

function similarity(a: Grams, b: Grams): number {
  if (a.size === 0 || b.size === 0) return a.size === b.size ? 1 : 0
  let product = 0
  for (const [gram, weight] of a) product += weight * (b.get(gram) ?? 0)
  return product
}
