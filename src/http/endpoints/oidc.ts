import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { Identities } from '../../identity/people/identities.ts'
import type { OidcAttempt } from '../../identity/people/oidc-attempt.ts'
import type { OidcSignIn } from '../../identity/people/oidc-sign-in.ts'
import type { People } from '../../identity/people/people.ts'
import type { ClientTrace, SignedIn } from '../../identity/people/sessions.ts'
import {
  oidcFinished,
  oidcStarted,
  parseOidcFactor,
  parseOidcFinish,
  parseOidcStart,
  unlinkedIdentity,
} from '../../wire/api/oidc.ts'
import { session } from '../../wire/api/session.ts'
import type { ConsoleCookie } from '../console/console-cookie.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Entry } from '../console/entry.ts'
import type { PasskeyService } from '../console/passkey-service.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

interface OidcDeps {
  readonly people: People
  readonly oidcSignIn: OidcSignIn
  readonly identities: Identities
  readonly passkeyService: PasskeyService
  readonly cookie: ConsoleCookie
  /** Keeps an attempt while the person is at the service. */
  readonly oidcCookie: ConsoleCookie
  /** Keeps a sign-in that waits for the second factor. */
  readonly factorCookie: ConsoleCookie
  readonly entry: Entry
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly urlFor: (request: FastifyRequest, path: string) => string
  readonly bodyLimitBytes: number
}

/** The page of the console that services send the browser to. */
const REDIRECT_PATH = '/oidc'

/**
 * Sign-in with other services, and the services of the person. No GET changes anything: a page of the console posts the
 * answer of the service.
 */
export function oidcEndpoints(deps: OidcDeps): Endpoint[] {
  const { people, oidcSignIn, identities, clientOf } = deps
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), deps.bodyLimitBytes, uncounted)

  async function start(
    { request, reply }: Pick<EndpointContext, 'request' | 'reply'>,
    purpose: OidcAttempt['purpose'],
    signedIn: SignedIn | null,
  ) {
    const order = parseOidcStart(await body(request))
    const redirectUri = deps.urlFor(request, REDIRECT_PATH)
    const { url, cookie, expiresAt } = await oidcSignIn.start({ ...order, purpose, redirectUri }, signedIn)
    reply.header('set-cookie', deps.oidcCookie.write(cookie, expiresAt))
    return { url }
  }

  const signedInOf = async ({ raw }: FastifyRequest) => {
    const token = deps.cookie.read(raw.rawHeaders)
    return token === undefined ? null : ((await people.find(token, null))?.signedIn ?? null)
  }

  return [
    consoleEndpoint('POST', 'oidc/start', {
      access: 'page',
      doc: consoleDoc('Sign in with another service', oidcStarted),
      handle: context => start(context, 'sign-in', null),
    }),
    consoleEndpoint('POST', 'oidc/finish', {
      access: 'page',
      doc: consoleDoc('Take the answer of a service', oidcFinished),
      async handle(context) {
        const { request, reply } = context
        const query = parseOidcFinish(await body(request))
        const cookie = deps.oidcCookie.read(request.raw.rawHeaders)
        const answer = { cookie, query, signedIn: await signedInOf(request) }
        const outcome = await oidcSignIn.finish(answer, clientOf(request))
        reply.header('set-cookie', deps.oidcCookie.clear())
        if (outcome.kind === 'entered') await deps.entry(context, outcome.opened)
        if (outcome.kind === 'confirmed' || outcome.kind === 'linked') deps.cookie.keep(reply, outcome.opened)
        if (outcome.kind === 'factor') {
          reply.header('set-cookie', deps.factorCookie.write(outcome.token, outcome.expiresAt))
        }
        const param = outcome.kind === 'factor' ? outcome.param : null
        return { outcome: outcome.kind, param, return_to: outcome.returnTo }
      },
    }),
    consoleEndpoint('POST', 'oidc/factor', {
      access: 'page',
      doc: consoleDoc('Finish a sign-in with the second factor', session),
      async handle(context) {
        const { request, reply } = context
        const { code, passkey } = parseOidcFactor(await body(request))
        const proof = passkey === null ? null : deps.passkeyService.signInProof(request, passkey)
        const token = deps.factorCookie.read(request.raw.rawHeaders)
        const opened = await oidcSignIn.finishFactor({ token, code, passkey: proof }, clientOf(request))
        reply.header('set-cookie', deps.factorCookie.clear())
        return deps.entry(context, opened)
      },
    }),
    consoleEndpoint('POST', 'oidc/confirm/start', {
      access: 'session',
      doc: consoleDoc('Confirm a change at another service', oidcStarted),
      handle: context => start(context, 'confirm', context.signedIn),
    }),
    consoleEndpoint('POST', 'identities/start', {
      access: 'session',
      needsConfirmation: true,
      doc: consoleDoc('Link another service', oidcStarted),
      handle: context => start(context, 'link', context.signedIn),
    }),
    consoleEndpoint('DELETE', 'identities/:identity_id', {
      access: 'session',
      needsConfirmation: true,
      doc: consoleDoc('Unlink a service', unlinkedIdentity),
      async handle({ request, reply, signedIn }) {
        const { identity_id: id } = request.params as { identity_id: string }
        if (!UUID.test(id)) throw new ApiError('not_found', { message: sayRefusal('refusal.service_not_linked') })
        deps.cookie.keep(reply, await identities.unlink(signedIn, id, clientOf(request)))
        return { unlinked: true }
      },
    }),
  ]
}
