/** Google's API is served below `/v1beta/`; a base URL that ends in a slash doubles the first slash. */
const GOOGLE = /^\/+v1beta\/+(.*)$/s
/** Clients may also choose the version `v1`, where OpenAI's models are listed. */
const GOOGLE_V1 = /^\/+v1\/+(models\/[^?]*:[a-zA-Z]+(?:\?.*)?)$/s
const KEY_HEADER = 'x-goog-api-key'

/** Whether a target belongs to Google's API, in any form that `normaliseGoogleTarget` accepts. */
export function isGoogleTarget(method: string | undefined, target: string): boolean {
  return GOOGLE.test(target) || (method === 'POST' && GOOGLE_V1.test(target))
}

interface GoogleRequest {
  readonly method?: string | undefined
  url?: string | undefined
  /** Names and values in turn. */
  readonly rawHeaders: string[]
}

/**
 * Gives a request to Google's API the path `/v1beta/...`, and moves a key from its query to the header
 * `x-goog-api-key`: from here on, no part of the gateway can log it. A key in a header takes precedence. Other requests
 * stay as they are.
 */
export function normaliseGoogleTarget(request: GoogleRequest): void {
  const { method, url = '', rawHeaders } = request
  const rest = GOOGLE.exec(url)?.[1] ?? (method === 'POST' ? GOOGLE_V1.exec(url)?.[1] : undefined)
  if (rest === undefined) return
  const queryAt = rest.indexOf('?')
  const path = queryAt === -1 ? rest : rest.slice(0, queryAt)
  request.url = `/v1beta/${path}`
  if (queryAt === -1) return
  const query = new URLSearchParams(rest.slice(queryAt + 1))
  const keys = query.getAll('key')
  query.delete('key')
  if (query.size > 0) request.url += `?${query}`
  if (!rawHeaders.some((name, i) => i % 2 === 0 && name.toLowerCase() === KEY_HEADER)) {
    // Two keys stay two headers, which are refused.
    for (const key of keys) rawHeaders.push(KEY_HEADER, key)
  }
}
