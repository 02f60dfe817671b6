import { limitsOfTier } from '../../config/config.ts'
import { type ConsoleGuard, createConsoleGuard } from '../../http/console/console-guard.ts'
import { SessionCookie } from '../../http/console/session-cookie.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { sessionEndpoints } from '../../http/endpoints/session.ts'
import { createReportLimiter } from '../../limits/report-limiter.ts'
import { createPeople } from '../../people/people.ts'
import { clientTrace } from './client-trace.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Operator } from './operator.ts'
import { smallBodyLimit } from './small-body-limit.ts'

/** Signed-in people, and the endpoints under /console/api. */
export interface Console {
  readonly guard: ConsoleGuard
  readonly endpoints: readonly Endpoint[]
}

/** How often a person may ask. A screen asks for about six things, and reloads them when they change. */
const REQUESTS_PER_MINUTE = 600

export function createConsole(
  { config, clock }: ComposeContext,
  { general, lookups }: Database,
  { console: operator }: Operator,
): Console {
  const people = createPeople({ pool: general, lookups, clock })
  const cookie = new SessionCookie(config.server.publicBaseUrl?.startsWith('https:') ?? false)
  return {
    guard: createConsoleGuard({
      people,
      cookie,
      limiter: createReportLimiter({ requestsPerMinute: REQUESTS_PER_MINUTE, clock }),
      limitsOf: tier => limitsOfTier(config, tier),
      noteVisit: (signedIn, customerId, request) =>
        operator.noteVisit(signedIn, customerId, clientTrace(config, request).address),
    }),
    endpoints: sessionEndpoints({
      people,
      cookie,
      bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
      clientOf: request => clientTrace(config, request),
    }),
  }
}
