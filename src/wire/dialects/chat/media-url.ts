import { parseOutboundUrl } from '../../egress/outbound-url.ts'

/**
 * Returns what is wrong with the URL of an image, or undefined. The model server opens it from inside the operator's
 * network, so only `data:` URLs and public https URLs are passed on. The addresses of a host name are not checked:
 * they may differ when the server resolves it.
 */
export function mediaUrlProblem(url: string): string | undefined {
  if (isDataUrl(url)) return undefined
  if (url.length > URL_CHARACTERS_MAX) return `it is longer than ${URL_CHARACTERS_MAX} characters`
  const parsed = parseOutboundUrl(url, { allowPrivate: false, allowQuery: true })
  return typeof parsed === 'string' ? parsed : undefined
}

/** Returns what is wrong with `file_data`, or undefined. It is a `data:` URL, base64 or, at some servers, a URL. */
export function fileDataProblem(data: string): string | undefined {
  // Base64 has no colon, and every URL has one.
  return isDataUrl(data) || !data.includes(':') ? undefined : mediaUrlProblem(data)
}

const URL_CHARACTERS_MAX = 8_192

function isDataUrl(text: string): boolean {
  return text.slice(0, 5).toLowerCase() === 'data:'
}
