const MESSAGE_CHARACTERS_MAX = 500
/** Soft hyphens, zero-width characters and direction marks. Between the letters of a key they are invisible. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g

/**
 * Makes an upstream's error text safe to show to a customer: no address, key, password, path or account of the
 * upstream, no control characters, no half of a surrogate pair, at most 500 characters. Treats long mixed runs as
 * secrets, because losing an identifier costs less than leaking one.
 */
export function safeMessage(message: string): string {
  const plain = withoutPaths(withoutAddresses(withoutCredentials(plainText(message)))).trim()
  const cut = plain.length > MESSAGE_CHARACTERS_MAX ? `${plain.slice(0, MESSAGE_CHARACTERS_MAX - 1)}…` : plain
  // The upstream or the cut may leave half of a surrogate pair, which is no character.
  return cut.toWellFormed()
}

/** One line of visible text. Decodes what may hide an address: `https%3A%2F%2F`, `https%253A`, `https:\/\/`. */
function plainText(message: string): string {
  return (
    message
      .slice(0, MESSAGE_CHARACTERS_MAX * 4)
      .replace(/%(?:25)*([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replaceAll('\\/', '/')
      .replace(INVISIBLE, '')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they must be removed
      .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\s]+/g, ' ')
  )
}

/** URLs go first: they may contain a password. */
function withoutCredentials(text: string): string {
  return withoutPemBlocks(text)
    .replace(/[a-z0-9+.-]+(:\/\/[^\s"'<>)]+)?/gi, replaceIf('[address]'))
    .replace(/[^\s"'<>()]+/g, word => (hasUserAndPassword(word) ? '[address]' : word))
    .replace(/\b(bearer|basic (?=\S{0,100}[\d=]))\s*\S+/gi, '[key]')
    .replace(namedSecret, '$1[removed]')
    .replace(/\btoken(["']?\s?[:=]\s?["']?)(?=[^\s"']{0,40}\d)[^\s"',;]{8,}/gi, 'token$1[removed]')
    .replace(/\b(AKIA|ASIA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA)[A-Z0-9]{12,}|\bAIza[\w-]{20,}/g, '[key]')
    .replace(/\beyJ[\w-]{8,}(\.[\w-]*){0,4}/g, '[key]')
    .replace(
      /\b(sk|pk|rk|key|gsk|csk|xai|hf|gh[opsu]|github_pat|glpat|xox[abeprs]|nvapi|pplx)[-_][\w*-]{6,}/gi,
      '[key]',
    )
    .replace(/\b(org|proj)[-_](?=\w*\d)\w{12,}/gi, '[account]')
}

/** `password: x`, `"api_key": "x y"`, `DB_PASSWORD=x`. A quoted value may have blanks, and its end may be cut off. */
const namedSecret = new RegExp(
  [
    '((?:password|passwd|passphrase|pwd|secret|credentials?|(?:api|access|account|private|secret|auth|shared)[-_ ]?(?:key|token)(?:[-_ ]?id)?)',
    '["\']?\\s?[:=]\\s?)',
    '(?:"[^"]*"?|\'[^\']*\'?|[^\\s"\',;[][^\\s"\',;]*)',
  ].join(''),
  'gi',
)

/** A PEM block, such as a private key. Without its end, everything after its beginning is part of it. */
function withoutPemBlocks(text: string): string {
  const [before, ...blocks] = text.split(/-{5}BEGIN /)
  return blocks.reduce((safe, block) => {
    const [, ...rest] = block.split(/-{5}END [^-]{0,60}-{5}/)
    return `${safe}[key]${rest.join('')}`
  }, before!)
}

/** `user:password@host`, with any characters in the password. */
function hasUserAndPassword(word: string): boolean {
  const colon = word.indexOf(':')
  return colon !== -1 && colon < word.lastIndexOf('@')
}

function withoutAddresses(text: string): string {
  return text
    .replace(/(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63})+/g, '[address]')
    .replace(/(?<![\w.:])[\da-f:]*:[\da-f:.]*(?!\w)/gi, withoutIPv6)
    .replace(/\[\[address\](%\w+)?\](:\d+)?/g, '[address]')
    .replace(/\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g, '[address]')
    .replace(/[\w.-]+(:\d{2,5}\b)?/g, (run, port: string | undefined) => (port ? '[address]' : withoutHost(run)))
}

/** Replaces a host name of an internal network. A full stop after it belongs to the sentence. */
function withoutHost(run: string): string {
  return run.replace(/^[\w-][\w.-]*\.(?:internal|local|lan|svc|consul)(?=[.-]*$)/i, '[address]')
}

function withoutPaths(text: string): string {
  return (
    text
      .replace(/(^|[\s"'(])(\/[\w.@-]+){2,}/g, '$1[path]')
      .replace(/[\w+/-]{32,}={0,2}/g, run => (/\d/.test(run) && /[a-z]/i.test(run) ? '[removed]' : run))
      // `s k - a b c 1 2 3`, `s.k.-.a.b.c`: eight or more single characters with the same separator.
      .replace(/(?<![a-z0-9])\S([^a-z0-9])(?!\1)\S(?:\1(?!\1)\S){6,}(?![a-z0-9])/gi, '[removed]')
  )
}

/** Returns a function that replaces a match if its optional group was found, and keeps it otherwise. */
function replaceIf(replacement: string): (match: string, group: string | undefined) => string {
  return (match, group) => (group === undefined ? match : replacement)
}

/** Replaces a run that may be an IPv6 address, with or without a trailing full stop or colon. */
function withoutIPv6(run: string): string {
  if (isIPv6(run)) return '[address]'
  return isIPv6(run.slice(0, -1)) ? `[address]${run.slice(-1)}` : run
}

/** Uses the URL parser, because pure rooms must not import node:net. */
function isIPv6(text: string): boolean {
  return URL.canParse(`http://[${text}]`)
}
