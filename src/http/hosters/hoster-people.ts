import { z } from 'zod'
import { usd, usdPerMillion } from '../../base/domain/money.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { HosterKeyListing } from '../../market/marketplace/hoster-keys.ts'
import type { HosterTerms } from '../../market/marketplace/hoster-service.ts'
import {
  hosterKeyList,
  hosterKeyRequest,
  hosterMembers,
  hosterMemberships,
  issuedHosterKey,
  parseApplication,
  parseHosterKeyRequest,
  parseHosterMember,
  revokedHosterKey,
} from '../../wire/api/hosters.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { hosterEndpoint } from './hoster-endpoint.ts'
import { type HosterEndpointDeps, hosterActorOf, hosterBody } from './hoster-endpoints.ts'

const HOSTER = 'hosters/:hoster_id'
const json = { contentType: 'application/json' } as const

/** The keys of a hoster, for its programs and its people. */
export function hosterKeyEndpoints(deps: HosterEndpointDeps & { readonly clock: Clock }): Endpoint[] {
  const { service, clock } = deps
  const rights = { scope: 'manage', right: 'keys' } as const
  return [
    hosterEndpoint('GET', 'keys', {
      ...rights,
      doc: {
        operationId: 'listHosterKeys',
        summary: 'List the keys',
        description: 'Lists the keys of the hoster that are not revoked, newest first.',
        response: { ...json, schema: hosterKeyList, description: 'The keys.' },
      },
      handle: async ({ hoster: { hosterId } }) => ({
        object: 'list',
        data: (await service.keys(hosterId)).map(showKey),
      }),
    }),
    hosterEndpoint('POST', 'keys', {
      ...rights,
      needsConfirmation: true,
      doc: {
        operationId: 'createHosterKey',
        summary: 'Create a key',
        description: 'Only this response contains the key itself.',
        body: hosterKeyRequest,
        response: { ...json, schema: issuedHosterKey, description: 'The new key.' },
      },
      async handle(context) {
        const order = parseHosterKeyRequest(await hosterBody(deps, context), clock.epochMs())
        const issued = await service.issueKey(hosterActorOf(deps, context), context.hoster.hosterId, order)
        return { ...showKey(issued), key: issued.key }
      },
    }),
    hosterEndpoint('DELETE', 'keys/:key_id', {
      ...rights,
      doc: {
        operationId: 'revokeHosterKey',
        summary: 'Revoke a key',
        description: 'Revokes the key permanently, on all nodes within two seconds.',
        openapiPath: '/v1/hoster/keys/{key_id}',
        pathParameters: z.object({ key_id: z.string().meta({ description: 'UUID of the key.' }) }),
        errors: ['not_found'],
        response: { ...json, schema: revokedHosterKey, description: 'The key is revoked.' },
      },
      async handle(context) {
        const { key_id: id } = context.request.params as { key_id: string }
        await service.revokeKey(
          hosterActorOf(deps, context),
          context.hoster.hosterId,
          UUID.test(id) ? id.toLowerCase() : '',
        )
        return { id: id.toLowerCase(), revoked: true }
      },
    }),
  ]
}

/** Applications and members of hosters. Only people use these. */
export function hosterPeopleEndpoints(deps: HosterEndpointDeps): Endpoint[] {
  const { service } = deps
  const memberships = async ({ signedIn }: EndpointContext): Promise<z.infer<typeof hosterMemberships>> => ({
    data: (await service.memberships(signedIn.person.personId)).map(({ hosterId: id, ...rest }) => ({ id, ...rest })),
    terms: shownTerms(service.terms()),
  })
  const members = async (hosterId: string): Promise<z.infer<typeof hosterMembers>> => ({
    data: (await service.members(hosterId)).map(({ personId: id, joinedAt, ...rest }) => ({
      id,
      ...rest,
      joined_at: joinedAt.toISOString(),
    })),
  })
  return [
    consoleEndpoint('GET', 'hosters', {
      access: 'session',
      doc: consoleDoc('List the own hosters', hosterMemberships),
      handle: memberships,
    }),
    consoleEndpoint('POST', 'hosters', {
      access: 'session',
      needsConfirmation: true,
      doc: consoleDoc('Apply as a hoster', hosterMemberships),
      async handle(context) {
        const { personId } = context.signedIn.person
        const { name, server } = parseApplication(await hosterBody(deps, context))
        const actor = { actor: 'hoster', personId, keyId: null, address: deps.addressOf(context.request) } as const
        const id = await service.apply(actor, { name, server, personId })
        return { ...(await memberships(context)), id }
      },
    }),
    consoleEndpoint('GET', `${HOSTER}/people`, {
      access: 'session',
      hosterRight: 'people',
      doc: consoleDoc('List the members of a hoster', hosterMembers),
      handle: ({ hoster }) => members(hoster.hosterId),
    }),
    consoleEndpoint('POST', `${HOSTER}/people`, {
      access: 'session',
      hosterRight: 'people',
      needsConfirmation: true,
      doc: consoleDoc('Change or remove a member of a hoster', hosterMembers),
      async handle(context) {
        const { hosterId } = context.hoster
        const change = parseHosterMember(await hosterBody(deps, context))
        await service.changeMember(hosterActorOf(deps, context), hosterId, change)
        return members(hosterId)
      },
    }),
    consoleEndpoint('POST', `${HOSTER}/leave`, {
      access: 'session',
      hosterRight: 'read',
      doc: consoleDoc('End the own membership of a hoster', hosterMemberships),
      async handle(context) {
        await service.leave(hosterActorOf(deps, context), context.hoster.hosterId)
        return memberships(context)
      },
    }),
  ]
}

function showKey({ keyId, name, hint, scopes, createdAt, expiresAt }: HosterKeyListing) {
  return {
    id: keyId,
    name,
    hint,
    scopes: [...scopes],
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
  }
}

function shownTerms({ shareBps, holdDays, minNanos, maxPrice }: HosterTerms) {
  return {
    share_percent: shareBps / 100,
    hold_days: holdDays,
    min_payout_usd: usd(minNanos),
    max_input_usd_per_million: usdPerMillion(maxPrice.inputPicoPerToken),
    max_output_usd_per_million: usdPerMillion(maxPrice.outputPicoPerToken),
  }
}
