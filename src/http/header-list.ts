/** Names and values in turn, each name once. `writeHead` takes a third longer for an object. */
export type HeaderList = string[]

/**
 * Returns the headers of every response, as a new list that the caller may extend.
 *
 * @param answerId the id of the earlier request whose answer is repeated, if there is one
 */
export type HeadersOf = (answerId?: string) => HeaderList | Promise<HeaderList>
