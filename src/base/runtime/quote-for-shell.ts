/** Quotes a text as one word of a POSIX shell, if necessary, for commands that users copy. */
export function quoteForShell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
