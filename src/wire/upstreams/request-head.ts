import { credentialHeader, type Endpoint } from '../../base/domain/offer.ts'
import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'

/** A line break in a key would start another header, and servers decode bytes beyond ASCII differently. */
const headerValuePattern = /^[\t\x20-\x7e]*$/

/**
 * Returns the head of the requests to one address, up to `content-length: `. Throws UpstreamFailure for a key that a
 * header cannot carry.
 *
 * @param version of this package
 * @param headers more lines
 */
export function requestHead(
  url: URL,
  endpoint: Endpoint,
  accept: string,
  version: string,
  headers: readonly string[] = [],
): string {
  const credential = credentialHeader(endpoint)
  if (credential !== null && !headerValuePattern.test(credential[1])) {
    throw new UpstreamFailure(
      'connect_failed',
      'The key of the endpoint contains characters that a header cannot carry.',
    )
  }
  return [
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `host: ${url.host}`,
    'content-type: application/json',
    ...(headers.some(line => line.startsWith('accept:')) ? [] : [`accept: ${accept}`]),
    // Without this header any coding would be acceptable (RFC 9110, 12.5.3). The gateway decodes none.
    'accept-encoding: identity',
    'connection: keep-alive',
    `user-agent: switchyard/${version}`,
    ...(credential === null ? [] : [credential.join(': ')]),
    ...headers,
    'content-length: ',
  ].join('\r\n')
}
