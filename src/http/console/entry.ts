import type { FastifyRequest } from 'fastify'
import { DAY_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { firstFactorCommand } from '../../identity/people/factors.ts'
import type { People } from '../../identity/people/people.ts'
import type { ClientTrace, OpenedSession, SignedIn } from '../../identity/people/sessions.ts'
import { type SignedInSession, showSession } from '../../wire/api/session.ts'
import type { EndpointContext } from '../endpoint.ts'
import type { ConsoleCookie } from './console-cookie.ts'

/** Browsers keep no cookie for longer. */
const DEVICE_MS = 400 * DAY_MS

/** Sets the cookie of a new session, and answers like `GET /console/api/session`. */
export type Entry = (
  context: Pick<EndpointContext, 'request' | 'reply'>,
  opened: OpenedSession,
) => Promise<SignedInSession>

export function createEntry(deps: {
  readonly people: People
  readonly cookie: ConsoleCookie
  /** Stays in the browser when its session ends, so that accounts of one browser are known to belong together. */
  readonly deviceCookie: ConsoleCookie
  readonly clock: Clock
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly needsSecondFactor: (signedIn: SignedIn, request: FastifyRequest) => boolean
}): Entry {
  const { people, cookie, deviceCookie, clock, clientOf, needsSecondFactor } = deps

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
    cookie.keep(reply, opened)
    const { signedIn } = found
    const device = await people.noteDevice(signedIn.person.personId, deviceCookie.read(request.raw.rawHeaders))
    reply.header('set-cookie', deviceCookie.write(device, new Date(clock.epochMs() + DEVICE_MS)))
    return sessionOf(people, signedIn, needsSecondFactor(signedIn, request))
  }
}

/** Returns what `GET /console/api/session` answers to a person. */
export async function sessionOf(
  people: Pick<People, 'memberships' | 'invitedRole'>,
  signedIn: SignedIn,
  needsSecondFactor: boolean,
): Promise<SignedInSession> {
  const { personId } = signedIn.person
  return showSession(signedIn, await people.memberships(personId), {
    needsSecondFactor,
    firstFactorCommand: firstFactorCommand(signedIn),
    invitedRole: await people.invitedRole(personId),
  })
}
