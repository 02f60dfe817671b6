import type { FastifyReply, FastifyRequest } from 'fastify'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Factors, RenewedCodes } from '../../identity/people/factors.ts'
import type { Identities } from '../../identity/people/identities.ts'
import type { Passkeys } from '../../identity/people/passkeys.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import { factors as factorsSchema, parseCode, recoveryCodes, removedFactor, totpStart } from '../../wire/api/factors.ts'
import type { ConsoleCookie } from '../console/console-cookie.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

/** The second factors of the person. */
export function factorEndpoints({
  factors,
  passkeys,
  identities,
  cookie,
  clientOf,
  bodyLimitBytes,
}: {
  readonly factors: Factors
  readonly passkeys: Passkeys
  readonly identities: Identities
  readonly cookie: ConsoleCookie
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
}): Endpoint[] {
  const confirmed = { access: 'session', needsConfirmation: true } as const
  const renewed = (reply: FastifyReply, { codes, opened }: RenewedCodes) => {
    cookie.keep(reply, opened)
    return { recovery_codes: codes }
  }
  return [
    consoleEndpoint('GET', 'factors', {
      access: 'session',
      doc: consoleDoc('Show the second factors', factorsSchema),
      async handle({ signedIn }) {
        const { personId } = signedIn.person
        const { hasPassword, hasTotp, recoveryCodesLeft } = await factors.show(personId)
        const [listed, linked] = [await passkeys.list(personId), await identities.list(personId)]
        return {
          has_password: hasPassword,
          has_totp: hasTotp,
          passkeys: listed.map(({ passkeyId, name, createdAt, lastUsedAt }) => ({
            id: passkeyId,
            name,
            created_at: createdAt.toISOString(),
            last_used_at: lastUsedAt?.toISOString() ?? null,
          })),
          identities: linked.map(({ identityId, provider, email, createdAt, lastUsedAt }) => ({
            id: identityId,
            provider,
            email,
            created_at: createdAt.toISOString(),
            last_used_at: lastUsedAt.toISOString(),
          })),
          recovery_codes_left: recoveryCodesLeft,
          is_in_use: signedIn.hasSecondFactor,
        }
      },
    }),
    consoleEndpoint('POST', 'factors/totp/start', {
      ...confirmed,
      doc: consoleDoc('Make a secret for an authenticator app', totpStart),
      handle: ({ signedIn }) => factors.startTotp(signedIn),
    }),
    consoleEndpoint('POST', 'factors/totp', {
      ...confirmed,
      doc: consoleDoc('Add the authenticator app', recoveryCodes),
      async handle({ signedIn, request, reply }) {
        const code = parseCode(await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted))
        return renewed(reply, await factors.finishTotp(signedIn, code, clientOf(request)))
      },
    }),
    consoleEndpoint('DELETE', 'factors/totp', {
      ...confirmed,
      doc: consoleDoc('Remove the authenticator app', removedFactor),
      async handle({ signedIn, request, reply }) {
        cookie.keep(reply, await factors.removeTotp(signedIn, clientOf(request)))
        return { removed: true }
      },
    }),
    consoleEndpoint('POST', 'factors/recovery-codes', {
      ...confirmed,
      doc: consoleDoc('Replace the recovery codes', recoveryCodes),
      handle: async ({ signedIn, request, reply }) =>
        renewed(reply, await factors.renewRecoveryCodes(signedIn, clientOf(request))),
    }),
  ]
}
