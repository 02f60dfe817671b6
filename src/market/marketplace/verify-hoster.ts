import { type Pool, transaction } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import type { Endpoint } from '../../base/domain/offer.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { VerificationReport } from '../../wire/api/hoster-verification.ts'
import { changeHosterState, gatewayActor } from './change-hoster-state.ts'
import { findManifest, listOffered, listWaiting } from './manifests.ts'
import { beyondBounds } from './price-rules.ts'
import { type PostToHoster, runProbes } from './probe.ts'
import { type ManifestRules, putManifest } from './put-manifest.ts'
import { readManifest } from './read-manifest.ts'
import { type OwnHoster, showHoster } from './show-hoster.ts'
import { enqueueProbes, findVerification, notePassedChallenge, noteReport, PASSED } from './verification.ts'

export interface VerifyDeps {
  readonly pool: Pool
  readonly clock: Clock
  readonly rules: ManifestRules
  /** A verified hoster is active at once. */
  readonly approvesAutomatically: boolean
  /** The server of a hoster in any state. Rejects with SupplyError when its address or key cannot be used. */
  readonly endpointOf: (hosterId: string) => Promise<Endpoint>
  /**
   * Sends a GET to the server of a hoster. Rejects with a short reason when there is no answer. @param path below the
   * base URL
   */
  readonly get: (endpoint: Endpoint, path: string) => Promise<{ status: number; body: unknown }>
  readonly post: PostToHoster
}

/**
 * Verifies a pending hoster: the challenge, the manifest, the prices and three probes of each model. It becomes
 * `verified` when all pass. A hoster in any other state, or without a started verification, stays as it is.
 */
export async function verifyHoster(deps: VerifyDeps, hosterId: string): Promise<void> {
  const { pool, clock } = deps
  const stored = await findVerification(pool, hosterId)
  const hoster = await showHoster(pool, hosterId)
  if (stored === undefined || hoster.state !== 'pending') return
  const { report, passed } = await check(deps, hoster, stored.nonce)
  await transaction(pool, async sql => {
    await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
    // Models that were sent while it was active.
    if ((await listWaiting(sql, hoster.endpointId)).length > 0) await enqueueProbes(sql, hosterId)
    const isCurrent = await noteReport(sql, { hosterId, nonce: stored.nonce, report, nowMs: clock.epochMs() })
    const { state } = await showHoster(sql, hosterId)
    if (!passed || !isCurrent || state !== 'pending') return
    const verified = {
      ...gatewayActor,
      hosterId,
      to: 'verified',
      reason: sayOfHoster('hoster.passed').text,
    } as const
    await changeHosterState(sql, verified)
    if (!deps.approvesAutomatically) return
    await changeHosterState(sql, {
      ...gatewayActor,
      hosterId,
      to: 'active',
      reason: sayOfHoster('hoster.automatic').text,
    })
  })
}
const SKIPPED = { passed: false, problem: null }

async function check(
  deps: VerifyDeps,
  hoster: OwnHoster,
  nonce: string,
): Promise<{ report: VerificationReport; passed: boolean }> {
  const open = { manifest: SKIPPED, prices: SKIPPED, probes: [], challenge_problem: null }
  const challenge_problem = hoster.challengePassedAt === null ? await challengeProblem(deps, hoster, nonce) : null
  if (challenge_problem !== null) return { report: { ...open, challenge_problem }, passed: false }
  const manifestProblem = await readFirstManifest(deps, hoster)
  if (manifestProblem !== null)
    return { report: { ...open, manifest: { passed: false, problem: manifestProblem } }, passed: false }
  const offered = (await listOffered(deps.pool, hoster.endpointId, deps.clock.epochMs())).map(({ model }) => model)
  const tooHigh = offered.find(model => beyondBounds(model, deps.rules) !== null)
  if (tooHigh !== undefined) {
    const problem = sayOfHoster('hoster.price_too_high', { model: tooHigh.modelId }).text
    return { report: { ...open, manifest: PASSED, prices: { passed: false, problem } }, passed: false }
  }
  const endpoint = await deps.endpointOf(hoster.hosterId)
  const probes: VerificationReport['probes'] = []
  for (const model of offered) probes.push(await runProbes(deps.post, endpoint, model))
  const report = { manifest: PASSED, prices: PASSED, probes, challenge_problem: null }
  return { report, passed: probes.every(({ problem }) => problem === null) }
}

/**
 * Asks the server for the nonce, and notes the time when it has it. Returns what is wrong, or null. An agent passes the
 * challenge when it connects with its key.
 */
async function challengeProblem(deps: VerifyDeps, hoster: OwnHoster, nonce: string): Promise<string | null> {
  if (hoster.transport === 'agent') return sayOfHoster('hoster.agent_missing').text
  try {
    const endpoint = await deps.endpointOf(hoster.hosterId)
    const isPublished = async (path: string) => {
      const { status, body } = await deps.get(endpoint, path)
      return status === 200 && namesNonce(body, nonce)
    }
    if (!(await isPublished('/switchyard-challenge')) && !(await isPublished('/models')))
      return sayOfHoster('hoster.no_nonce').text
  } catch (error) {
    return sayOfHoster('hoster.no_answer', { error: (error as Error).message }).text
  }
  await notePassedChallenge(deps.pool, hoster.hosterId, deps.clock.epochMs())
  return null
}

function namesNonce(body: unknown, nonce: string): boolean {
  if (!isJsonObject(body)) return false
  if (body.challenge === nonce) return true
  return Array.isArray(body.data) && body.data.some(entry => isJsonObject(entry) && entry.id === nonce)
}

/** Reads the manifest from the server, unless the hoster has sent one. Returns what is wrong, or null. */
async function readFirstManifest(deps: VerifyDeps, hoster: OwnHoster): Promise<string | null> {
  const { pool, clock, rules } = deps
  if ((await findManifest(pool, hoster.hosterId)) !== undefined) return null
  if (hoster.transport === 'agent') return sayOfHoster('hoster.no_manifest').text
  try {
    const { body } = await deps.get(await deps.endpointOf(hoster.hosterId), '/models')
    const manifest = readManifest(body)
    if (typeof manifest === 'string') return manifest
    const upload = { hosterId: hoster.hosterId, manifest, source: 'read', actor: gatewayActor } as const
    await transaction(pool, sql => putManifest(sql, upload, rules, clock.epochMs()))
    return null
  } catch (error) {
    if (error instanceof ApiError) return error.message
    return sayOfHoster('hoster.no_answer', { error: (error as Error).message }).text
  }
}
