import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { mintBrowserSecret, type Passkeys } from '../../identity/people/passkeys.ts'
import type { People } from '../../identity/people/people.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import { removedFactor } from '../../wire/api/factors.ts'
import {
  addedPasskey,
  changedPasskey,
  parseNewPasskey,
  parsePasskey,
  parsePasskeyName,
  passkeyOptions,
} from '../../wire/api/passkeys.ts'
import { session } from '../../wire/api/session.ts'
import type { ConsoleCookie } from '../console/console-cookie.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Entry } from '../console/entry.ts'
import type { PasskeyService } from '../console/passkey-service.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

interface PasskeyDeps {
  readonly people: People
  readonly passkeys: Passkeys
  readonly passkeyService: PasskeyService
  readonly cookie: ConsoleCookie
  /** Keeps the secret of a browser while it signs in. */
  readonly passkeyCookie: ConsoleCookie
  readonly entry: Entry
  readonly clock: Clock
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
}

/** How long a browser keeps the secret. Its challenges end earlier. */
const COOKIE_MS = 600_000

/** Passkeys: to sign in, to confirm a change, and those of the person. */
export function passkeyEndpoints(deps: PasskeyDeps): Endpoint[] {
  const { people, passkeys, passkeyService, clientOf } = deps
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), deps.bodyLimitBytes, uncounted)
  const confirmed = { access: 'session', needsConfirmation: true } as const

  return [
    consoleEndpoint('POST', 'passkeys/sign-in/start', {
      access: 'page',
      doc: consoleDoc('Ask for a passkey to sign in', passkeyOptions),
      async handle({ request, reply }) {
        const site = passkeyService.site(request)
        const secret = mintBrowserSecret()
        reply.header('set-cookie', deps.passkeyCookie.write(secret, new Date(deps.clock.epochMs() + COOKIE_MS)))
        return passkeys.signInOptions(secret, site)
      },
    }),
    consoleEndpoint('POST', 'passkeys/sign-in', {
      access: 'page',
      doc: consoleDoc('Sign in with a passkey', session),
      async handle(context) {
        const { request } = context
        const proof = passkeyService.signInProof(request, parsePasskey(await body(request)))
        return deps.entry(context, await people.signInWithPasskey(proof, clientOf(request)))
      },
    }),
    consoleEndpoint('POST', 'passkeys/confirm/start', {
      access: 'session',
      doc: consoleDoc('Ask for a passkey of the person', passkeyOptions),
      handle: ({ request, signedIn }) => passkeys.confirmOptions(signedIn, passkeyService.site(request)),
    }),
    consoleEndpoint('POST', 'factors/passkeys/start', {
      ...confirmed,
      doc: consoleDoc('Ask the browser to make a passkey', passkeyOptions),
      handle: ({ request, signedIn }) => passkeys.registerOptions(signedIn, passkeyService.site(request)),
    }),
    consoleEndpoint('POST', 'factors/passkeys', {
      ...confirmed,
      doc: consoleDoc('Add a passkey', addedPasskey),
      async handle({ request, reply, signedIn }) {
        const made = { ...parseNewPasskey(await body(request)), site: passkeyService.site(request) }
        const { codes, opened } = await passkeys.register(signedIn, made, clientOf(request))
        deps.cookie.keep(reply, opened)
        return { recovery_codes: codes }
      },
    }),
    consoleEndpoint('PATCH', 'factors/passkeys/:passkey_id', {
      access: 'session',
      doc: consoleDoc('Rename a passkey', changedPasskey),
      async handle({ request, signedIn }) {
        await passkeys.rename(signedIn, idOf(request), parsePasskeyName(await body(request)), clientOf(request))
        return { changed: true }
      },
    }),
    consoleEndpoint('DELETE', 'factors/passkeys/:passkey_id', {
      ...confirmed,
      doc: consoleDoc('Remove a passkey', removedFactor),
      async handle({ request, reply, signedIn }) {
        deps.cookie.keep(reply, await passkeys.remove(signedIn, idOf(request), clientOf(request)))
        return { removed: true }
      },
    }),
  ]
}

function idOf({ params }: FastifyRequest): string {
  const { passkey_id: id } = params as { passkey_id: string }
  if (!UUID.test(id)) throw new ApiError('not_found', { message: sayRefusal('refusal.no_passkey') })
  return id
}
