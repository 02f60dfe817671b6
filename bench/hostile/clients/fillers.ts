/** Repeats a text up to this many UTF-16 units. */
export function fill(text: string, units: number): string {
  return text.repeat(Math.ceil(units / text.length)).slice(0, units)
}

export function randomCjk(units: number): string {
  return Array.from({ length: units }, () => String.fromCharCode(0x4e00 + Math.floor(Math.random() * 20_000))).join('')
}

/** An object with this many different names. */
export function named(count: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`name-${at}`, at]))
}
