import type { FastifyRequest } from 'fastify'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { openSecret, sealSecret } from '../../base/secrets/sealed-secret.ts'
import { ConsoleCookie } from '../../http/console/console-cookie.ts'
import { type ConsoleGuard, createConsoleGuard } from '../../http/console/console-guard.ts'
import { createEntry } from '../../http/console/entry.ts'
import { isLocalRequest } from '../../http/console/is-local-request.ts'
import { createPasskeyService } from '../../http/console/passkey-service.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { factorEndpoints } from '../../http/endpoints/factors.ts'
import { live } from '../../http/endpoints/live.ts'
import { oidcEndpoints } from '../../http/endpoints/oidc.ts'
import { passkeyEndpoints } from '../../http/endpoints/passkeys.ts'
import { peopleEndpoints } from '../../http/endpoints/people.ts'
import { personalDataEndpoints } from '../../http/endpoints/personal-data.ts'
import { profileEndpoints } from '../../http/endpoints/profile.ts'
import { requestSharingEndpoints } from '../../http/endpoints/request-sharing.ts'
import { sessionEndpoints } from '../../http/endpoints/session.ts'
import { signUpEndpoints } from '../../http/endpoints/sign-up.ts'
import { status } from '../../http/endpoints/status.ts'
import { endKeysOfMember, listKeysOfMember, revokeKeysOfPerson } from '../../identity/auth/keys.ts'
import { createLiveWatch, type LiveWatch } from '../../identity/live/live-watch.ts'
import { createCredentialCheck } from '../../identity/people/credential-check.ts'
import { createFactors } from '../../identity/people/factors.ts'
import { createIdentities } from '../../identity/people/identities.ts'
import { createLinkEntry } from '../../identity/people/link-entry.ts'
import { createMembers } from '../../identity/people/members.ts'
import { createOidcClient } from '../../identity/people/oidc-client.ts'
import { createOidcSignIn } from '../../identity/people/oidc-sign-in.ts'
import { createPasskeyCheck } from '../../identity/people/passkey-check.ts'
import { createPasskeys } from '../../identity/people/passkeys.ts'
import { createPeople } from '../../identity/people/people.ts'
import { createProfile } from '../../identity/people/profile.ts'
import { createProveAddress } from '../../identity/people/prove-address.ts'
import { createRequestSharing } from '../../identity/people/request-sharing.ts'
import { createSecurityNotices } from '../../identity/people/security-notices.ts'
import type { SignedIn } from '../../identity/people/sessions.ts'
import { createSignUp } from '../../identity/people/sign-up.ts'
import { revokeHosterKeysOfPerson } from '../../market/marketplace/hoster-keys.ts'
import { addHosterMember, hosterRoleOf } from '../../market/marketplace/hoster-members.ts'
import { claimCustomer } from '../../money/accounts/customers.ts'
import { disableRulesOf } from '../../money/alerts/alert-store.ts'
import { createMinuteLimiter } from '../../request/limits/minute-limiter.ts'
import { limitsOfTier } from '../config/config.ts'
import type { Callers } from './callers.ts'
import { clientTrace } from './client-trace.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Operator } from './operator.ts'
import { pageUrl } from './page-url.ts'
import type { PeopleMailParts } from './people-mail.ts'

/** Signed-in people, and the endpoints under /console/api. */
export interface Console {
  readonly guard: ConsoleGuard
  readonly endpoints: readonly Endpoint[]
  /** Watches customers for open pages. Stop it before the server, which waits for its streams. */
  readonly watch: LiveWatch
}

/** How often a person may ask. A screen asks for about six things, and reloads them when they change. */
const REQUESTS_PER_MINUTE = 600

export function createConsole(
  { config, clock, scheduler, log, masterKeys }: ComposeContext,
  { desk, deskLookups, lookups }: Database,
  { findPrices }: Callers,
  { console: operator, dataProtection }: Operator,
  { mail, invitations }: PeopleMailParts,
): Console {
  const { publicBaseUrl } = config.server
  const notices = createSecurityNotices({ mail, log })
  const factors = createFactors({
    pool: desk,
    clock,
    notices,
    seal: (secret, ownerId) => sealSecret(masterKeys, secret, { ownerId, purpose: 'totp' }),
    open: (sealed, ownerId) => openSecret(masterKeys, sealed, { ownerId, purpose: 'totp' }),
  })
  const challengeKeys = masterKeys.derived('challenges of passkeys')
  const passkeyCheck = createPasskeyCheck({ pool: desk, clock, challengeKeys })
  const passkeys = createPasskeys({ pool: desk, clock, notices, challengeKeys })
  const check = createCredentialCheck({ pool: desk, lookups: deskLookups, clock, factors, passkeyCheck })
  const people = createPeople({ pool: desk, lookups: deskLookups, clock, check, passkeyCheck, notices })
  const proveAddress = createProveAddress({
    revokeKeys: async (sql, personId) =>
      (await revokeKeysOfPerson(sql, personId)) + (await revokeHosterKeysOfPerson(sql, personId)),
    endAlerts: disableRulesOf,
  })
  const linkEntry = createLinkEntry({ pool: desk, clock, check, joinHoster: addHosterMember, proveAddress })
  const { accounts } = config
  const { signUp: mode } = accounts
  const members = createMembers({
    pool: desk,
    clock,
    invitations,
    endKeys: endKeysOfMember,
    mayInvite: mode !== 'closed',
  })
  const signUp = createSignUp({
    pool: desk,
    clock,
    mail,
    mode,
    caps: {
      get perNetwork() {
        return accounts.creditsPerNetworkPerDay
      },
      get perRegion() {
        return Math.ceil((accounts.creditsPerDay * accounts.creditsPerRegionPercent) / 100)
      },
      get perDay() {
        return accounts.creditsPerDay
      },
    },
    openCustomer: (sql, email, open) => claimCustomer(sql, config, email, open),
    proveAddress,
    log,
  })
  const identities = createIdentities({ pool: desk, clock, notices })
  const oidcSignIn = createOidcSignIn({
    pool: desk,
    clock,
    providers: config.accounts.oidc,
    oidcClient: createOidcClient({ clock, log }),
    signUp,
    check,
    notices,
    joinHoster: addHosterMember,
    proveAddress,
    attemptKeys: masterKeys.derived('attempts to sign in with another service'),
  })
  const isHttps = publicBaseUrl?.startsWith('https:') ?? false
  const cookie = new ConsoleCookie('sy_session', isHttps)
  const passkeyCookie = new ConsoleCookie('sy_passkey', isHttps)
  // The service sends the browser back from another site. Only a page reads the cookie, but Lax does not depend on
  // that.
  const oidcCookie = new ConsoleCookie('sy_oidc', isHttps, 'Lax')
  const deviceCookie = new ConsoleCookie('sy_device', isHttps)
  const factorCookie = new ConsoleCookie('sy_factor', isHttps)
  const passkeyService = createPasskeyService({ cookie: passkeyCookie, publicBaseUrl })
  const shared = {
    needsSecondFactor: ({ person, hasSecondFactor, isFromHost }: SignedIn, request: FastifyRequest) =>
      person.installationRole !== null && !hasSecondFactor && !(isFromHost && isLocalRequest(request, publicBaseUrl)),
    bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
    clientOf: (request: FastifyRequest) => ({
      ...clientTrace(config, request),
      device: deviceCookie.read(request.raw.rawHeaders),
    }),
    urlFor: pageUrl(publicBaseUrl),
  }
  const entry = createEntry({ people, cookie, deviceCookie, clock, ...shared })
  const watch = createLiveWatch({ sql: lookups, scheduler, log })
  return {
    watch,
    guard: createConsoleGuard({
      people,
      cookie,
      limiter: createMinuteLimiter({ requestsPerMinute: REQUESTS_PER_MINUTE, clock }),
      hosterRoleOf: (hosterId, personId) => hosterRoleOf(lookups, hosterId, personId).catch(refuseOutage),
      limitsOf: tier => limitsOfTier(config, tier),
      findPrices,
      noteVisit: (signedIn, visit, request) =>
        operator.noteVisit(signedIn, visit, clientTrace(config, request).address),
      clock,
      needsSecondFactor: shared.needsSecondFactor,
    }),
    endpoints: [
      live({ watch }),
      ...sessionEndpoints({ people, linkEntry, passkeyService, cookie, entry, clock, ...shared }),
      ...peopleEndpoints({
        members,
        keysOf: (customerId, personId) => listKeysOfMember(desk, customerId, personId).catch(refuseOutage),
        ...shared,
      }),
      ...requestSharingEndpoints({ sharing: createRequestSharing({ pool: desk, lookups }), ...shared }),
      status({
        get isPublic() {
          return config.status.isPublic
        },
        async isSignedIn({ raw }) {
          const token = cookie.read(raw.rawHeaders)
          return token !== undefined && (await people.find(token, null)) !== undefined
        },
        read: operator.status,
        clock,
      }),
      ...factorEndpoints({ factors, passkeys, identities, cookie, ...shared }),
      ...profileEndpoints({ profile: createProfile({ pool: desk, clock, mail, log }), cookie, ...shared }),
      ...personalDataEndpoints({ dataProtection, ...shared }),
      ...passkeyEndpoints({ people, passkeys, passkeyService, cookie, passkeyCookie, entry, clock, ...shared }),
      ...oidcEndpoints({
        people,
        oidcSignIn,
        identities,
        passkeyService,
        cookie,
        oidcCookie,
        factorCookie,
        entry,
        ...shared,
      }),
      ...signUpEndpoints({
        signUp,
        entry,
        configFor: request => ({
          sign_up: mode,
          has_mail: mail.canSend,
          base_url: publicBaseUrl,
          oidc_providers: config.accounts.oidc.map(({ id, name }) => ({ id, name })),
          has_passkeys: passkeyService.isOpen(request),
        }),
        ...shared,
      }),
    ],
  }
}
