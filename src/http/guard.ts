import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from '../base/domain/errors.ts'
import type { Authenticator } from '../identity/auth/authenticator.ts'
import type { HosterAuthenticator } from '../market/marketplace/hoster-authenticator.ts'
import type { OperatorKeys } from '../operator/operator-keys.ts'
import type { MinuteLimiter } from '../request/limits/minute-limiter.ts'
import type { ConsoleGuard } from './console/console-guard.ts'
import type { Endpoint } from './endpoint.ts'

export interface Guard {
  /** Returns the check that runs before one endpoint. It throws an ApiError to refuse a request. */
  for(endpoint: Endpoint): (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/**
 * Creates the access check of all Fastify endpoints. Generation endpoints bypass Fastify and call the same
 * authenticator themselves. The check runs before the body is read, so that a request without a key cannot
 * make the gateway read a large body.
 */
export function createGuard(deps: {
  authenticator: Authenticator
  hosterAuthenticator: HosterAuthenticator
  operatorKeys: Pick<OperatorKeys, 'authenticate'>
  /** Counts requests of programs that generate nothing. */
  limiter: MinuteLimiter
  consoleGuard: ConsoleGuard
  /** Resolves when the charges of this customer on this node are committed. Undefined when they are. */
  committed: (customerId: string) => Promise<void> | undefined
}): Guard {
  return {
    for(endpoint) {
      if (endpoint.access === 'open') return async () => {}
      if (endpoint.access === 'hoster_key') {
        const scope = endpoint.hosterScope ?? 'manage'
        return async (request, reply) => {
          forbidStoring(reply)
          request.hoster = await deps.hosterAuthenticator.authenticate(request.raw.rawHeaders, scope)
          if (endpoint.isReport) deps.limiter.take(request.hoster.hosterId, 'requests of a hoster')
        }
      }
      if (endpoint.access === 'operator_key') {
        const { operatorScope: scope } = endpoint
        if (scope == null) throw new Error(`${endpoint.path} has no scope`)
        return async (request, reply) => {
          forbidStoring(reply)
          request.signedIn = await deps.operatorKeys.authenticate(request.raw.rawHeaders, scope)
          deps.limiter.take(request.signedIn.sessionId, 'requests with an operator key')
        }
      }
      if (endpoint.access !== 'key') {
        return async (request, reply) => {
          forbidStoring(reply)
          await deps.consoleGuard.check(endpoint, request)
          if (endpoint.showsCharges) await deps.committed(request.caller!.customerId)
        }
      }
      return async (request, reply) => {
        forbidStoring(reply)
        request.caller = await deps.authenticator.authenticate(request.raw.rawHeaders)
        if (endpoint.scope === 'manage' && !request.caller.access.mayManage) throw new ApiError('insufficient_scope')
        if (endpoint.isReport) deps.limiter.take(request.caller.customerId, 'requests that generate nothing')
        // A client that has read an answer expects to find it in a report.
        if (endpoint.showsCharges) await deps.committed(request.caller.customerId)
      }
    },
  }
}

/** Keeps what only the caller may see out of the caches of browsers and proxies. */
function forbidStoring(reply: FastifyReply): void {
  reply.header('cache-control', 'no-store')
}
