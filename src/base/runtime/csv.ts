/** A number as decimal text. */
export interface CsvNumber {
  readonly decimal: string
}

/** Returns one CSV record (RFC 4180) with its CRLF. */
export function csvRecord(cells: readonly (string | CsvNumber)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Spreadsheets execute a cell that begins like a formula, even in quotes. A leading apostrophe makes it text.
 * A number is none, also a negative one.
 */
function csvCell(cell: string | CsvNumber): string {
  if (typeof cell === 'object') return cell.decimal
  const text = cell
  if (/^[=+\-@\t\r]/.test(text)) return quote(`'${text}`)
  return /[",\r\n]/.test(text) ? quote(text) : text
}

function quote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}
