import { readFileSync } from 'node:fs'

/** The text of a page of this repository, by its path from the root. */
export function readPage(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
}

/** The cells of the rows of the first table whose header begins with `firstColumn`, without the backticks around a whole cell. */
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
