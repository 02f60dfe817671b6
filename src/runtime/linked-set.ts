/** What an LinkedSet needs of its members; only the list writes it. A member is in one list at a time. */
export interface LinkedItem<Member> {
  older: Member | undefined
  newer: Member | undefined
  isListed: boolean
}

/**
 * The members in the order they came; adding and removing cost the same however many there are.
 *
 * A Set or Map does that too, but where each request comes and goes it leaves garbage that keeps garbage: a table that has outgrown
 * itself keeps what it held and the table that followed it, so once one of them is old, whatever passes through is taken for alive
 * and promoted. That was 4 KB a request, three of four full collections, and a third of the resident memory.
 */
export class LinkedSet<Member extends LinkedItem<Member>> {
  #oldest: Member | undefined
  #newest: Member | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  get oldest(): Member | undefined {
    return this.#oldest
  }

  /** Must not be listed yet. */
  add(member: Member): void {
    member.isListed = true
    member.older = this.#newest
    if (this.#newest === undefined) this.#oldest = member
    else this.#newest.newer = member
    this.#newest = member
    this.#size++
  }

  /** Removing what is not listed does nothing. */
  remove(member: Member): void {
    if (!member.isListed) return
    const { older, newer } = member
    if (older === undefined) this.#oldest = newer
    else older.newer = newer
    if (newer === undefined) this.#newest = older
    else newer.older = older
    // A removed member must lead to no other: see above.
    member.older = undefined
    member.newer = undefined
    member.isListed = false
    this.#size--
  }

  /** The member at hand may be removed meanwhile, no other. */
  *[Symbol.iterator](): Generator<Member, void> {
    for (let member = this.#oldest; member !== undefined; ) {
      const { newer } = member
      yield member
      member = member.isListed ? member.newer : newer
    }
  }
}
