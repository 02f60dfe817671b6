import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Authenticator } from '../auth/authenticator.ts'
import { ApiError } from '../domain/errors.ts'
import type { ReportLimiter } from '../limits/report-limiter.ts'
import type { Endpoint } from './endpoint.ts'

export interface Guard {
  /** The check in front of one endpoint; throws what refuses the request. */
  for(endpoint: Endpoint): (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/**
 * Who may call what: the one check of every endpoint but the chat, which is served past Fastify and asks the same authenticator by itself. Runs
 * before the body is read, so a stranger cannot make us read 4 MiB.
 */
export function createGuard(deps: { authenticator: Authenticator; reportLimiter: ReportLimiter }): Guard {
  return {
    for(endpoint) {
      if (endpoint.access === 'open') return async () => {}
      if (endpoint.access === 'loopback') {
        return async request => {
          if (!isLoopbackPeer(request)) throw new ApiError('not_found')
        }
      }
      return async request => {
        request.caller = await deps.authenticator.authenticate(request.raw.rawHeaders)
        if (endpoint.scope === 'manage' && !request.caller.access.mayManage) throw new ApiError('insufficient_scope')
        if (endpoint.isReport) deps.reportLimiter.take(request.caller.customerId)
      }
    },
  }
}

/** A forwarded request also comes from loopback, but on somebody's behalf. */
function isLoopbackPeer({ socket, headers }: FastifyRequest): boolean {
  const address = socket.remoteAddress ?? ''
  const isLocal = address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.')
  return isLocal && headers['x-forwarded-for'] === undefined && headers.forwarded === undefined
}
