/** Rotates the order of subjects from round to round, so that none always runs after the same neighbour. */
export function rotate<Item>(items: readonly Item[], by: number): Item[] {
  const start = by % items.length
  return [...items.slice(start), ...items.slice(0, start)]
}
