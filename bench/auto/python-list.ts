/**
 * Reads the text of a Python list of texts, such as `['a', "b's"]`, as `str(list)` writes it. Returns null for any other
 * text.
 */
export function readPythonList(text: string): string[] | null {
  if (!/^\[\s*["']/.test(text) || !text.endsWith(']')) return null
  const items: string[] = []
  let at = 1
  for (;;) {
    at += /^\s*/.exec(text.slice(at))![0].length
    const item = readItem(text, at)
    if (item === null) return null
    items.push(item.value)
    at = item.end + /^\s*/.exec(text.slice(item.end))![0].length
    if (text[at] === ']') return at === text.length - 1 ? items : null
    if (text[at] !== ',') return null
    at++
  }
}

function readItem(text: string, start: number): { value: string; end: number } | null {
  const quote = text[start]
  if (quote !== "'" && quote !== '"') return null
  let value = ''
  for (let at = start + 1; at < text.length; at++) {
    const character = text[at]!
    if (character === quote) return { value, end: at + 1 }
    if (character !== '\\') {
      value += character
      continue
    }
    const found = /^\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/is.exec(text.slice(at, at + 10))
    if (found === null) return null
    const [whole, ...codes] = found
    const code = codes.slice(0, 3).find(each => each !== undefined)
    value += code === undefined ? (escapes[codes[3]!] ?? codes[3]!) : String.fromCodePoint(Number.parseInt(code, 16))
    at += whole.length - 1
  }
  return null
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }
