import { CELL_HEADER } from './cell-header.ts'

/** Headers that are about one connection (RFC 9110, 7.6.1), or that the next hop sets itself. */
const ofConnection: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['expect', 'host'],
])
/** Replaced by what this gateway knows. */
const ofRelay: ReadonlySet<string> = new Set([CELL_HEADER, 'x-forwarded-for', 'forwarded'])

/**
 * Returns the headers of a request for the gateways of another cell: those of the client, the host of the other cell, the
 * header of the cells, and the address of the client. Names occur once, with all their values.
 *
 * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`
 */
export function relayedRequestHeaders(
  rawHeaders: readonly string[],
  { host, cell, clientAddress }: { readonly host: string; readonly cell: string; readonly clientAddress: string },
): Record<string, string | string[]> {
  const sent = pairsOf(rawHeaders).filter(([name]) => !ofConnection.has(name) && !ofRelay.has(name))
  const byName = Object.groupBy(sent, ([name]) => name)
  const headers = Object.entries(byName).map(([name, pairs = []]) => [name, pairs.map(([, value]) => value)])
  // Node takes no list for the host.
  return { ...Object.fromEntries(headers), host, [CELL_HEADER]: cell, 'x-forwarded-for': clientAddress }
}

/** Returns the headers of an answer for the client, names and values in turn. */
export function relayedAnswerHeaders(rawHeaders: readonly string[]): string[] {
  return pairsOf(rawHeaders)
    .filter(([name]) => !ofConnection.has(name))
    .flat()
}

function pairsOf(rawHeaders: readonly string[]): [name: string, value: string][] {
  return rawHeaders.flatMap((name, i): [string, string][] =>
    i % 2 === 0 ? [[name.toLowerCase(), rawHeaders[i + 1] ?? '']] : [],
  )
}
