import type { OidcStarted } from '#api/oidc.ts'
import { request } from './request.ts'

/**
 * Leaves for the sign-in page of another service. That page sends the browser to `/oidc`, which goes on to the page that
 * is open now.
 */
export async function visitProvider(
  path: 'oidc/start' | 'oidc/confirm/start' | 'identities/start',
  provider: string,
  /** The secret of an invitation that the person accepts. */
  invite?: string,
): Promise<void> {
  const { pathname } = location
  const returnTo = pathname === '/sign-in' || invite !== undefined ? '/' : `${pathname}${location.search}`
  const body = { provider, return_to: returnTo, ...(invite !== undefined && { invite }) }
  const { url } = await request<OidcStarted>('POST', path, { body })
  location.assign(url)
}
