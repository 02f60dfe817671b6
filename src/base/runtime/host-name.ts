/**
 * Returns why no name server can know the host of a parsed URL, or undefined for an address or a name of RFC 1123:
 * labels of 1 to 63 letters, digits and inner hyphens, 253 characters together. URL has already turned other letters
 * into their ASCII form.
 *
 * @param allowUnderscores as container engines give names
 */
export function hostNameProblem(
  hostname: string,
  { allowUnderscores }: { allowUnderscores: boolean },
): string | undefined {
  // An IPv6 address. The parts of an IPv4 address are valid labels.
  if (hostname.startsWith('[')) return undefined
  const name = hostname.replace(/\.$/, '')
  if (name.length > 253) return 'its host name is longer than 253 characters'
  const label = allowUnderscores
    ? /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/
    : /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
  const wrong = name.split('.').find(part => !label.test(part))
  if (wrong === undefined) return undefined
  return wrong === ''
    ? 'its host name has an empty part between two dots'
    : `its host name has the part ${JSON.stringify(wrong)}: a part has at most 63 letters, digits and hyphens, and no hyphen at an end`
}
