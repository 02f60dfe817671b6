import { readFileSync } from 'node:fs'
import { sliceText, tokenizer } from '../tokens/tokenizer.ts'
import { type Candidate, type NgramModel, trainNgram } from './ngram-model.ts'

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
  readonly model: NgramModel
  /** The first two tokens of every sentence of the corpus. */
  readonly openings: readonly (readonly [number, number])[]
  /** The token that ends a sentence. */
  readonly fullStop: number
  /** Text of a token of the corpus. */
  textOf(token: number): string
  endsSentence(token: number): boolean
}

/** Reads the corpus and trains the model, which takes a few milliseconds. */
export function loadDemoLanguage(): DemoLanguage {
  const corpus = readFileSync(new URL('./corpus.txt', import.meta.url), 'utf8')
  // The leading space makes every word the same token, wherever it occurs.
  const pieces = [...textPieces(` ${corpus.trim().replaceAll(/\s+/g, ' ')}`)]
  const texts = new Map(pieces.map(piece => [piece.token, piece.text]))
  const tokens = pieces.map(piece => piece.token)
  const sentenceEnds = new Set([...texts].filter(([, text]) => text === '.').map(([token]) => token))
  const [fullStop] = sentenceEnds
  if (fullStop === undefined) throw new Error('The demo corpus has no sentence.')
  const openings = tokens.flatMap((token, index): [number, number][] =>
    sentenceEnds.has(tokens.at(index - 1)!) ? [[token, tokens[index + 1]!]] : [],
  )
  return {
    model: trainNgram(tokens),
    openings,
    fullStop,
    textOf: token => texts.get(token) ?? '',
    endsSentence: token => sentenceEnds.has(token),
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
