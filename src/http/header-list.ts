/** Alternating names and values, each name once. `writeHead` takes a third longer with an object. */
export type HeaderList = string[]

/**
 * Returns the headers of every response, as a new list that the caller may extend.
 *
 * @param answerId the id of the earlier request, if its answer is repeated
 */
export type HeaderBuilder = (answerId?: string) => HeaderList | Promise<HeaderList>

/** Returns the headers of a JSON body. */
export function jsonHeaders(body: string): HeaderList {
  return ['content-type', 'application/json; charset=utf-8', 'content-length', String(Buffer.byteLength(body))]
}
