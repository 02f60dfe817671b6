import { z } from 'zod'
import { ApiError } from '../../domain/errors.ts'
import type { Endpoint } from '../endpoint.ts'

const status = z.object({ status: z.literal('ok') }).meta({ id: 'Health', examples: [{ status: 'ok' }] })

/** GET /healthz: the process is alive. Asks nobody, so that an outage of the database does not get it restarted. */
export function healthz(): Endpoint {
  return {
    method: 'GET',
    path: '/healthz',
    access: 'open',
    doc: {
      operationId: 'getHealth',
      summary: 'Is the process alive?',
      tag: 'Service',
      response: { contentType: 'application/json', schema: status, description: 'It is.' },
    },
    handle: () => ({ status: 'ok' }),
  }
}

/** GET /readyz: 503 while it drains or cannot reach the database, so that load balancers send requests elsewhere. */
export function readyz(deps: { isDraining: () => boolean; pingDatabase: () => Promise<unknown> }): Endpoint {
  return {
    method: 'GET',
    path: '/readyz',
    access: 'open',
    doc: {
      operationId: 'getReadiness',
      summary: 'Can it take requests?',
      tag: 'Service',
      errors: ['server_shutdown', 'database_unavailable'],
      response: { contentType: 'application/json', schema: status, description: 'It can.' },
    },
    async handle() {
      if (deps.isDraining()) throw new ApiError('server_shutdown', { message: 'Draining: no new requests are taken.' })
      try {
        await deps.pingDatabase()
      } catch (internal) {
        throw new ApiError('database_unavailable', { message: 'The database does not answer.', internal })
      }
      return { status: 'ok' }
    },
  }
}

/** GET /metrics in the text format of Prometheus. */
export function metricsText(deps: { contentType: string; text: () => Promise<string> }): Endpoint {
  return {
    method: 'GET',
    path: '/metrics',
    access: 'loopback',
    doc: {
      operationId: 'getMetrics',
      summary: 'Metrics for Prometheus',
      description: 'Answers direct connections from the same machine only; through a proxy there is nothing here.',
      tag: 'Service',
      response: { contentType: 'text/plain', schema: z.string(), description: 'The metrics.' },
    },
    handle({ reply }) {
      reply.type(deps.contentType)
      return deps.text()
    },
  }
}
