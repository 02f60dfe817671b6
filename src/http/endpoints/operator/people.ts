import type { FastifyRequest } from 'fastify'
import type { OperatorPeople } from '../../../operator/people.ts'
import { keyOfCursor } from '../../../wire/api/cursor.ts'
import { parseNothing } from '../../../wire/api/operator/customer-changes.ts'
import {
  blockResult,
  parseBlock,
  parseRole,
  peopleCursor,
  peoplePage,
  peopleQuery,
  roleChanges,
  roleResult,
} from '../../../wire/api/operator/people.ts'
import {
  madeOperatorInvite,
  operatorInviteList,
  parseOperatorInvite,
  revokedInvite,
  showInvite,
} from '../../../wire/api/people.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/**
 * People: blocked or not, and their roles on the installation. A change of a role needs a second operator where there
 * is one.
 */
export function operatorPeopleEndpoints(
  deps: OperatorEndpointDeps & {
    readonly people: OperatorPeople
    readonly urlFor: (request: FastifyRequest, path: string) => string
  },
): Endpoint[] {
  const { people } = deps
  const decision = (verb: 'approve' | 'reject', summary: string) =>
    operatorEndpoint(
      'POST',
      `role-changes/:change_id/${verb}`,
      { scope: null, summary, schema: roleResult, needsConfirmation: true },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        return people.decideRole(
          actorOf(deps, context),
          idOf(context.request, 'change_id', 'not_found'),
          verb === 'approve',
        )
      },
    )
  return [
    operatorEndpoint(
      'GET',
      'people',
      { scope: 'read', summary: 'List people', schema: peoplePage, query: peopleQuery },
      ({ request, signedIn }) => {
        const query = readQuery(peopleQuery, request.query)
        const after = keyOfCursor(query.cursor, peopleCursor)
        return people.list(query, after, signedIn.person.personId)
      },
    ),
    operatorEndpoint(
      'POST',
      'people/:person_id/block',
      { scope: 'settings', summary: 'Block a person', schema: blockResult, needsConfirmation: true },
      async context => {
        const { reason } = parseBlock(await bodyOf(deps, context.request))
        await people.block(actorOf(deps, context), idOf(context.request, 'person_id', 'not_found'), reason)
        return { is_blocked: true }
      },
    ),
    operatorEndpoint(
      'POST',
      'people/:person_id/unblock',
      { scope: 'settings', summary: 'Unblock a person', schema: blockResult, needsConfirmation: true },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        await people.unblock(actorOf(deps, context), idOf(context.request, 'person_id', 'not_found'))
        return { is_blocked: false }
      },
    ),
    operatorEndpoint(
      'POST',
      'people/:person_id/role',
      {
        scope: null,
        summary: 'Change the role of a person on the installation',
        schema: roleResult,
        needsConfirmation: true,
      },
      async context => {
        const { role } = parseRole(await bodyOf(deps, context.request))
        return people.setRole(actorOf(deps, context), idOf(context.request, 'person_id', 'not_found'), role)
      },
    ),
    operatorEndpoint(
      'GET',
      'invites',
      { scope: 'read', summary: 'List open invitations of operators and auditors', schema: operatorInviteList },
      async () => ({ object: 'list', data: (await people.invites()).map(showInvite) }),
    ),
    operatorEndpoint(
      'POST',
      'invites',
      {
        scope: null,
        summary: 'Invite an operator or auditor',
        schema: madeOperatorInvite,
        needsConfirmation: true,
      },
      async context => {
        const invitation = parseOperatorInvite(await bodyOf(deps, context.request))
        const { name, email } = context.signedIn.person
        const { invite, isMailed, path } = await people.invite(actorOf(deps, context), invitation, name || email)
        const url = path === null ? null : deps.urlFor(context.request, path)
        return { ...showInvite(invite), is_mailed: isMailed, url }
      },
    ),
    operatorEndpoint(
      'DELETE',
      'invites/:invite_id',
      {
        scope: null,
        summary: 'Take back an invitation of an operator or auditor',
        schema: revokedInvite,
        needsConfirmation: false,
      },
      async context => {
        await people.revokeInvite(actorOf(deps, context), idOf(context.request, 'invite_id', 'not_found'))
        return { revoked: true }
      },
    ),
    operatorEndpoint(
      'DELETE',
      'people/:person_id/invite',
      {
        scope: null,
        summary: 'Take back an accepted invitation that has given no role yet',
        schema: revokedInvite,
        needsConfirmation: false,
      },
      async context => {
        await people.dropInvite(actorOf(deps, context), idOf(context.request, 'person_id', 'not_found'))
        return { revoked: true }
      },
    ),
    operatorEndpoint(
      'GET',
      'role-changes',
      { scope: 'read', summary: 'List changes of roles that wait', schema: roleChanges },
      ({ signedIn }) => people.roleChanges(signedIn.person.personId),
    ),
    decision('approve', 'Approve a change of a role by another operator'),
    decision('reject', 'Reject or withdraw a change of a role'),
  ]
}
