import { readFileSync } from 'node:fs'
import { sliceText, tokenizer } from '../tokens/tokenizer.ts'

/** One possible next token. */
export interface Candidate {
  readonly token: number
  /** 0..1; the candidates after one text sum to 1. */
  readonly probability: number
}

/** One generated token. Its text is empty if the token holds only the first bytes of a character. */
export interface Piece {
  readonly token: number
  readonly text: string
  /** 0..1, as the model predicts it, before temperature; 1 for fixed text (label, tool result, JSON). */
  readonly probability: number
  /** The tokens the model could have chosen, most likely first; empty for fixed text. */
  readonly candidates: readonly Candidate[]
}

/** The o200k_base vocabulary and an n-gram model over it, trained on corpus.txt. */
export interface DemoLanguage {
  /** Returns every possible next token, most probable first. Only the last two tokens of `written` matter. */
  after(written: readonly number[]): readonly Candidate[]
  /** The first two tokens of every sentence of the corpus. */
  readonly openings: readonly (readonly number[])[]
  /** The token that ends a sentence. */
  readonly fullStop: number
  /** Text of a token of the corpus. */
  textOf(token: number): string
}

/** Reads the corpus and trains the model, which takes a few milliseconds. */
export function loadDemoLanguage(): DemoLanguage {
  const corpus = readFileSync(new URL('./corpus.txt', import.meta.url), 'utf8')
  // The leading space makes every word the same token, wherever it occurs.
  const pieces = [...textPieces(` ${corpus.trim().replaceAll(/\s+/g, ' ')}`)]
  const texts = new Map(pieces.map(piece => [piece.token, piece.text]))
  const tokens = pieces.map(piece => piece.token)
  // The corpus ends with a sentence.
  const fullStop = tokens[tokens.length - 1] ?? 0
  return {
    after: trainNgram(tokens),
    openings: tokens.flatMap((_, at) => (tokens.at(at - 1) === fullStop ? [tokens.slice(at, at + 2)] : [])),
    fullStop,
    textOf: token => texts.get(token) ?? '',
  }
}

/** Yields the tokens of a fixed text. Encodes one slice at a time, so that unread text costs nothing. */
export function* textPieces(text: string): Generator<Piece, void, undefined> {
  for (const slice of sliceText(text)) {
    // Keeps the first bytes of a split character until the next token.
    const decoder = new TextDecoder()
    for (const { rank, bytes } of tokenizer().encode(slice)) {
      yield { token: rank, text: decoder.decode(bytes, { stream: true }), probability: 1, candidates: [] }
    }
  }
}

type Counts = Map<number, number>

/** The share of each distinct continuation of two tokens that goes to the continuations of the last one alone. */
const DISCOUNT = 0.15

/**
 * Trains an order-3 model on one token sequence, which is a ring: every token has a successor. Without the discount it
 * could only recite, because in a corpus of a few thousand tokens most pairs occur once.
 */
function trainNgram(sequence: readonly number[]): DemoLanguage['after'] {
  const following = new Map<string, Counts>()
  for (const [at, token] of sequence.entries()) {
    const last = sequence.at(at - 1)
    for (const context of [`${last}`, `${sequence.at(at - 2)} ${last}`]) {
      const counts = following.get(context) ?? new Map<number, number>()
      following.set(context, counts.set(token, (counts.get(token) ?? 0) + 1))
    }
  }
  const known = new Map<string, readonly Candidate[]>()
  return written => {
    const last = `${written.at(-1)}`
    const context = `${written.at(-2)} ${last}`
    const candidates = known.get(context) ?? ranked(following.get(context), following.get(last))
    known.set(context, candidates)
    return candidates
  }
}

/** Breaks ties by token id, so that the same corpus always gives the same order. */
function ranked(counts: Counts = new Map(), lower: Counts = new Map()): readonly Candidate[] {
  const total = sum(counts.values())
  const lowerTotal = sum(lower.values())
  const backoffShare = total === 0 ? 1 : (DISCOUNT * counts.size) / total
  // A token that followed the pair also followed its last token, so `lower` has every candidate.
  return [...lower]
    .map(([token, lowerCount]) => {
      const count = counts.get(token)
      const own = count === undefined ? 0 : (count - DISCOUNT) / total
      return { token, probability: own + backoffShare * (lowerCount / lowerTotal) }
    })
    .sort((a, b) => b.probability - a.probability || a.token - b.token)
}

function sum(numbers: Iterable<number>): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}

export interface Sampling {
  /** 0..2. 0 always takes the most probable candidate; values above 1 flatten the distribution. */
  readonly temperature: number
  /** 0..1. Only the most probable candidates that together reach this probability are considered. */
  readonly topP: number
}

/**
 * Chooses the next token of `candidates`, which are sorted, most probable first.
 * @param random returns numbers in [0, 1); called once, or never at temperature 0
 */
export function sampleToken(
  candidates: readonly Candidate[],
  { temperature, topP }: Sampling,
  random: () => number,
): Candidate {
  const [likeliest] = candidates
  if (likeliest === undefined) throw new RangeError('There is no candidate.')
  if (temperature === 0) return likeliest
  // Weights are relative to the most probable candidate, so that a low temperature cannot underflow all of
  // them to zero.
  let reached = 0
  const weights = candidates.map(({ probability }) => {
    const isWithin = topP >= 1 || reached === 0 || reached < topP
    reached += probability
    return isWithin ? (probability / likeliest.probability) ** (1 / temperature) : 0
  })
  let rest = random() * sum(weights)
  const chosen = candidates.find((_, at) => {
    rest -= weights[at] ?? 0
    return rest < 0
  })
  return chosen ?? likeliest
}

const PROSE_TOKENS_MAX = 160

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
  const opening = language.openings[Math.floor(random() * language.openings.length)] ?? []
  const written: number[] = [language.fullStop]
  const used = new Set<string>()
  while (written.length < PROSE_TOKENS_MAX) {
    const candidates = language.after(written)
    const forced = candidates.find(candidate => candidate.token === opening[written.length - 1])
    const recent = written.slice(-5).join(' ')
    // The most likely path of a small model is a loop: do not repeat six tokens in a row if others can follow.
    const unused = candidates.filter(({ token }) => !used.has(`${recent} ${token}`))
    const chosen = forced ?? sampleToken(unused.length === 0 ? candidates : unused, sampling, random)
    used.add(`${recent} ${chosen.token}`)
    written.push(chosen.token)
    yield { ...chosen, text: language.textOf(chosen.token), candidates }
    if (written.length > tokensMin && chosen.token === language.fullStop) return
  }
  yield* textPieces('.')
}
