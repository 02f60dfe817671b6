/** Plain ASCII without blanks, one @ with something on both sides. Whether mail arrives there is another question. */
export function isEmail(text: string): boolean {
  return (
    text.length <= 254 && /^[!#-'*+\-./0-9=?A-Z^_`a-z{|}~]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/.test(text)
  )
}
