/** A text in which escapes are the characters that they stand for. */
interface Unescaped {
  readonly text: string
  /** Returns where a character of the text, or its end, is in the original. */
  indexOf(index: number): number
}

/**
 * Decodes the escapes of JSON, also of JSON within JSON, and those of URLs, as far as they are ASCII. Null: the text has none. What is
 * no escape may be decoded as well, such as `C:\new`: use the result to search, not to show.
 */
export function unescaped(text: string): Unescaped | null {
  let plain = ''
  const places: number[] = []
  let end = 0
  for (const match of text.matchAll(ESCAPE)) {
    for (let index = end; index < match.index; index++) places.push(index)
    places.push(match.index)
    plain += text.slice(end, match.index) + decoded(match)
    end = match.index + match[0].length
  }
  if (end === 0) return null
  for (let index = end; index <= text.length; index++) places.push(index)
  return { text: plain + text.slice(end), indexOf: index => places[index] ?? text.length }
}

/** The look-behind keeps a long run of backslashes linear. */
const ESCAPE = /(?<!\\)\\+(?:u00(?<unicode>[0-7][\da-fA-F])|(?<letter>[nrtbf"'/]))|%(?<percent>[2-7][\da-fA-F])/g

function decoded({ groups }: RegExpExecArray): string {
  const { unicode, percent, letter } = groups as Record<'unicode' | 'percent' | 'letter', string | undefined>
  const code = unicode ?? percent
  if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16))
  return letter === '"' || letter === "'" || letter === '/' ? letter : '\n'
}
