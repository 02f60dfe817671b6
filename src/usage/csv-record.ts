/** Returns one CSV record (RFC 4180) with its CRLF. */
export function csvRecord(cells: readonly string[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Spreadsheets execute a cell that begins like a formula, even in quotes. A leading apostrophe makes it text.
 * A negative number stays one.
 */
function csvCell(text: string): string {
  if (/^-\d+(\.\d+)?$/.test(text)) return text
  if (/^[=+\-@\t\r]/.test(text)) return quote(`'${text}`)
  return /[",\r\n]/.test(text) ? quote(text) : text
}

function quote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}
