import { styleText } from 'node:util'
import { elementAt } from '../base/runtime/collections.ts'

/** Columns of text that break at blanks get at least this width. */
const PROSE_WIDTH_MIN = 20

const GAP = '  '

/** The colours of the words in a column `state`. */
const stateStyles = {
  ok: 'green',
  active: 'green',
  WARNING: 'yellow',
  pending: 'yellow',
  suspended: 'yellow',
  disabled: 'yellow',
  FAILED: 'red',
  WRONG: 'red',
} as const

/**
 * Returns aligned columns with a header. Numeric columns are right-aligned. Returns `emptyText` if there are no rows.
 * On a terminal that is too narrow, the text of one column is broken over several lines; if that does not suffice,
 * each row becomes a block with one line per column.
 *
 * @param width the width of the terminal; default: that of stdout, or no limit if stdout is not a terminal
 */
export function table(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  emptyText: string,
  width: number = process.stdout.isTTY ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY,
): string {
  if (rows.length === 0) return emptyText
  const widths = columns.map((name, index) => Math.max(name.length, ...rows.map(row => elementAt(row, index).length)))
  const excess = sum(widths) + GAP.length * (columns.length - 1) - width
  if (excess <= 0) return aligned(columns, rows, widths)
  const prose = widestProse(rows, widths)
  const proseWidth = prose === undefined ? 0 : elementAt(widths, prose) - excess
  if (prose !== undefined && proseWidth >= Math.max(PROSE_WIDTH_MIN, longestWord(rows, prose))) {
    return aligned(columns, brokenRows(rows, prose, proseWidth), widths.with(prose, proseWidth))
  }
  return rows.map(row => block(columns, row, width)).join('\n\n')
}

function aligned(columns: readonly string[], rows: readonly (readonly string[])[], widths: readonly number[]): string {
  const isNumeric = columns.map((_, index) => rows.every(row => /^(-?[\d.,]+%?|-)?$/.test(elementAt(row, index))))
  const line = (cells: readonly string[], style: (text: string, column: number) => string) =>
    cells
      .map((cell, index) => {
        const blanks = ' '.repeat(elementAt(widths, index) - cell.length)
        const styled = style(cell, index)
        return isNumeric[index] ? blanks + styled : styled + blanks
      })
      .join(GAP)
      .trimEnd()
  const stateAt = columns.indexOf('state')
  return [
    line(columns, bold),
    ...rows.map(row => line(row, (cell, index) => (index === stateAt ? state(cell) : cell))),
  ].join('\n')
}

/** Returns a row as lines of `column  value`, with long values broken at blanks. */
function block(columns: readonly string[], row: readonly string[], width: number): string {
  const nameWidth = Math.max(...columns.map(name => name.length))
  return columns
    .flatMap((name, index) => {
      const value = elementAt(row, index)
      const lines = brokenAtBlanks(value, Math.max(PROSE_WIDTH_MIN, width - nameWidth - GAP.length))
      return lines.map((text, number) => {
        const label = number === 0 ? bold(name) + ' '.repeat(nameWidth - name.length) : ' '.repeat(nameWidth)
        return `${label}${GAP}${name === 'state' ? state(text) : text}`.trimEnd()
      })
    })
    .join('\n')
}

/** Returns the widest column that can be broken: one with a blank in a cell. */
function widestProse(rows: readonly (readonly string[])[], widths: readonly number[]): number | undefined {
  return widths
    .keys()
    .filter(index => rows.some(row => /\S \S/.test(elementAt(row, index))))
    .toArray()
    .sort((a, b) => elementAt(widths, b) - elementAt(widths, a))[0]
}

function longestWord(rows: readonly (readonly string[])[], column: number): number {
  return Math.max(
    ...rows.flatMap(row =>
      elementAt(row, column)
        .split(' ')
        .map(word => word.length),
    ),
  )
}

function brokenRows(rows: readonly (readonly string[])[], column: number, width: number): string[][] {
  return rows.flatMap(row =>
    brokenAtBlanks(elementAt(row, column), width).map((text, number) =>
      row.map((cell, index) => (index === column ? text : number === 0 ? cell : '')),
    ),
  )
}

/** Breaks a text into lines of at most `width`, except for words that are longer. Returns at least one line. */
function brokenAtBlanks(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}

function state(text: string): string {
  const style = Object.hasOwn(stateStyles, text) ? stateStyles[text as keyof typeof stateStyles] : undefined
  return style === undefined ? text : styleText(style, text, { stream: process.stdout })
}

function bold(text: string): string {
  return text === '' ? text : styleText('bold', text, { stream: process.stdout })
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
