/** One CSV record (RFC 4180) with its CRLF. */
export function csvRecord(cells: readonly string[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Spreadsheets run a cell that begins like a formula, quoted or not; an apostrophe in front makes it text. Numbers of
 * ours are never negative, so the rule can hold for every cell.
 */
function csvCell(text: string): string {
  if (/^[=+\-@\t\r]/.test(text)) return quote(`'${text}`)
  return /[",\r\n]/.test(text) ? quote(text) : text
}

function quote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}
