import type { FastifyRequest } from 'fastify'
import { claimCustomer } from '../../accounts/claim-customer.ts'
import { createMailer } from '../../alerts/mailer.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import { limitsOfTier } from '../../config/config.ts'
import { refuseOutage } from '../../db/refuse-outage.ts'
import { type ConsoleGuard, createConsoleGuard } from '../../http/console/console-guard.ts'
import { createEntry } from '../../http/console/entry.ts'
import { isLocalRequest } from '../../http/console/is-local-request.ts'
import { SessionCookie } from '../../http/console/session-cookie.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { factorEndpoints } from '../../http/endpoints/factors.ts'
import { live } from '../../http/endpoints/live.ts'
import { peopleEndpoints } from '../../http/endpoints/people.ts'
import { sessionEndpoints } from '../../http/endpoints/session.ts'
import { signUpEndpoints } from '../../http/endpoints/sign-up.ts'
import { status } from '../../http/endpoints/status.ts'
import { createReportLimiter } from '../../limits/report-limiter.ts'
import { createLiveWatch, type LiveWatch } from '../../live/live-watch.ts'
import { hosterRoleOf } from '../../marketplace/hoster-members.ts'
import { createFactors } from '../../people/factors.ts'
import { createMembers } from '../../people/members.ts'
import { createPeople } from '../../people/people.ts'
import { createPeopleMail } from '../../people/people-mail.ts'
import type { SignedIn } from '../../people/sessions.ts'
import { createSignUp } from '../../people/sign-up.ts'
import { headerValues } from '../../runtime/header-values.ts'
import { openSecret, sealSecret } from '../../secrets/sealed-secret.ts'
import { clientTrace } from './client-trace.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Operator } from './operator.ts'
import { smallBodyLimit } from './small-body-limit.ts'

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
  { config, clock, scheduler, log, masterKey }: ComposeContext,
  { general, lookups }: Database,
  { console: operator }: Operator,
): Console {
  const { publicBaseUrl } = config.server
  const mail = createPeopleMail({
    send: config.smtp.host === null ? null : createMailer(config.smtp, log).send,
    baseUrl: () => baseUrlOf(config),
  })
  const factors = createFactors({
    pool: general,
    clock,
    seal: (secret, ownerId) => sealSecret(masterKey, secret, { ownerId, purpose: 'totp' }),
    open: (sealed, ownerId) => openSecret(masterKey, sealed, { ownerId, purpose: 'totp' }),
  })
  const people = createPeople({ pool: general, lookups, clock, factors })
  const { signUp: mode, creditsPerNetworkPerDay, creditsPerDay } = config.accounts
  const members = createMembers({ pool: general, clock, mail, mayInvite: mode !== 'closed' })
  const signUp = createSignUp({
    pool: general,
    clock,
    mail,
    mode,
    caps: { perNetwork: creditsPerNetworkPerDay, perDay: creditsPerDay },
    openCustomer: (sql, email, open) => claimCustomer(sql, config, email, open),
    log,
  })
  const cookie = new SessionCookie(publicBaseUrl?.startsWith('https:') ?? false)
  const door = {
    needsSecondFactor: ({ person, hasSecondFactor }: SignedIn, request: FastifyRequest) =>
      person.installationRole !== null && !hasSecondFactor && !isLocalRequest(request, publicBaseUrl),
    bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
    clientOf: (request: FastifyRequest) => clientTrace(config, request),
    // The person who asks reads the answer, so the Host that the browser sent is right. Mails never use it.
    urlFor: ({ raw }: FastifyRequest, path: string) =>
      `${publicBaseUrl ?? `http://${headerValues(raw.rawHeaders, 'host')[0]}`}${path}`,
  }
  const watch = createLiveWatch({ sql: lookups, scheduler, log })
  return {
    watch,
    guard: createConsoleGuard({
      people,
      cookie,
      limiter: createReportLimiter({ requestsPerMinute: REQUESTS_PER_MINUTE, clock }),
      hosterRoleOf: (hosterId, personId) => hosterRoleOf(lookups, hosterId, personId).catch(refuseOutage),
      limitsOf: tier => limitsOfTier(config, tier),
      noteVisit: (signedIn, customerId, request) =>
        operator.noteVisit(signedIn, customerId, clientTrace(config, request).address),
      clock,
      needsSecondFactor: door.needsSecondFactor,
    }),
    endpoints: [
      live({ watch }),
      ...sessionEndpoints({ people, cookie, ...door }),
      ...peopleEndpoints({ members, ...door }),
      status({
        isPublic: config.status.isPublic,
        async isSignedIn({ raw }) {
          const token = cookie.read(raw.rawHeaders)
          return token !== undefined && (await people.find(token, null)) !== undefined
        },
        read: operator.status,
        clock,
      }),
      ...factorEndpoints({ factors, ...door }),
      ...signUpEndpoints({
        signUp,
        entry: createEntry({ people, cookie, ...door }),
        config: {
          sign_up: mode,
          has_mail: mail.canSend,
          base_url: publicBaseUrl,
          oidc_providers: [],
          has_passkeys: false,
        },
        ...door,
      }),
    ],
  }
}
