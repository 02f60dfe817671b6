/**
 * Whether a text is a part of the name of a key, the key itself, or a part of what lists show of it: its first ten and last four
 * characters, with three dots in the place of the ellipsis, too.
 */
export function matchesKey({ name, hint }: { readonly name: string; readonly hint: string }, text: string): boolean {
  if (text === '') return false
  if (name.toLowerCase().includes(text.toLowerCase())) return true
  const shown = text.replace('...', '…')
  const isSecret = text.length > 14 && text.startsWith(hint.slice(0, 10)) && text.endsWith(hint.slice(-4))
  // All keys begin with the same six characters.
  return isSecret || (shown.length > 6 && hint.startsWith(shown)) || (shown.length === 4 && hint.endsWith(shown))
}
