/** Returns the first name that an object of this valid JSON has twice. Slow: only for an error message. */
export function duplicateName(json: string): string | undefined {
  // One set for each open object, undefined for an open array.
  const open: (Set<string> | undefined)[] = []
  for (let at = 0; at < json.length; at++) {
    const character = json[at]
    if (character === '{') open.push(new Set())
    else if (character === '[') open.push(undefined)
    else if (character === '}' || character === ']') open.pop()
    else if (character === '"') {
      const end = endOfString(json, at)
      if (isName(json, end)) {
        const name: string = JSON.parse(json.slice(at, end))
        if (open.at(-1)?.has(name)) return name
        open.at(-1)?.add(name)
      }
      at = end - 1
    }
  }
  return undefined
}

/** Returns the index after the closing quote. */
function endOfString(json: string, openingQuote: number): number {
  let at = openingQuote + 1
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at + 1
}

/** Whether a colon follows. */
function isName(json: string, end: number): boolean {
  let at = end
  while (' \t\r\n'.includes(json[at] ?? 'x')) at++
  return json[at] === ':'
}
