import type { Configuration } from 'openid-client'
import { HOUR_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'
import { isEmail } from '../../base/runtime/email.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { type GroupRoles, hasRoles, roleOfGroups } from './group-roles.ts'
import type { OidcSecrets } from './oidc-attempt.ts'

/** A service that people sign in with, as configured. */
export interface OidcProvider {
  readonly id: string
  readonly name: string
  readonly issuer: string
  readonly clientId: string
  /** Null: a public client. */
  readonly clientSecret: string | null
  /** Separated by blanks. */
  readonly scopes: string
  /** Which groups of the service have a role on the installation. */
  readonly groups: GroupRoles
}

/** The person, as the service knows them. */
export interface ProvedIdentity {
  readonly issuer: string
  readonly subject: string
  /** The id of the service in the configuration. */
  readonly provider: string
  /** Null: the service does not say. */
  readonly email: string | null
  readonly isEmailVerified: boolean
  readonly name: string
  /** The role on the installation that a group of the person has; null for none. */
  readonly groupRole: InstallationRole | null
}

/** Speaks OpenID Connect. All methods reject with ApiError `sign_in_provider_unavailable`, and with what they name. */
export interface OidcClient {
  /** Returns the page of the service. @param isFresh whether the person must type the password there again */
  authorizationUrl(
    provider: OidcProvider,
    request: { redirectUri: string; secrets: OidcSecrets; isFresh: boolean },
  ): Promise<string>
  /**
   * Exchanges the answer of the service for the identity, and checks every claim and the signature. Rejects with
   * `sign_in_refused`.
   *
   * @param answer.url the redirect URI with the query that the service added
   */
  prove(provider: OidcProvider, answer: { url: URL; secrets: OidcSecrets; isFresh: boolean }): Promise<ProvedIdentity>
}

/** How long the addresses and keys of a service are kept. A new key is asked for at once. */
const METADATA_MS = HOUR_MS
const TIMEOUT_S = 10
/** How long ago the person may have typed the password at the service, to confirm a change. */
const FRESH_S = 300
const NAME_MAX = 200

export function createOidcClient({
  clock,
  log,
}: {
  clock: Clock
  log: { warn(facts: object, message: string): void }
}): OidcClient {
  const known = new Map<string, { configuration: Promise<Configuration>; untilMs: number }>()

  /** Loads the library and the metadata on first use. */
  function configurationOf(provider: OidcProvider): Promise<Configuration> {
    const before = known.get(provider.id)
    if (before !== undefined && before.untilMs > clock.monotonicMs()) return before.configuration
    const configuration = discover(provider)
    known.set(provider.id, { configuration, untilMs: clock.monotonicMs() + METADATA_MS })
    configuration.catch(() => known.delete(provider.id))
    return configuration
  }

  const failed = (provider: OidcProvider, error: unknown): ApiError => {
    // `error` is what the service wrote, such as invalid_client. The cause can have claims of the person, so it is not logged.
    const { code, message: reason, error: answer } = error as { code?: string; message?: string; error?: string }
    log.warn({ provider: provider.id, code, reason, answer }, 'a sign-in with another service failed')
    return new ApiError(isOutage(error) ? 'sign_in_provider_unavailable' : 'sign_in_refused')
  }

  return {
    async authorizationUrl(provider, { redirectUri, secrets, isFresh }) {
      const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await import('openid-client')
      const configuration = await configurationOf(provider).catch(error => {
        failed(provider, error)
        throw new ApiError('sign_in_provider_unavailable')
      })
      const url = buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: provider.scopes,
        state: secrets.state,
        nonce: secrets.nonce,
        code_challenge: await calculatePKCECodeChallenge(secrets.codeVerifier),
        code_challenge_method: 'S256',
        ...(isFresh && { prompt: 'login', max_age: String(FRESH_S) }),
      })
      if (!/^https?:$/.test(url.protocol)) throw new ApiError('sign_in_provider_unavailable')
      return url.href
    },
    async prove(provider, { url, secrets, isFresh }) {
      const { authorizationCodeGrant, fetchUserInfo } = await import('openid-client')
      try {
        const configuration = await configurationOf(provider)
        const tokens = await authorizationCodeGrant(configuration, url, {
          expectedState: secrets.state,
          expectedNonce: secrets.nonce,
          pkceCodeVerifier: secrets.codeVerifier,
          idTokenExpected: true,
          ...(isFresh && { maxAge: FRESH_S }),
        })
        const claims = tokens.claims()!
        const asked = ['email', ...(hasRoles(provider.groups) ? [provider.groups.claim] : [])]
        const isPartial = asked.some(claim => claims[claim] === undefined)
        const more =
          isPartial && configuration.serverMetadata().userinfo_endpoint !== undefined
            ? await fetchUserInfo(configuration, tokens.access_token, claims.sub)
            : {}
        return identityOf(provider, { ...more, ...claims })
      } catch (error) {
        throw failed(provider, error)
      }
    },
  }
}

async function discover({ issuer, clientId, clientSecret }: OidcProvider): Promise<Configuration> {
  const { allowInsecureRequests, ClientSecretBasic, discovery, enableNonRepudiationChecks, None } = await import(
    'openid-client'
  )
  const url = new URL(issuer)
  const authentication = clientSecret === null ? None() : ClientSecretBasic(clientSecret)
  return discovery(url, clientId, undefined, authentication, {
    timeout: TIMEOUT_S,
    // The signature of the ID token is checked although it comes from the service itself.
    execute: [enableNonRepudiationChecks, ...(url.protocol === 'http:' ? [allowInsecureRequests] : [])],
  })
}

function identityOf(provider: OidcProvider, claims: Readonly<Record<string, unknown>>): ProvedIdentity {
  const { iss, sub, email, email_verified: verified, name } = claims
  const hasEmail = typeof email === 'string' && isEmail(email)
  return {
    issuer: String(iss),
    subject: String(sub),
    provider: provider.id,
    email: hasEmail ? email : null,
    // Some services write the claim as a text.
    isEmailVerified: hasEmail && (verified === true || verified === 'true'),
    name: typeof name === 'string' ? nameText(name) : '',
    groupRole: roleOfGroups(provider.groups, claims[provider.groups.claim]),
  }
}

/** The service may send any characters as a name. */
function nameText(name: string): string {
  return name
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '')
    .trim()
    .slice(0, NAME_MAX)
    .toWellFormed()
}

/** Whether the service did not answer, or failed itself. */
function isOutage(error: unknown): boolean {
  const { name, code, status, cause } = error as Partial<Record<'name' | 'code', string>> & {
    status?: number
    cause?: { status?: number }
  }
  if (name === 'TimeoutError' || code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT') return true
  if (error instanceof TypeError && /fetch failed/.test(error.message)) return true
  return (status ?? cause?.status ?? 0) >= 500
}
