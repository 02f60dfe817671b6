import { elementAt } from '../../../base/runtime/collections.ts'

/** The beginnings of all sequences as the states of an automaton, after Aho and Corasick. State 0 is the empty text. */
export interface StopStates {
  /** The state after a state and a character, by both: see `keyOf`. */
  readonly next: ReadonlyMap<number, number>
  /** For each state: its length. */
  readonly lengths: readonly number[]
  /** For each state: the longest shorter one that it ends with. */
  readonly fallbacks: readonly number[]
  /** For each state: the longest sequence that it ends with. */
  readonly found: readonly (string | null)[]
}

/**
 * Finds the first of some sequences in a text that arrives in pieces, and holds back what may be the beginning of one.
 * The time for a character depends neither on the number of sequences nor on their length: they come from clients.
 */
export class StopMatcher {
  readonly #states: StopStates
  /** The longest beginning of a sequence that the text so far ends with. */
  #state = 0
  #held = ''

  constructor(states: StopStates) {
    this.#states = states
  }

  /**
   * Returns the text that belongs to the answer for certain, the sequence that ends it, and what follows the sequence;
   * null: the answer goes on.
   */
  push(piece: string): { readonly text: string; readonly stop: string | null; readonly rest: string } {
    const { lengths, found } = this.#states
    const all = this.#held + piece
    for (let at = 0; at < piece.length; at++) {
      this.#state = step(this.#states, this.#state, piece.charCodeAt(at))
      const stop = found[this.#state] ?? null
      if (stop === null) continue
      const end = this.#held.length + at + 1
      this.#held = ''
      return { text: all.slice(0, end - stop.length), stop, rest: all.slice(end) }
    }
    const certain = all.length - elementAt(lengths, this.#state)
    this.#held = all.slice(certain)
    return { text: all.slice(0, certain), stop: null, rest: '' }
  }

  /** Returns what was held back, because the text ends here. */
  flush(): string {
    const held = this.#held
    this.#held = ''
    this.#state = 0
    return held
  }
}

/** Prepares sequences for matchers. None may be empty. There are no more states than characters, and one. */
export function statesOf(stops: readonly string[]): StopStates {
  const next = new Map<number, number>()
  const lengths = [0]
  const fallbacks = [0]
  const found: (string | null)[] = [null]
  const states = { next, lengths, fallbacks, found }
  // Shorter beginnings come first, because the fallback of a state is one of them.
  let growing = stops.map(text => ({ text, state: 0 }))
  for (let length = 1; growing.length > 0; length++) {
    for (const each of growing) {
      const { text, state } = each
      const character = text.charCodeAt(length - 1)
      each.state = next.get(keyOf(state, character)) ?? lengths.length
      if (each.state < lengths.length) continue
      const fallback = state === 0 ? 0 : step(states, elementAt(fallbacks, state), character)
      next.set(keyOf(state, character), each.state)
      lengths.push(length)
      fallbacks.push(fallback)
      found.push(elementAt(found, fallback))
    }
    for (const { text, state } of growing) if (text.length === length) found[state] = text
    growing = growing.filter(({ text }) => text.length > length)
  }
  return states
}

const CHARACTER_CODES = 65_536

function keyOf(state: number, character: number): number {
  return state * CHARACTER_CODES + character
}

function step({ next, fallbacks }: StopStates, from: number, character: number): number {
  let state = from
  for (;;) {
    const to = next.get(keyOf(state, character))
    if (to !== undefined) return to
    if (state === 0) return 0
    state = elementAt(fallbacks, state)
  }
}
