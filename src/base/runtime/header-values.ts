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
