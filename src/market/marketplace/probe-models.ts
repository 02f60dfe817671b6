import { bumpControlVersion } from '../../base/db/control-version.ts'
import { type Pool, transaction } from '../../base/db/pool.ts'
import { DAY_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import type { Endpoint } from '../../base/domain/offer.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { VerificationReport } from '../../wire/api/hoster-verification.ts'
import { replacePrice } from '../supply/hosters/set-hoster-price.ts'
import { changeWaiting, listHostersToProbe, listWaiting, noteFailedProbes, type WaitingModel } from './manifests.ts'
import { type PostToHoster, runProbes } from './probe.ts'
import { showHoster } from './show-hoster.ts'
import { enqueueProbes, noteProbes } from './verification.ts'

export interface ProbeDeps {
  readonly pool: Pool
  readonly clock: Clock
  /** The server of a hoster in any state. Rejects with SupplyError when its address or key cannot be used. */
  readonly endpointOf: (hosterId: string) => Promise<Endpoint>
  readonly post: PostToHoster
}

/**
 * Probes the models of a hoster that wait for it, and offers those that pass. The others wait on: see
 * `enqueueDueProbes`. The models that are offered already stay as they are.
 */
export async function probeModels({ pool, clock, endpointOf, post }: ProbeDeps, hosterId: string): Promise<void> {
  const { endpointId } = await showHoster(pool, hosterId)
  const probing = (await listWaiting(pool, endpointId)).filter(isProbing)
  if (probing.length === 0) return
  const endpoint = await endpointOf(hosterId)
  const results = new Map<string, VerificationReport['probes'][number]>()
  for (const { changeId, model } of probing) results.set(changeId, await runProbes(post, endpoint, model))
  await transaction(pool, async sql => {
    await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
    // Another address must be verified as a whole, and another manifest is probed by itself.
    const current = await showHoster(sql, hosterId)
    if (current.baseUrl !== endpoint.baseUrl && current.transport === 'direct') return
    const probed = (await listWaiting(sql, endpointId)).filter(isProbing).flatMap(({ changeId, model }) => {
      const probe = results.get(changeId)
      return probe === undefined ? [] : [{ changeId, model, probe }]
    })
    if (probed.length === 0) return
    for (const { changeId, model, probe } of probed) {
      if (probe.problem !== null) {
        await noteFailedProbes(sql, changeId, clock.epochMs())
        continue
      }
      await replacePrice(sql, endpointId, model)
      await changeWaiting(sql, changeId, 'applied')
    }
    const probes = probed.map(({ probe }) => probe)
    await noteProbes(sql, { hosterId, probes, nowMs: clock.epochMs() })
    if (probes.some(({ problem }) => problem === null)) await bumpControlVersion(sql, 'supply')
  })
}

/** Failed probes are repeated this often, for a day after the model was sent. */
const PROBE_AGAIN_MS = 10 * MINUTE_MS
const PROBED_FOR_MS = DAY_MS

/** Returns when failed probes are repeated; null when they are not. */
export function nextProbesAt({ appliesAt, probedAt }: { appliesAt: Date; probedAt: Date }): Date | null {
  const at = probedAt.getTime() + PROBE_AGAIN_MS
  return at - appliesAt.getTime() > PROBED_FOR_MS ? null : new Date(at)
}

/** Starts the probes of models that wait for the first or for another attempt. */
export async function enqueueDueProbes(pool: Pool, nowMs: number): Promise<void> {
  const due = { beforeMs: nowMs - PROBE_AGAIN_MS, sinceMs: nowMs - PROBED_FOR_MS }
  for (const hosterId of await listHostersToProbe(pool, due)) await enqueueProbes(pool, hosterId)
}

const isProbing = ({ state }: WaitingModel) => state === 'probing'
