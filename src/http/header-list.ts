/** Alternating names and values, each name once. `writeHead` takes a third longer with an object. */
export type HeaderList = string[]

/**
 * Returns the headers of every response, as a new list that the caller may extend.
 *
 * @param answerId the id of the earlier request, if its answer is repeated
 */
export type HeaderBuilder = (answerId?: string) => HeaderList | Promise<HeaderList>
