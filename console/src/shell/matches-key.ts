/**
 * Whether a text is a part of the name of a key, or the key itself: its first ten and last four characters are known.
 */
export function matchesKey({ name, hint }: { readonly name: string; readonly hint: string }, text: string): boolean {
  if (text === '') return false
  if (name.toLowerCase().includes(text.toLowerCase())) return true
  const isSecret = text.length > 14 && text.startsWith(hint.slice(0, 10)) && text.endsWith(hint.slice(-4))
  return isSecret || text === hint
}
