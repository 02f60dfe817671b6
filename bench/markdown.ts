/** A table with its first column to the left and the others to the right. */
export function markdownTable(head: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, column) => (column === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

export type Goal = { goal: string; value: number; limit: number; isFloor: boolean }

/** The row of a goal: what was measured, what was wanted, and whether it was reached. */
export function goalRow({ goal, value, limit, isFloor }: Goal): string[] {
  return [
    goal,
    value.toFixed(2),
    `${isFloor ? 'at least' : 'at most'} ${limit}`,
    (isFloor ? value >= limit : value <= limit) ? 'reached' : '**missed**',
  ]
}
