import type { FastifyRequest } from 'fastify'
import type { HosterInvites, Inviter, SentInvite } from '../../../market/marketplace/hoster-invites.ts'
import { parseInvite } from '../../../wire/api/operator/customer-changes.ts'
import { invitedHoster, parseNewHoster } from '../../../wire/api/operator/supply.ts'
import { showInvite } from '../../../wire/api/people.ts'
import type { Endpoint, EndpointContext } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Invitations of hosters and of their members by the operator. */
export function operatorHosterInviteEndpoints(
  deps: OperatorEndpointDeps & {
    readonly hosterInvites: HosterInvites
    readonly urlFor: (request: FastifyRequest, path: string) => string
  },
): Endpoint[] {
  const { hosterInvites, urlFor } = deps
  const invites = (
    path: string,
    summary: string,
    send: (inviter: Inviter, context: EndpointContext) => Promise<SentInvite>,
  ) =>
    operatorEndpoint(
      'POST',
      path,
      { scope: 'supply', summary, schema: invitedHoster, needsConfirmation: true },
      async context => {
        const { signedIn, request } = context
        const { person } = signedIn
        const { hosterId, invite, isMailed, path } = await send(
          {
            actor: { actor: 'operator', ...actorOf(deps, context) },
            madeBy: { personId: person.personId, name: person.name || person.email },
            mayAdd: true,
          },
          context,
        )
        const url = path === null ? null : urlFor(request, path)
        return { hoster_id: hosterId, ...showInvite(invite), is_mailed: isMailed, url }
      },
    )

  return [
    invites('hosters', 'Make a hoster and invite its owner', async (inviter, { request }) =>
      hosterInvites.inviteNew(inviter, parseNewHoster(await bodyOf(deps, request))),
    ),
    invites('hosters/:hoster_id/invites', 'Invite a person to a hoster', async (inviter, { request }) =>
      hosterInvites.invite(inviter, idOf(request, 'hoster_id', 'not_found'), parseInvite(await bodyOf(deps, request))),
    ),
  ]
}
