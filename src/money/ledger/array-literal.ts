/**
 * Builds one column of a batch as a PostgreSQL array literal. The driver would build the same text from a JS
 * array, but it escapes every element. This function escapes only free text and takes a third of the time.
 */
export function arrayLiteral<Item>(
  items: readonly Item[],
  element: (item: Item) => string | number | bigint | boolean | null,
): string {
  let literal = '{'
  for (let i = 0; i < items.length; i++) {
    if (i > 0) literal += ','
    literal += element(items[i]!)
  }
  return `${literal}}`
}

/** An element of free text. PostgreSQL cannot store NUL, so a NUL becomes U+FFFD. */
export function quoted(text: string): string {
  if (!unsafe.test(text)) return `"${text}"`
  return `"${text.replaceAll('\0', '\ufffd').replace(/["\\]/g, '\\$&')}"`
}

const unsafe = /["\\\0]/
