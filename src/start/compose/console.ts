import { limitsOfTier } from '../../config/config.ts'
import { type ConsoleGuard, createConsoleGuard } from '../../http/console/console-guard.ts'
import { SessionCookie } from '../../http/console/session-cookie.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { sessionEndpoints } from '../../http/endpoints/session.ts'
import { createReportLimiter } from '../../limits/report-limiter.ts'
import { createPeople } from '../../people/people.ts'
import { clientAddressOf } from '../../runtime/client-address.ts'
import { headerValues } from '../../runtime/header-values.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import { smallBodyLimit } from './small-body-limit.ts'

/** Signed-in people, and the endpoints under /console/api. */
export interface Console {
  readonly guard: ConsoleGuard
  readonly endpoints: readonly Endpoint[]
}

/** How often a person may ask. A screen asks for about six things, and reloads them when they change. */
const REQUESTS_PER_MINUTE = 600
const USER_AGENT_CHARACTERS_MAX = 300

export function createConsole({ config, clock }: ComposeContext, { general, lookups }: Database): Console {
  const people = createPeople({ pool: general, lookups, clock })
  const cookie = new SessionCookie(config.server.publicBaseUrl?.startsWith('https:') ?? false)
  return {
    guard: createConsoleGuard({
      people,
      cookie,
      limiter: createReportLimiter({ requestsPerMinute: REQUESTS_PER_MINUTE, clock }),
      limitsOf: tier => limitsOfTier(config, tier),
    }),
    endpoints: sessionEndpoints({
      people,
      cookie,
      bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
      clientOf: ({ raw }) => ({
        address: clientAddressOf(
          raw.socket.remoteAddress ?? '',
          headerValues(raw.rawHeaders, 'x-forwarded-for'),
          config.server.trustedProxies,
        ),
        userAgent: (headerValues(raw.rawHeaders, 'user-agent')[0] ?? '').slice(0, USER_AGENT_CHARACTERS_MAX),
      }),
    }),
  }
}
