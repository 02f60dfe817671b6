import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { HosterInvites } from '../../market/marketplace/hoster-invites.ts'
import { inviteList, madeInvite, parseInvite, revokedInvite, showInvite } from '../../wire/api/people.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint } from '../endpoint.ts'
import { type HosterEndpointDeps, hosterActorOf, hosterBody } from './hoster-endpoints.ts'

const PATH = 'hosters/:hoster_id/invites'

/** The invitations of a hoster, for its owners. */
export function hosterInviteEndpoints(
  deps: HosterEndpointDeps & {
    readonly invites: HosterInvites
    /** False: only the operator makes accounts. */
    readonly mayInvite: boolean
    readonly urlFor: (request: FastifyRequest, path: string) => string
  },
): Endpoint[] {
  const { invites, urlFor } = deps
  const owner = { access: 'session', hosterRight: 'people' } as const
  return [
    consoleEndpoint('GET', PATH, {
      ...owner,
      doc: consoleDoc('List the open invitations of a hoster', inviteList),
      handle: async ({ hoster }) => ({
        object: 'list',
        data: (await invites.list(hoster.hosterId)).map(showInvite),
      }),
    }),
    consoleEndpoint('POST', PATH, {
      ...owner,
      needsConfirmation: true,
      doc: consoleDoc('Invite a person to a hoster', madeInvite),
      async handle(context) {
        const { person } = context.signedIn
        const madeBy = { personId: person.personId, name: person.name || person.email }
        const inviter = { actor: hosterActorOf(deps, context), madeBy, mayAdd: deps.mayInvite }
        const invitation = parseInvite(await hosterBody(deps, context))
        const { invite, isMailed, path } = await invites.invite(inviter, context.hoster.hosterId, invitation)
        const url = path === null ? null : urlFor(context.request, path)
        return { ...showInvite(invite), is_mailed: isMailed, url }
      },
    }),
    consoleEndpoint('DELETE', `${PATH}/:invite_id`, {
      ...owner,
      doc: consoleDoc('Take back an invitation to a hoster', revokedInvite),
      async handle(context) {
        const { invite_id: id } = context.request.params as { invite_id: string }
        if (!UUID.test(id)) throw new ApiError('not_found')
        await invites.revoke(hosterActorOf(deps, context), context.hoster.hosterId, id.toLowerCase())
        return { revoked: true }
      },
    }),
  ]
}
