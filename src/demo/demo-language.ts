import { readFileSync } from 'node:fs'
import { specialTokensAsText, tokenizer, tokenizerSlices } from '../dialects/tokens/count-tokens.ts'
import { type Candidate, type NgramModel, trainNgram } from './ngram-model.ts'

/** One generated token. Its text is empty where the token is only the first bytes of a character. */
export interface Piece {
  readonly token: number
  readonly text: string
  /** 0..1, the model's own, before temperature; 1 for text the demo was told to say (label, tool result, JSON). */
  readonly probability: number
  /** What else the model could have said, the likeliest first; empty for text it was told to say. */
  readonly candidates: readonly Candidate[]
}

/** The o200k_base vocabulary and an n-gram model over it, trained on the corpus beside this file. */
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

/** Reads the corpus and learns it; a few milliseconds. */
export function loadDemoLanguage(): DemoLanguage {
  const corpus = readFileSync(new URL('./corpus.txt', import.meta.url), 'utf8')
  // A space before the first word too: then a word is the same token wherever it stands.
  const pieces = [...sayPieces(` ${corpus.trim().replaceAll(/\s+/g, ' ')}`)]
  const texts = new Map(pieces.map(piece => [piece.token, piece.text]))
  const tokens = pieces.map(piece => piece.token)
  const sentenceEnds = new Set([...texts].filter(([, text]) => text === '.').map(([token]) => token))
  const [fullStop] = sentenceEnds
  if (fullStop === undefined) throw new Error('the demo corpus has no sentence')
  const openings = tokens.flatMap((token, at): [number, number][] =>
    sentenceEnds.has(tokens.at(at - 1)!) ? [[token, tokens[at + 1]!]] : [],
  )
  return {
    model: trainNgram(tokens),
    openings,
    fullStop,
    textOf: token => texts.get(token) ?? '',
    endsSentence: token => sentenceEnds.has(token),
  }
}

/** The tokens of a fixed text, to be said as they stand: a slice at a time, so that what nobody asks for is not made. */
export function* sayPieces(text: string): Generator<Piece, void, undefined> {
  const { decode, encode } = tokenizer()
  for (const slice of tokenizerSlices(text)) {
    // `decode` keeps the first bytes of a split character for its next call, whosever that is: so a slice is decoded in one go.
    yield* encode(slice, specialTokensAsText).map(token => ({
      token,
      text: decode([token]),
      probability: 1,
      candidates: [],
    }))
  }
}
