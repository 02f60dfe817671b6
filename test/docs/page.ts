import { readFileSync } from 'node:fs'

/** Returns the text of a file in this repository. The path is relative to the root. */
export function readPage(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
}

/** Returns the cells of the first table whose header begins with `firstColumn`. Backticks around a whole cell are removed. */
export function tableRows(page: string, firstColumn: string): string[][] {
  const lines = page.split('\n').map(line => line.trimEnd())
  const header = lines.findIndex(line => cellsOf(line)[0] === firstColumn)
  if (header === -1) throw new Error(`There is no table with a first column "${firstColumn}".`)
  const rows = lines.slice(header + 2)
  const end = rows.findIndex(line => !line.startsWith('|'))
  return rows.slice(0, end === -1 ? undefined : end).map(cellsOf)
}

function cellsOf(line: string): string[] {
  if (!line.startsWith('|')) return []
  return line
    .slice(1, -1)
    .split('|')
    .map(cell => cell.trim().replace(/^`([^`]*)`$/, '$1'))
}
