const MESSAGE_CHARACTERS_MAX = 500
/** Soft hyphens, zero-width characters and direction marks. Between the letters of a key they are invisible. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g

/**
 * Makes an upstream's error text safe to show to a customer: no address, key, path or account of the
 * upstream, no control characters, at most 500 characters. Treats long mixed runs as secrets, because losing
 * an identifier costs less than leaking one.
 */
export function safeMessage(message: string): string {
  const plain = message
    .slice(0, MESSAGE_CHARACTERS_MAX * 4)
    // An address may also be written as `https%3A%2F%2F`, `https%253A` or `https:\/\/`.
    .replace(/%(?:25)*([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll('\\/', '/')
    .replace(INVISIBLE, '')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they must be removed
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\s]+/g, ' ')
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>)]+/gi, '[address]')
    .replace(/\bbearer\s+\S+/gi, '[key]')
    .replace(/\b(sk|pk|key|gsk|xai|hf)[-_][\w*-]{6,}/gi, '[key]')
    .replace(/\b(org|proj)[-_](?=\w*\d)\w{12,}/gi, '[account]')
    .replace(/(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63})+/g, '[address]')
    .replace(/(?<![\w.-])([\w-]{1,63}\.)+(internal|local|lan|svc|consul)(:\d{1,5})?(?![\w.-]*\w)/gi, '[address]')
    .replace(/(?<![\w.:])[\da-f:]*:[\da-f:.]*(?!\w)/gi, withoutAddress)
    .replace(/\[\[address\](%\w+)?\](:\d+)?/g, '[address]')
    .replace(/\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g, '[address]')
    .replace(/\b[\w-]+(\.[\w-]+)*:\d{2,5}\b/g, '[address]')
    .replace(/(^|[\s"'(])(\/[\w.@-]+){2,}/g, '$1[path]')
    .replace(/\b(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])[\w+/-]{32,}={0,2}/gi, '[removed]')
    // `s k - a b c 1 2 3`, `s.k.-.a.b.c`: eight or more single characters with the same separator.
    .replace(/(?<![a-z0-9])\S([^a-z0-9])(?!\1)\S(?:\1(?!\1)\S){6,}(?![a-z0-9])/gi, '[removed]')
    .trim()
  return plain.length > MESSAGE_CHARACTERS_MAX ? `${plain.slice(0, MESSAGE_CHARACTERS_MAX - 1)}…` : plain
}

/** Replaces a run that may be an IPv6 address, with or without a trailing full stop or colon. */
function withoutAddress(run: string): string {
  if (isIPv6(run)) return '[address]'
  return isIPv6(run.slice(0, -1)) ? `[address]${run.slice(-1)}` : run
}

/** Uses the URL parser, because pure rooms must not import node:net. */
function isIPv6(text: string): boolean {
  return URL.canParse(`http://[${text}]`)
}
