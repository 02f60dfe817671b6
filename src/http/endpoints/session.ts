import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { LinkEntry } from '../../identity/people/link-entry.ts'
import type { People } from '../../identity/people/people.ts'
import type { ClientTrace, OpenedSession, SignedIn } from '../../identity/people/sessions.ts'
import { requireGoodPassword } from '../../wire/api/console-body.ts'
import {
  invitationShown,
  parseConfirmation,
  parseInviteToken,
  parseJoin,
  parsePasswordChange,
  parseSignIn,
  parseWelcome,
  sessionList,
  session as sessionSchema,
} from '../../wire/api/session.ts'
import type { ConsoleCookie } from '../console/console-cookie.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import { type Entry, sessionOf } from '../console/entry.ts'
import type { PasskeyService } from '../console/passkey-service.ts'
import { requireConfirmation } from '../console/require-confirmation.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

const confirmation = z.object({ confirmed: z.literal(true) })

interface SessionDeps {
  readonly people: People
  readonly linkEntry: LinkEntry
  readonly passkeyService: PasskeyService
  readonly cookie: ConsoleCookie
  readonly entry: Entry
  readonly clock: Clock
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly needsSecondFactor: (signedIn: SignedIn, request: FastifyRequest) => boolean
  readonly bodyLimitBytes: number
}

/** The endpoints under /console/api for signing in and out. The OpenAPI document leaves these endpoints out. */
export function sessionEndpoints(deps: SessionDeps): Endpoint[] {
  const { people, linkEntry, passkeyService, entry: enter, clientOf } = deps
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), deps.bodyLimitBytes, uncounted)

  /** The second factor of a sign-in: a code, a passkey, or none yet. */
  const withProof = <T extends { passkey: AuthenticationResponseJSON | null }>(request: FastifyRequest, typed: T) => ({
    ...typed,
    passkey: typed.passkey === null ? null : passkeyService.signInProof(request, typed.passkey),
  })

  const enters = (path: string, summary: string, open: (context: EndpointContext) => Promise<OpenedSession>) =>
    consoleEndpoint('POST', path, {
      access: 'page',
      doc: consoleDoc(summary, sessionSchema),
      handle: async context => enter(context, await open(context)),
    })

  return [
    consoleEndpoint('GET', 'session', {
      access: 'session',
      doc: consoleDoc('Show the person and the memberships', sessionSchema),
      handle: async ({ signedIn, request }) => sessionOf(people, signedIn, deps.needsSecondFactor(signedIn, request)),
    }),
    enters('sign-in', 'Sign in', async ({ request }) =>
      people.signIn(withProof(request, parseSignIn(await body(request))), clientOf(request)),
    ),
    enters('welcome', 'Set the password of an operator', async ({ request }) =>
      linkEntry.welcome(parseWelcome(await body(request)), clientOf(request)),
    ),
    consoleEndpoint('POST', 'invite', {
      access: 'page',
      doc: consoleDoc('Show an invitation', invitationShown),
      async handle({ request }) {
        const { email, target, targetName, role, hasPassword } = await linkEntry.showInvite(
          parseInviteToken(await body(request)),
        )
        const leadsTo = {
          customer_email: 'customerId' in target ? targetName : null,
          hoster: 'hosterId' in target ? { id: target.hosterId, name: targetName } : null,
        }
        return { email, ...leadsTo, role, has_password: hasPassword }
      },
    }),
    enters('join', 'Accept an invitation', async ({ request }) => {
      const invite = parseJoin(await body(request))
      if ((await linkEntry.showInvite(invite.token)).hasPassword !== true) requireGoodPassword(invite.password)
      return linkEntry.join(withProof(request, invite), clientOf(request))
    }),
    consoleEndpoint('POST', 'sign-out', {
      access: 'session',
      doc: consoleDoc('Sign out', z.object({ signed_out: z.literal(true) })),
      async handle({ signedIn, request, reply }) {
        await people.signOut(signedIn, clientOf(request))
        reply.header('set-cookie', deps.cookie.clear())
        return { signed_out: true }
      },
    }),
    consoleEndpoint('POST', 'password', {
      access: 'session',
      doc: consoleDoc('Change the password', sessionSchema),
      async handle(context) {
        const { request, signedIn } = context
        const change = parsePasswordChange(await body(request))
        // A first password, of people who sign in with a passkey or another service.
        if (change.currentPassword === null) requireConfirmation(signedIn, deps.clock.epochMs())
        return enter(context, await people.changePassword(signedIn, change, clientOf(request)))
      },
    }),
    consoleEndpoint('POST', 'confirm', {
      access: 'session',
      doc: consoleDoc('Type the password or a code again, before a change that matters', confirmation),
      async handle({ signedIn, request, reply }) {
        const { passkey, ...others } = parseConfirmation(await body(request))
        const proof = passkey === null ? null : passkeyService.confirmProof(request, passkey, signedIn)
        const typed = { ...others, passkey: proof }
        deps.cookie.keep(reply, await people.confirm(signedIn, typed, clientOf(request)))
        return { confirmed: true }
      },
    }),
    ...listEndpoints(deps),
  ]
}

/** The sessions of the person that is signed in. */
function listEndpoints({ people, clientOf }: SessionDeps): Endpoint[] {
  return [
    consoleEndpoint('GET', 'sessions', {
      access: 'session',
      doc: consoleDoc('List the sessions of this person', sessionList),
      async handle({ signedIn }) {
        const sessions = await people.sessions(signedIn)
        return {
          object: 'list',
          data: sessions.map(({ sessionId, createdAt, lastSeenAt, userAgent, address }) => ({
            id: sessionId,
            is_current: sessionId === signedIn.sessionId,
            created_at: createdAt.toISOString(),
            last_seen_at: lastSeenAt.toISOString(),
            user_agent: userAgent,
            address,
          })),
        }
      },
    }),
    consoleEndpoint('DELETE', 'sessions/:session_id', {
      access: 'session',
      doc: consoleDoc('End a session', z.object({ ended: z.number() })),
      async handle({ signedIn, request }) {
        const { session_id: id } = request.params as { session_id: string }
        if (!UUID.test(id)) throw new ApiError('not_found', { message: sayRefusal('refusal.session_ended') })
        await people.endSession(signedIn, id, clientOf(request))
        return { ended: 1 }
      },
    }),
    consoleEndpoint('POST', 'sessions/end-others', {
      access: 'session',
      doc: consoleDoc('End all other sessions', z.object({ ended: z.number() })),
      handle: async ({ signedIn, request }) => ({ ended: await people.endOtherSessions(signedIn, clientOf(request)) }),
    }),
  ]
}
