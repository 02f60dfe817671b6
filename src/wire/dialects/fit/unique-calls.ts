import { createHash } from 'node:crypto'

/**
 * Gives the calls of one conversation ids of their own, where a server repeated one. The first call keeps its id, and
 * later ones get the same replacement in each request. Results follow their calls.
 */
export class UniqueCalls {
  readonly #taken = new Set<unknown>()
  /** The number of the last replacement of an id. The ones before it are taken, so no call looks at them again. */
  readonly #lastReplacements = new Map<unknown, number>()
  /** By the client's id: the ids of its calls in this turn, and how many of them have a result. */
  #waiting = new Map<unknown, { readonly ids: unknown[]; answered: number }>()

  /** Earlier calls get no results any more. */
  beginTurn(): void {
    this.#waiting = new Map()
  }

  /** Returns the id of a call for the server. */
  call(id: unknown): unknown {
    let sent = id
    while (this.#taken.has(sent)) {
      const number = (this.#lastReplacements.get(id) ?? 0) + 1
      this.#lastReplacements.set(id, number)
      sent = replacement(id, number)
    }
    this.#taken.add(sent)
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) this.#waiting.set(id, { ids: [sent], answered: 0 })
    else waiting.ids.push(sent)
    return sent
  }

  /** Returns the id for the result of the first call that has none; undefined if there is no such call. */
  result(id: unknown): unknown {
    const waiting = this.#waiting.get(id)
    return waiting?.ids[waiting.answered++]
  }

  /** Returns the ids of the calls without a result. */
  unanswered(): ReadonlySet<unknown> {
    return new Set([...this.#waiting.values()].flatMap(({ ids, answered }) => ids.slice(answered)))
  }
}

/** Mistral takes exactly nine letters and digits, and every vendor takes them. */
const ID_CHARACTERS = 9

function replacement(id: unknown, number: number): string {
  return createHash('sha256')
    .update(`${String(id)} ${number}`)
    .digest('hex')
    .slice(0, ID_CHARACTERS)
}
