/** Joins the sections of a report with blank lines. */
export function markdownPage(sections: string[]): string {
  return `${sections.join('\n\n')}\n`
}

/** A table with the first column aligned left and the others right. */
export function markdownTable(head: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, column) => (column === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

/** `isFloor`: the value must be at least the limit; otherwise at most. */
export type Goal = { goal: string; value: number; limit: number; isFloor: boolean }

/** The section that compares measured values with their goals. */
export function goalsSection(goals: Goal[]): string {
  return `## Goals\n\n${markdownTable(['', 'measured', 'goal', 'result'], goals.map(goalRow))}`
}

function goalRow({ goal, value, limit, isFloor }: Goal): string[] {
  const isReached = isFloor ? value >= limit : value <= limit
  return [goal, value.toFixed(2), `${isFloor ? 'at least' : 'at most'} ${limit}`, isReached ? 'reached' : '**missed**']
}
