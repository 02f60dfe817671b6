/** Alternating names and values, each name once. `writeHead` takes a third longer with an object. */
export type HeaderList = string[]

/**
 * Returns the headers of every response, as a new list that the caller may extend.
 *
 * @param answerId the id of the earlier request, if its answer is repeated
 */
export type HeaderBuilder = (answerId?: string) => HeaderList | Promise<HeaderList>

/**
 * No browser may take an answer for something else than its content type says: texts of models and customers are in it.
 */
export const NO_SNIFFING = { 'x-content-type-options': 'nosniff' } as const

/** Returns the headers of a JSON body. */
export function jsonHeaders(body: string): HeaderList {
  const type = ['content-type', 'application/json; charset=utf-8', 'content-length', String(Buffer.byteLength(body))]
  return [...type, 'x-content-type-options', NO_SNIFFING['x-content-type-options']]
}

/** Adds that the connection closes after the response. */
export function closeAfter(headers: HeaderList): void {
  if (!headers.includes('connection')) headers.push('connection', 'close')
}

/**
 * Returns every value of a header. Node's merged headers hide that a header was sent twice.
 *
 * @param rawHeaders alternating names and values, as Node's `request.rawHeaders`
 * @param name in lower case
 */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const sent = rawHeaders[i]!
    if (sent.length === name.length && sent.toLowerCase() === name) values.push(rawHeaders[i + 1]!)
  }
  return values
}
