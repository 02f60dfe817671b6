import type { z } from 'zod'
import { ownHoster } from '../../api/hosters.ts'
import type { HosterDesk } from '../../marketplace/hoster-desk.ts'
import type { Endpoint } from '../endpoint.ts'
import { hosterEndpoint } from './hoster-endpoint.ts'

interface HosterDeps {
  readonly desk: HosterDesk
}

/** The endpoints of one hoster, for its programs and its people. */
export function hosterEndpoints({ desk }: HosterDeps): Endpoint[] {
  return [
    hosterEndpoint('GET', '', {
      scope: 'read',
      right: 'read',
      doc: {
        operationId: 'getHoster',
        summary: 'Show the hoster',
        description:
          'Returns the hoster of the key: its state with the reasons of all changes, its server and its trust score.',
        response: { contentType: 'application/json', schema: ownHoster, description: 'The hoster.' },
      },
      handle: ({ hoster: { hosterId } }) => desk.show(hosterId).then(showOwnHoster),
    }),
  ]
}

function showOwnHoster({ hoster, changes }: Awaited<ReturnType<HosterDesk['show']>>): z.infer<typeof ownHoster> {
  return {
    object: 'hoster',
    id: hoster.hosterId,
    name: hoster.name,
    state: hoster.state,
    trust_score: hoster.trustScore,
    share: hoster.shareBps / 10_000,
    created_at: hoster.createdAt.toISOString(),
    active_since: hoster.activeSince?.toISOString() ?? null,
    endpoint: {
      id: hoster.endpointId,
      transport: hoster.transport,
      base_url: hoster.transport === 'agent' ? null : hoster.baseUrl,
      challenge_passed_at: hoster.challengePassedAt?.toISOString() ?? null,
    },
    state_changes: changes.map(({ at, ...change }) => ({ ...change, at: at.toISOString() })),
  }
}
