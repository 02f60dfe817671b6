/**
 * Whether the text has the form of an e-mail address: plain ASCII without spaces, one @ with text on both
 * sides.
 */
export function isEmail(text: string): boolean {
  return (
    text.length <= 254 && /^[!#-'*+\-./0-9=?A-Z^_`a-z{|}~]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/.test(text)
  )
}
