/** Parses an RFC 4180 document into rows and cells; quotes may enclose commas, quotes and line ends. */
export function parseCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  const token = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/gy
  for (;;) {
    if (token.lastIndex === text.length) return rows
    const at = token.lastIndex
    const match = token.exec(text)
    if (!match) throw new Error(`not RFC 4180 at ${at}: ${JSON.stringify(text.slice(at, at + 60))}`)
    row.push(match[1]?.replaceAll('""', '"') ?? match[2]!)
    if (match[3] === '\r\n') {
      rows.push(row)
      row = []
    }
  }
}
