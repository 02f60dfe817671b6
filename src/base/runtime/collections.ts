// What the types of lists and maps do not say: that a list has an element, that a map has a key.

/** A list with at least one element. */
export type NonEmpty<Item> = readonly [Item, ...Item[]]

export function isNonEmpty<Item>(items: readonly Item[]): items is NonEmpty<Item> {
  return items.length > 0
}

export function lastOf<Item>(items: NonEmpty<Item>): Item {
  return items.at(-1) ?? items[0]
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
