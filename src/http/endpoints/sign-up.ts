import type { FastifyRequest } from 'fastify'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import type { SignUp } from '../../identity/people/sign-up.ts'
import { session } from '../../wire/api/session.ts'
import {
  type ConsoleConfig,
  consoleConfig,
  mailed,
  parseEmail,
  parseReset,
  parseToken,
  parseVerify,
  passwordSet,
  signUpShown,
} from '../../wire/api/sign-up.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Entry } from '../console/entry.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

interface SignUpDeps {
  readonly signUp: SignUp
  readonly entry: Entry
  readonly configFor: (request: FastifyRequest) => ConsoleConfig
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
}

/** The endpoints of the pages outside: sign-up, verification, a forgotten password. */
export function signUpEndpoints({ signUp, entry, configFor, clientOf, bodyLimitBytes }: SignUpDeps): Endpoint[] {
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted)
  return [
    consoleEndpoint('GET', 'config', {
      access: 'page',
      doc: consoleDoc('Show how people get in', consoleConfig),
      handle: ({ request }) => configFor(request),
    }),
    consoleEndpoint('POST', 'sign-up', {
      access: 'page',
      doc: consoleDoc('Mail a link to sign up', mailed),
      async handle({ request }) {
        await signUp.start(parseEmail(await body(request)), clientOf(request))
        return { mailed: true }
      },
    }),
    consoleEndpoint('POST', 'sign-up/link', {
      access: 'page',
      doc: consoleDoc('Show the address of a sign-up link', signUpShown),
      handle: async ({ request }) => ({ email: await signUp.show(parseToken(await body(request))) }),
    }),
    consoleEndpoint('POST', 'verify', {
      access: 'page',
      doc: consoleDoc('Make the account of a sign-up link', session),
      handle: async context =>
        entry(context, await signUp.finish(parseVerify(await body(context.request)), clientOf(context.request))),
    }),
    consoleEndpoint('POST', 'forgot', {
      access: 'page',
      doc: consoleDoc('Mail a link to set a new password', mailed),
      async handle({ request }) {
        await signUp.forgot(parseEmail(await body(request)), clientOf(request))
        return { mailed: true }
      },
    }),
    consoleEndpoint('POST', 'reset', {
      access: 'page',
      doc: consoleDoc('Set a new password', passwordSet),
      async handle({ request }) {
        await signUp.reset(parseReset(await body(request)), clientOf(request))
        return { reset: true }
      },
    }),
  ]
}
