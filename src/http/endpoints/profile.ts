import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Profile } from '../../identity/people/profile.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import { parseEmailToken, parseName, parseNewEmail } from '../../wire/api/profile.ts'
import { mailed } from '../../wire/api/sign-up.ts'
import type { ConsoleCookie } from '../console/console-cookie.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

const changed = z.object({ changed: z.literal(true) })

/** The name and the e-mail address of the person. */
export function profileEndpoints({
  profile,
  cookie,
  clientOf,
  bodyLimitBytes,
}: {
  readonly profile: Profile
  readonly cookie: ConsoleCookie
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
}): Endpoint[] {
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted)
  return [
    consoleEndpoint('PATCH', 'person', {
      access: 'session',
      doc: consoleDoc('Change the name', changed),
      async handle({ request, signedIn }) {
        await profile.changeName(signedIn, parseName(await body(request)), clientOf(request))
        return { changed: true }
      },
    }),
    consoleEndpoint('POST', 'person/email', {
      access: 'session',
      needsConfirmation: true,
      doc: consoleDoc('Mail a link to a new address', mailed),
      async handle({ request, signedIn }) {
        await profile.startEmail(signedIn, parseNewEmail(await body(request)), clientOf(request))
        return { mailed: true }
      },
    }),
    consoleEndpoint('POST', 'person/email/confirm', {
      access: 'session',
      doc: consoleDoc('Change the address', changed),
      async handle({ request, reply, signedIn }) {
        const opened = await profile.finishEmail(signedIn, parseEmailToken(await body(request)), clientOf(request))
        cookie.keep(reply, opened)
        return { changed: true }
      },
    }),
  ]
}
