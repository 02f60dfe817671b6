import { ApiError } from '../../base/domain/errors.ts'
import { headerValues } from '../../base/runtime/header-values.ts'

/**
 * Throws `cross_site_request` unless a page of this server sent the request. Browsers set Sec-Fetch-Site and Origin, and no
 * page can change them. Old browsers and plain HTTP have no Sec-Fetch-Site; then the Origin must name this host.
 */
export function requireOwnPage(rawHeaders: readonly string[]): void {
  const [site, ...otherSites] = headerValues(rawHeaders, 'sec-fetch-site')
  if (site === 'same-origin' && otherSites.length === 0) return
  const [origin] = headerValues(rawHeaders, 'origin')
  const [host] = headerValues(rawHeaders, 'host')
  if (site === undefined && origin !== undefined && host !== undefined && hostOf(origin) === host.toLowerCase()) return
  throw new ApiError('cross_site_request')
}

function hostOf(origin: string): string | undefined {
  return URL.parse(origin)?.host
}
