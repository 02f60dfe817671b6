import type { FastifyRequest } from 'fastify'
import { type SignedInSession, showSession } from '../../api/session.ts'
import { ApiError } from '../../domain/errors.ts'
import type { People } from '../../people/people.ts'
import type { ClientTrace, OpenedSession, SignedIn } from '../../people/sessions.ts'
import type { EndpointContext } from '../endpoint.ts'
import type { ConsoleCookie } from './console-cookie.ts'

/** Sets the cookie of a new session, and answers like `GET /console/api/session`. */
export type Entry = (
  context: Pick<EndpointContext, 'request' | 'reply'>,
  opened: OpenedSession,
) => Promise<SignedInSession>

export function createEntry(deps: {
  readonly people: People
  readonly cookie: ConsoleCookie
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly needsSecondFactor: (signedIn: SignedIn, request: FastifyRequest) => boolean
}): Entry {
  const { people, cookie, clientOf, needsSecondFactor } = deps

  /** Ends the session that the browser had before, so that no forgotten one stays open. */
  async function leave(request: FastifyRequest, sessionId: string) {
    const token = cookie.read(request.raw.rawHeaders)
    const before = token === undefined ? undefined : await people.find(token, null)
    if (before !== undefined && before.signedIn.sessionId !== sessionId)
      await people.signOut(before.signedIn, clientOf(request))
  }

  return async ({ request, reply }, opened) => {
    const found = await people.find(opened.token, null)
    if (found === undefined) throw new ApiError('not_signed_in')
    await leave(request, opened.sessionId)
    reply.header('set-cookie', cookie.write(opened.token, opened.expiresAt))
    const { signedIn } = found
    return showSession(
      signedIn,
      await people.memberships(signedIn.person.personId),
      needsSecondFactor(signedIn, request),
    )
  }
}
