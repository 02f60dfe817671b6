import type { FinishReason } from '../domain/completion.ts'
import type { Piece } from './demo-language.ts'

export interface ReplyLimits {
  /** Tokens the reply may cost, at least 0. */
  readonly maxTokens: number
  /** The reply ends before the first of these texts. */
  readonly stop: readonly string[]
  /** What a reply that ends by itself is finished by. */
  readonly naturally: FinishReason
}

/**
 * Passes pieces on until the reply ends, and returns why. Pieces that may be the beginning of a stop text are held back
 * until it is clear that they are not: a stop text is never shown, not even in part.
 * @param onToken called for each token generated, shown or not: a stop text costs its tokens.
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
    const shown = clearOf(held, text.length - possibleStart(text, limits.stop))
    yield* held.slice(0, shown)
    held = held.slice(shown)
  }
  yield* held
  return limits.naturally
}

function firstIndex(text: string, stops: readonly string[]): number {
  const found = stops.map(stop => text.indexOf(stop)).filter(at => at !== -1)
  return found.length === 0 ? -1 : Math.min(...found)
}

/** Length of the longest end of `text` that begins a stop text. */
function possibleStart(text: string, stops: readonly string[]): number {
  let longest = 0
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length -= 1) {
      if (text.endsWith(stop.slice(0, length))) longest = length
    }
  }
  return longest
}

/** How many of the pieces lie wholly within the first `length` characters. */
function clearOf(pieces: readonly Piece[], length: number): number {
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
