import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import type { Endpoint } from '../endpoint.ts'

const status = z.object({ status: z.literal('ok') }).meta({ id: 'Health', examples: [{ status: 'ok' }] })

/**
 * GET /healthz: the process is alive. Depends on nothing else, so that a database outage does not cause a
 * restart.
 */
export function healthz(): Endpoint {
  return {
    method: 'GET',
    path: '/healthz',
    access: 'open',
    doc: {
      operationId: 'getHealth',
      summary: 'Check liveness',
      description: 'Answers as long as the process runs. Does not ask the database.',
      tag: 'Service',
      response: { contentType: 'application/json', schema: status, description: 'The process is alive.' },
    },
    handle: () => ({ status: 'ok' }),
  }
}

/**
 * GET /readyz: 503 once the process is about to stop, and while it cannot reach the database, so that load balancers
 * choose another node.
 */
export function readyz(deps: { isClosing: () => boolean; pingDatabase: () => Promise<unknown> }): Endpoint {
  return {
    method: 'GET',
    path: '/readyz',
    access: 'open',
    doc: {
      operationId: 'getReadiness',
      summary: 'Check readiness',
      description:
        'Answers 503 once the process is about to stop, and while it cannot reach its database, so that a load balancer sends requests to another node.',
      tag: 'Service',
      errors: ['server_shutdown', 'database_unavailable'],
      response: { contentType: 'application/json', schema: status, description: 'The process accepts requests.' },
    },
    async handle() {
      if (deps.isClosing()) throw new ApiError('server_shutdown', { message: 'This node is about to stop.' })
      try {
        await deps.pingDatabase()
      } catch (internal) {
        throw new ApiError('database_unavailable', { message: 'The database does not respond.', internal })
      }
      return { status: 'ok' }
    },
  }
}
