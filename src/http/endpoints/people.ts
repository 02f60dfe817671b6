import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { MadeKey } from '../../identity/auth/keys.ts'
import type { Members } from '../../identity/people/members.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import { changedLimit } from '../../wire/api/key-request.ts'
import {
  inviteList,
  madeInvite,
  madeKeys,
  member,
  memberList,
  parseInvite,
  parseKeysOfLeaver,
  parseMemberChange,
  removedMember,
  revokedInvite,
  showInvite,
  showMadeKey,
  showMember,
  showRemoved,
} from '../../wire/api/people.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

interface PeopleDeps {
  readonly members: Members
  /** Returns the keys in use that a member made, newest first. */
  readonly keysOf: (customerId: string, personId: string) => Promise<MadeKey[]>
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
  /** Turns the path of a link into a URL for the person who asks. */
  readonly urlFor: (request: FastifyRequest, path: string) => string
}

const PATH = 'customers/:customer_id'

/** The members of a customer and its invitations, for owners. */
export function peopleEndpoints({ members, keysOf, clientOf, bodyLimitBytes, urlFor }: PeopleDeps): Endpoint[] {
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted)
  const actorOf = ({ signedIn, caller, request }: EndpointContext) => ({
    signedIn,
    client: clientOf(request),
    customerId: caller.customerId,
  })
  const owner = { access: 'session', right: 'people' } as const

  return [
    consoleEndpoint('GET', `${PATH}/people`, {
      ...owner,
      doc: consoleDoc('List the members', memberList),
      handle: async ({ caller, signedIn }) => ({
        object: 'list',
        data: (await members.list(caller.customerId)).map(each => showMember(each, signedIn.person.personId)),
      }),
    }),
    consoleEndpoint('PATCH', `${PATH}/people/:person_id`, {
      ...owner,
      needsConfirmation: true,
      doc: consoleDoc('Change the role or the spend limit of a member', member),
      async handle(context) {
        const change = parseMemberChange(await body(context.request))
        const changed = await members.change(actorOf(context), idOf(context, 'person_id'), before => ({
          role: change.role,
          limit: changedLimit(before, change),
        }))
        return showMember(changed, context.signedIn.person.personId)
      },
    }),
    consoleEndpoint('DELETE', `${PATH}/people/:person_id`, {
      ...owner,
      needsConfirmation: true,
      doc: consoleDoc('Remove a member', removedMember),
      async handle(context) {
        const keys = parseKeysOfLeaver(context.request.query)
        return showRemoved(await members.remove(actorOf(context), idOf(context, 'person_id'), keys))
      },
    }),
    consoleEndpoint('GET', `${PATH}/people/:person_id/keys`, {
      ...owner,
      doc: consoleDoc('List the keys that a member made', madeKeys),
      handle: async context => ({
        object: 'list',
        data: (await keysOf(context.caller.customerId, idOf(context, 'person_id'))).map(showMadeKey),
      }),
    }),
    consoleEndpoint('POST', `${PATH}/leave`, {
      access: 'session',
      right: 'usage',
      doc: consoleDoc('End the own membership', removedMember),
      async handle(context) {
        return showRemoved(await members.remove(actorOf(context), context.signedIn.person.personId, 'revoke'))
      },
    }),
    consoleEndpoint('GET', `${PATH}/invites`, {
      ...owner,
      doc: consoleDoc('List the open invitations', inviteList),
      handle: async ({ caller }) => ({
        object: 'list',
        data: (await members.invites(caller.customerId)).map(showInvite),
      }),
    }),
    consoleEndpoint('POST', `${PATH}/invites`, {
      ...owner,
      needsConfirmation: true,
      doc: consoleDoc('Invite a person', madeInvite),
      async handle(context) {
        const { invite, isMailed, path } = await members.invite(
          actorOf(context),
          parseInvite(await body(context.request)),
        )
        const url = path === null ? null : urlFor(context.request, path)
        return { ...showInvite(invite), is_mailed: isMailed, url }
      },
    }),
    consoleEndpoint('DELETE', `${PATH}/invites/:invite_id`, {
      ...owner,
      doc: consoleDoc('Take back an invitation', revokedInvite),
      async handle(context) {
        await members.revokeInvite(actorOf(context), idOf(context, 'invite_id'))
        return { revoked: true }
      },
    }),
  ]
}

function idOf({ request }: EndpointContext, name: 'person_id' | 'invite_id'): string {
  const id = (request.params as Record<string, string>)[name]
  if (id === undefined || !UUID.test(id))
    throw new ApiError('not_found', { message: sayRefusal('refusal.nothing_with_id') })
  return id
}
