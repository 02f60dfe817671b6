import { readFileSync } from 'node:fs'
import { type ReportKind, reportPath } from '../../bench/write-report.ts'

/**
 * Reads a figure from a table of a report in bench/results, so that it is always the one that was measured last. Of "119 (110 to
 * 123)" it is the median, 119. Throws when the report has no such table, row or column.
 *
 * @param row the text of its first cell
 */
export function readCitedFigure(kind: ReportKind, section: string, row: string, column: string): number {
  const report = readFileSync(new URL(`../../${reportPath(kind)}`, import.meta.url), 'utf8')
  return citedFigure(report, section, row, column)
}

export function citedFigure(report: string, section: string, row: string, column: string): number {
  const lines = report.split('\n')
  const start = lines.indexOf(`## ${section}`)
  const table = lines.slice(start + 1).filter(line => line.startsWith('|') || line.startsWith('#'))
  const end = table.findIndex(line => line.startsWith('#'))
  const [head, ...rows] = table.slice(0, end === -1 ? undefined : end).map(cellsOf)
  const value = rows.find(cells => cells[0] === row)?.[head?.indexOf(column) ?? -1]
  const figure = Number.parseFloat(value?.replaceAll(',', '') ?? '')
  if (start === -1 || Number.isNaN(figure)) throw new Error(`no report has "${row}", "${column}" below "## ${section}"`)
  return figure
}

function cellsOf(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map(cell => cell.trim())
}
