import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { hosterCodes } from '../../base/domain/hoster-sentences.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { StateActor } from '../../market/marketplace/change-hoster-state.ts'
import type { HosterService } from '../../market/marketplace/hoster-service.ts'
import { manifest, manifestQuery, parseManifest, storedManifest } from '../../wire/api/hoster-manifest.ts'
import { verification } from '../../wire/api/hoster-verification.ts'
import { ownHoster, parseServer, parseStateRequest, serverRequest, stateRequest } from '../../wire/api/hosters.ts'
import { readQuery } from '../../wire/api/reports.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'
import { hosterEndpoint } from './hoster-endpoint.ts'

export interface HosterEndpointDeps {
  readonly service: HosterService
  /** The address of the client, as proxies report it. */
  readonly addressOf: (request: FastifyRequest) => string
  readonly bodyLimitBytes: number
}

/** The program or person of the hoster that acts. */
export function hosterActorOf({ addressOf }: HosterEndpointDeps, { hoster, request }: EndpointContext): StateActor {
  const { keyId, personId } = hoster
  return { actor: 'hoster', keyId, personId, address: addressOf(request) }
}

export function hosterBody({ bodyLimitBytes }: HosterEndpointDeps, { request }: EndpointContext): Promise<Buffer> {
  return receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted)
}

const json = { contentType: 'application/json' } as const

/**
 * The endpoints of one hoster, for its programs and its people: itself, its server, its state, its manifest and its
 * verification.
 */
export function hosterEndpoints(deps: HosterEndpointDeps): Endpoint[] {
  const { service } = deps
  return [
    hosterEndpoint('GET', '', {
      scope: 'read',
      right: 'read',
      doc: {
        operationId: 'getHoster',
        summary: 'Show the hoster',
        description:
          'Returns the hoster of the key: its state with the reasons of all changes, its server and its trust score.',
        response: { ...json, schema: ownHoster, description: 'The hoster.' },
      },
      handle: ({ hoster: { hosterId } }) => service.show(hosterId).then(showOwnHoster),
    }),
    hosterEndpoint('POST', 'state', {
      scope: 'manage',
      right: 'manage',
      needsConfirmation: true,
      doc: {
        operationId: 'changeHosterState',
        summary: 'Pause, resume or retire the hoster',
        description: 'Running requests end as usual. A retired hoster never comes back, and its keys end.',
        body: stateRequest,
        errors: ['hoster_state_refused'],
        response: { ...json, schema: ownHoster, description: 'The hoster after the change.' },
      },
      async handle(context) {
        const { hosterId } = context.hoster
        await service.changeState(
          hosterActorOf(deps, context),
          hosterId,
          parseStateRequest(await hosterBody(deps, context)),
        )
        return showOwnHoster(await service.show(hosterId))
      },
    }),
    hosterEndpoint('PUT', 'server', {
      scope: 'manage',
      right: 'manage',
      needsConfirmation: true,
      doc: {
        operationId: 'replaceHosterServer',
        summary: 'Replace the server',
        description: 'Another server must be verified, so the hoster is `pending` until then and receives no requests.',
        body: serverRequest,
        errors: ['hoster_state_refused'],
        response: { ...json, schema: ownHoster, description: 'The hoster after the change.' },
      },
      async handle(context) {
        const { hosterId } = context.hoster
        await service.changeServer(hosterActorOf(deps, context), hosterId, parseServer(await hosterBody(deps, context)))
        return showOwnHoster(await service.show(hosterId))
      },
    }),
    hosterEndpoint('GET', 'manifest', {
      scope: 'read',
      right: 'read',
      doc: {
        operationId: 'getHosterManifest',
        summary: 'Show the manifest',
        description: 'Returns the newest manifest, and the prices that wait for their notice.',
        errors: ['not_found'],
        response: { ...json, schema: storedManifest, description: 'The manifest.' },
      },
      handle: ({ hoster: { hosterId } }) => service.manifest(hosterId),
    }),
    hosterEndpoint('PUT', 'manifest', {
      scope: 'manage',
      right: 'manage',
      needsConfirmation: true,
      doc: {
        operationId: 'replaceHosterManifest',
        summary: 'Replace the manifest',
        description:
          'Sets the models and their prices. Running requests keep their price. A price that rises by more than `hosters.price_rise_percent` waits for its notice.',
        query: manifestQuery,
        body: manifest,
        errors: ['hoster_state_refused', 'price_change_too_soon', 'changed_meanwhile'],
        response: { ...json, schema: storedManifest, description: 'The manifest as it is stored.' },
      },
      async handle(context) {
        const { version: expected } = readQuery(manifestQuery, context.request.query)
        const manifest = parseManifest(await hosterBody(deps, context))
        return service.putManifest(hosterActorOf(deps, context), context.hoster.hosterId, { manifest, expected })
      },
    }),
    hosterEndpoint('GET', 'verification', {
      scope: 'read',
      right: 'read',
      doc: {
        operationId: 'getHosterVerification',
        summary: 'Show the verification',
        description: 'Returns what the last check found: challenge, manifest, prices and probes.',
        response: { ...json, schema: verification, description: 'The verification.' },
      },
      handle: ({ hoster: { hosterId } }) => service.verification(hosterId),
    }),
    hosterEndpoint('POST', 'verification', {
      scope: 'manage',
      right: 'manage',
      doc: {
        operationId: 'verifyHoster',
        summary: 'Start the verification, or check again',
        description:
          'The check runs in the background and takes up to 30 seconds for each answer. `GET` shows what it found.',
        errors: ['hoster_state_refused'],
        response: { ...json, schema: verification, description: 'The verification as it starts.' },
      },
      handle: context => service.verify(hosterActorOf(deps, context), context.hoster.hosterId),
    }),
  ]
}

function showOwnHoster({
  hoster,
  trustScore,
  changes,
}: Awaited<ReturnType<HosterService['show']>>): z.infer<typeof ownHoster> {
  return {
    object: 'hoster',
    id: hoster.hosterId,
    name: hoster.name,
    state: hoster.state,
    trust_score: trustScore,
    share: hoster.shareBps / 10_000,
    created_at: hoster.createdAt.toISOString(),
    active_since: hoster.activeSince?.toISOString() ?? null,
    endpoint: {
      id: hoster.endpointId,
      transport: hoster.transport,
      base_url: hoster.transport === 'agent' ? null : hoster.baseUrl,
      challenge_passed_at: hoster.challengePassedAt?.toISOString() ?? null,
    },
    state_changes: changes.map(({ at, ...change }) => ({
      ...change,
      reason_codes: hosterCodes(change.reason),
      at: at.toISOString(),
    })),
  }
}
