/** Reading so much of texts takes a few milliseconds. */
const UNITS_PER_TURN = 65_536

/**
 * Maps each item. The demo shares the event loop of the gateway, so other requests get a turn now and then.
 *
 * @param unitsOf the length of what is read of an item, in UTF-16 units
 */
export async function mapInTurns<Item, Result>(
  items: readonly Item[],
  unitsOf: (item: Item) => number,
  map: (item: Item, index: number) => Result,
): Promise<Result[]> {
  const results: Result[] = []
  let units = 0
  for (const [index, item] of items.entries()) {
    results.push(map(item, index))
    units += unitsOf(item)
    if (units < UNITS_PER_TURN) continue
    units = 0
    await new Promise<void>(resolve => setImmediate(resolve))
  }
  return results
}
