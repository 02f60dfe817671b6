import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { type StatusReport, statusReport } from '../../wire/api/status.ts'
import type { Endpoint } from '../endpoint.ts'

/** Everybody may ask, so the database is asked once in this time. */
const FRESH_MS = 10_000

/** GET /status.json: open if `status.public` is on, else for people who are signed in. */
export function status(deps: {
  readonly isPublic: boolean
  readonly isSignedIn: (request: FastifyRequest) => Promise<boolean>
  readonly read: () => Promise<StatusReport>
  readonly clock: Clock
}): Endpoint {
  const { clock } = deps
  let known: { readonly report: Promise<StatusReport>; readonly atMs: number } | undefined

  function latest(): Promise<StatusReport> {
    if (known === undefined || clock.monotonicMs() - known.atMs >= FRESH_MS) {
      const reading = { report: deps.read(), atMs: clock.monotonicMs() }
      known = reading
      reading.report.catch(() => {
        if (known === reading) known = undefined
      })
    }
    return known.report
  }

  return {
    method: 'GET',
    path: '/status.json',
    access: 'open',
    doc: {
      operationId: 'getStatus',
      summary: 'Show the state of models and servers',
      description:
        'The models, the servers with their uptime of 90 days, and incidents. Open if the operator sets `status.public`, otherwise for people who are signed in to the console.',
      tag: 'Service',
      errors: ['not_signed_in', 'database_unavailable'],
      response: { contentType: 'application/json', schema: statusReport, description: 'The state, at most 10 s old.' },
    },
    async handle({ request, reply }) {
      if (!deps.isPublic && !(await deps.isSignedIn(request))) throw new ApiError('not_signed_in')
      reply.header('cache-control', deps.isPublic ? `public, max-age=${FRESH_MS / 1_000}` : 'no-store')
      return latest()
    },
  }
}
