/** Names and values in turns, as `writeHead` takes them, which takes a third longer for an object. Each name once. */
export type HeaderList = string[]

/**
 * What every response carries, as a list of the caller's own.
 *
 * @param answerId of the request that the receipt is of, where that is an earlier one
 */
export type HeadersOf = (answerId?: string) => HeaderList | Promise<HeaderList>
