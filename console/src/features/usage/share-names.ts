/** The names of what has no member, no label, or a label beyond the first 200 of a day. */
export const shareNames: Readonly<Record<string, string>> = {
  none: 'keys that no person made',
  '(none)': 'without a label',
  '(others)': 'further labels',
}
