import type { FinishReason } from '../../base/domain/completion.ts'
import type { Piece } from './demo-language.ts'

export interface ReplyLimits {
  /** The maximum number of tokens of the reply, at least 0. */
  readonly maxTokens: number
  /** The reply ends before the first of these texts. */
  readonly stop: readonly string[]
  /** The finish reason of a reply that ends naturally. */
  readonly endReason: FinishReason
}

/**
 * Yields pieces until the reply ends, and returns the finish reason. Holds back pieces that may begin a stop
 * text, so that no part of a stop text is ever shown.
 * @param onToken called for each generated token, shown or not, because the tokens of a stop text count
 */
export function* endReply(
  pieces: Iterable<Piece>,
  limits: ReplyLimits,
  onToken: () => void,
): Generator<Piece, FinishReason, undefined> {
  let held: Piece[] = []
  let tokens = 0
  for (const piece of pieces) {
    if (tokens >= limits.maxTokens) {
      yield* held
      return 'length'
    }
    tokens += 1
    onToken()
    held.push(piece)
    if (limits.stop.length === 0) {
      yield* held
      held = []
      continue
    }
    const text = held.map(each => each.text).join('')
    const end = firstIndex(text, limits.stop)
    if (end !== -1) {
      yield* cutAt(held, end)
      return 'stop'
    }
    const shown = piecesWithin(held, text.length - possibleStart(text, limits.stop))
    yield* held.slice(0, shown)
    held = held.slice(shown)
  }
  yield* held
  return limits.endReason
}

function firstIndex(text: string, stops: readonly string[]): number {
  const found = stops.map(stop => text.indexOf(stop)).filter(at => at !== -1)
  return found.length === 0 ? -1 : Math.min(...found)
}

/** Returns the length of the longest suffix of `text` that begins a stop text. */
function possibleStart(text: string, stops: readonly string[]): number {
  let longest = 0
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length -= 1) {
      if (text.endsWith(stop.slice(0, length))) longest = length
    }
  }
  return longest
}

/** Returns how many pieces lie completely within the first `length` characters. */
function piecesWithin(pieces: readonly Piece[], length: number): number {
  let end = 0
  let count = 0
  for (const piece of pieces) {
    end += piece.text.length
    if (end > length) break
    count += 1
  }
  return count
}

function* cutAt(pieces: readonly Piece[], length: number): Generator<Piece, void, undefined> {
  let rest = length
  for (const piece of pieces) {
    if (rest === 0) return
    const text = piece.text.slice(0, rest)
    rest -= text.length
    yield { ...piece, text }
  }
}
