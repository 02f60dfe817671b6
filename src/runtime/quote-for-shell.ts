/** The text as one word of a POSIX shell, for commands that are shown to be copied: as it is where that is one already, else in quotes. */
export function quoteForShell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
