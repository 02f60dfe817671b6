// Lists, maps and sets: what their types do not say, such as that a list has an element, and what the language lacks.

/** A list with at least one element. */
export type NonEmpty<Item> = readonly [Item, ...Item[]]

export function isNonEmpty<Item>(items: readonly Item[]): items is NonEmpty<Item> {
  return items.length > 0
}

export function lastOf<Item>(items: NonEmpty<Item>): Item {
  return items[items.length - 1] as Item
}

/** Like Map.groupBy. No group is empty. */
export function groupBy<Key, Item>(items: Iterable<Item>, keyOf: (item: Item) => Key): Map<Key, NonEmpty<Item>> {
  const groups = new Map<Key, [Item, ...Item[]]>()
  for (const item of items) {
    const group = groups.get(keyOf(item))
    if (group === undefined) groups.set(keyOf(item), [item])
    else group.push(item)
  }
  return groups
}

/**
 * Draws an element. Throws for an empty list.
 *
 * @param random uniform in [0, 1)
 */
export function drawOne<Item>(items: readonly Item[], random: () => number): Item {
  return elementAt(items, Math.floor(random() * items.length))
}

/** Returns the element at an index that the caller knows to exist. Throws when it does not. */
export function elementAt<Item>(items: readonly Item[], index: number): Item {
  if (index >= 0 && index < items.length) return items[index] as Item
  throw new RangeError(`index ${index} of ${items.length} elements`)
}

/** Returns the value of a key that the caller knows to exist. Throws when it does not. */
export function valueAt<Key, Value>(map: ReadonlyMap<Key, Value>, key: Key): Value {
  const value = map.get(key)
  if (value === undefined) throw new Error(`no value for the key ${String(key)}`)
  return value
}

/** Deletes the key that was added first. */
export function deleteOldest<Key>(entries: { keys(): Iterable<Key>; delete(key: Key): boolean }): void {
  for (const key of entries.keys()) {
    entries.delete(key)
    return
  }
}

/** Returns the text before the first `separator`; the whole text without one. */
export function textBefore(text: string, separator: string): string {
  const end = text.indexOf(separator)
  return end === -1 ? text : text.slice(0, end)
}

/** The fields that a LinkedSet keeps on its members; only the set writes them. A member is in at most one set. */
export interface LinkedItem<Member> {
  older: Member | undefined
  newer: Member | undefined
  isListed: boolean
}

/**
 * A set in insertion order; adding and removing take constant time.
 *
 * A Set or Map does this too, but with one insertion and removal per request it keeps garbage alive: an
 * outgrown hash table still refers to its entries and to its successor, so once one table is in the old
 * generation, everything that passes through is promoted too. This was 4 KB a request, three of four full
 * collections, and a third of the resident memory.
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

  /** The member must not be in a set yet. */
  add(member: Member): void {
    member.isListed = true
    member.older = this.#newest
    if (this.#newest === undefined) this.#oldest = member
    else this.#newest.newer = member
    this.#newest = member
    this.#size++
  }

  /** Does nothing for a member that is not in the set. */
  remove(member: Member): void {
    if (!member.isListed) return
    const { older, newer } = member
    if (older === undefined) this.#oldest = newer
    else older.newer = newer
    if (newer === undefined) this.#newest = older
    else newer.older = older
    // A removed member must not refer to others, or it would keep them alive.
    member.older = undefined
    member.newer = undefined
    member.isListed = false
    this.#size--
  }

  /** During the iteration only the current member may be removed. */
  *[Symbol.iterator](): Generator<Member, void> {
    for (let member = this.#oldest; member !== undefined; ) {
      const { newer } = member
      yield member
      member = member.isListed ? member.newer : newer
    }
  }
}
