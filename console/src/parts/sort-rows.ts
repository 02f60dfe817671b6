/** What a table sorts a row by. Null: the row has no value. */
export type SortValue = string | number | null

export interface SortOrder {
  /** The name by which the gateway sorts, or the title of the column. */
  readonly column: string
  readonly isDescending: boolean
}

/** "gpu-2" before "gpu-10". */
const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' })

/** Returns the rows in the order of a value. Those without one come last; those with the same one keep their order. */
export function sortRows<Row>(
  rows: readonly Row[],
  read: (row: Row) => SortValue,
  isDescending: boolean,
): readonly Row[] {
  const direction = isDescending ? -1 : 1
  const keyed = rows.map(row => ({ row, value: read(row) }))
  keyed.sort(({ value: a }, { value: b }) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null)
    return direction * (typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(`${a}`, `${b}`))
  })
  return keyed.map(({ row }) => row)
}

/**
 * Returns the order after a click on a column. The first click shows the highest figures or the first
 * names, the second turns the order around, and the third brings back the order of the gateway.
 */
export function nextOrder(order: SortOrder | null, column: string, isFigure: boolean): SortOrder | null {
  if (order?.column !== column) return { column, isDescending: isFigure }
  return order.isDescending === isFigure ? { column, isDescending: !isFigure } : null
}
