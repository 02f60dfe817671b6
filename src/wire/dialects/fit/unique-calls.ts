import { createHash } from 'node:crypto'

/**
 * Gives the calls of one conversation ids of their own, where a server repeated one. The first call keeps its id, and
 * later ones get the same replacement in each request. Results follow their calls.
 */
export class UniqueCalls {
  readonly #taken = new Set<unknown>()
  /** The ids of calls without a result, by the client's id. */
  #waiting = new Map<unknown, unknown[]>()

  /** Earlier calls get no results any more. */
  beginTurn(): void {
    this.#waiting = new Map()
  }

  /** Returns the id of a call for the server. */
  call(id: unknown): unknown {
    let sent = id
    for (let repeat = 1; this.#taken.has(sent); repeat++) sent = replacement(id, repeat)
    this.#taken.add(sent)
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) this.#waiting.set(id, [sent])
    else waiting.push(sent)
    return sent
  }

  /** Returns the id for the result of the first call that has none; undefined if there is no such call. */
  result(id: unknown): unknown {
    return this.#waiting.get(id)?.shift()
  }

  /** Returns the ids of the calls without a result. */
  unanswered(): ReadonlySet<unknown> {
    return new Set([...this.#waiting.values()].flat())
  }
}

/** Mistral takes exactly nine letters and digits, and every vendor takes them. */
const ID_CHARACTERS = 9

function replacement(id: unknown, repeat: number): string {
  return createHash('sha256')
    .update(`${String(id)} ${repeat}`)
    .digest('hex')
    .slice(0, ID_CHARACTERS)
}
