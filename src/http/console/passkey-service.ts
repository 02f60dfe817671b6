import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { ApiError } from '../../base/domain/errors.ts'
import type { PasskeyProof, PasskeySite } from '../../identity/people/passkey-check.ts'
import type { SignedIn } from '../../identity/people/sessions.ts'
import type { ConsoleCookie } from './console-cookie.ts'

/** Where and how passkeys of a request are used. */
export interface PasskeyService {
  /** Whether passkeys work in this browser. */
  isOpen(request: FastifyRequest): boolean
  /** Throws `passkeys_unavailable`. */
  site(request: FastifyRequest): PasskeySite
  /**
   * What signs in in this browser. Throws `passkeys_unavailable`, or `wrong_passkey` for a browser that has not asked
   * for a challenge.
   */
  signInProof(request: FastifyRequest, response: AuthenticationResponseJSON): PasskeyProof
  /** What confirms a change in this session. Throws `passkeys_unavailable`. */
  confirmProof(request: FastifyRequest, response: AuthenticationResponseJSON, signedIn: SignedIn): PasskeyProof
}

/** @param cookie has the secret of the browser that its challenges belong to */
export function createPasskeyService({
  cookie,
  publicBaseUrl,
}: {
  cookie: ConsoleCookie
  publicBaseUrl: string | null
}): PasskeyService {
  const site = (request: FastifyRequest) => {
    const found = siteOf(request, publicBaseUrl)
    if (found === null) throw new ApiError('passkeys_unavailable')
    return found
  }
  return {
    isOpen: request => siteOf(request, publicBaseUrl) !== null,
    site,
    signInProof(request, response) {
      const holder = cookie.read(request.raw.rawHeaders)
      if (holder === undefined) throw new ApiError('wrong_passkey')
      return { response, site: site(request), purpose: 'sign-in', holder }
    },
    confirmProof: (request, response, { sessionId }) => ({
      response,
      site: site(request),
      purpose: 'confirm',
      holder: sessionId,
    }),
  }
}

/**
 * Browsers have passkeys on HTTPS with a domain name, and on localhost. The name comes from `publicBaseUrl`. Without
 * it, only localhost is accepted: a page of another server cannot have that origin.
 */
export function siteOf({ raw }: Pick<FastifyRequest, 'raw'>, publicBaseUrl: string | null): PasskeySite | null {
  const url = URL.parse(publicBaseUrl ?? `http://${raw.headers.host}`)
  if (url === null) return null
  const { protocol, hostname, origin } = url
  const isLocalhost = hostname === 'localhost'
  const isAddress = ipaddr.isValid(hostname.replace(/^\[|\]$/g, ''))
  const isNamed = publicBaseUrl !== null && protocol === 'https:' && !isAddress
  return isLocalhost || isNamed ? { rpId: hostname, origin } : null
}
