import { noteAction } from '../../base/db/audit-log.ts'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { HosterState } from '../../base/domain/hoster-state.ts'
import { usdPerMillion } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import { type Manifest, manifestPrice, taskFeaturesOf } from '../../wire/api/hoster-manifest.ts'
import { checkModel } from '../supply/hosters/check-hoster.ts'
import type { HostedModel } from '../supply/hosters/hosted-model.ts'
import { approveKnownIds } from '../supply/hosters/model-ids.ts'
import { closePrice, replacePrice, setMaxConcurrent } from '../supply/hosters/set-hoster-price.ts'
import type { StateActor } from './change-hoster-state.ts'
import {
  changeWaiting,
  findManifest,
  insertManifest,
  insertWaiting,
  lastPriceChange,
  listOffered,
  listPastModels,
  listWaiting,
  type ManifestSource,
  setWaitingMaxConcurrent,
  type WaitingState,
} from './manifests.ts'
import { beyondBounds, isSameModel, needsProbes, type PriceRules, planPrices } from './price-rules.ts'
import { showHoster } from './show-hoster.ts'
import { enqueueProbes } from './verification.ts'

export interface ManifestRules extends PriceRules {
  /** Whether a server of the operator or a cloud has this model id. */
  readonly isOwnModel: (modelId: string) => boolean
}

export interface ManifestUpload {
  readonly hosterId: string
  readonly manifest: Manifest
  readonly source: ManifestSource
  readonly actor: StateActor
  /** The version that the sender changed; undefined: whatever it is. */
  readonly expected?: number | undefined
}

/** Customers use the models of such a hoster, or will without another verification, so new models are probed first. */
const sellingStates: ReadonlySet<HosterState> = new Set(['active', 'paused', 'suspended'])

/**
 * Stores a manifest and offers its models. Running requests keep their price. Once the hoster has sold, a price that
 * rises too much waits for its notice, also that of a model that was left out for a while or has another id now. It
 * stays scheduled as before when the manifest is sent again. Once the hoster sells, a model that is new or does
 * something else waits for its probes, which start again when the manifest is sent again. An id that nobody has
 * approved is priced and probed, and not sold until it is approved. Run it in a transaction. Throws `hoster_not_found`,
 * `invalid_value` for prices beyond the bounds, `price_change_too_soon`, and `changed_meanwhile` when there is a later version than
 * the expected one.
 */
export async function putManifest(
  sql: Sql,
  { hosterId, manifest, source, actor, expected }: ManifestUpload,
  rules: ManifestRules,
  nowMs: number,
): Promise<void> {
  await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
  const { name, state, endpointId } = await showHoster(sql, hosterId)
  if (expected !== undefined && ((await findManifest(sql, hosterId))?.version ?? 0) !== expected)
    throw new ApiError('changed_meanwhile')
  if (state === 'retired') throw new ApiError('hoster_state_refused', { message: sayRefusal('refusal.hoster_retired') })
  const wanted = manifest.models.map((model, index) => hostedModelOf(model, `models[${index}]`, rules))
  const isSelling = sellingStates.has(state)
  const sinceMs = nowMs - rules.riseNoticeMs
  const offered = await listOffered(sql, endpointId, sinceMs)
  const plan = planPrices(offered, wanted, await listPastModels(sql, hosterId, sinceMs), rules)
  const live = new Map(offered.map(({ model }) => [model.modelId, model]))
  const probing = isSelling ? plan.now.filter(model => needsProbes(live.get(model.modelId), model)) : []
  const now = plan.now.filter(model => !probing.includes(model))
  const waiting = await listWaiting(sql, endpointId)
  const waitsAlready = (state: WaitingState, model: HostedModel) =>
    waiting.some(each => each.state === state && isSameModel(each.model, model))
  const newlyScheduled = plan.later.filter(
    model => !waitsAlready('scheduled', model) && !waitsAlready('probing', model),
  )
  const newlyProbing = probing.filter(model => !waitsAlready('probing', model))
  const changesPrices = [now, plan.withdrawn, newlyScheduled, newlyProbing].some(({ length }) => length > 0)
  if (isSelling && changesPrices) await requirePause(sql, hosterId, rules, nowMs)

  const ids = wanted.map(({ modelId }) => modelId)
  await approveKnownIds(sql, ids, rules.isOwnModel)
  for (const { changeId, state, model } of waiting) {
    const isWanted = (state === 'probing' ? [...probing, ...plan.later] : plan.later).some(each =>
      isSameModel(model, each),
    )
    if (!isWanted) await changeWaiting(sql, changeId, 'cancelled')
  }
  for (const model of now) await replacePrice(sql, endpointId, model)
  for (const modelId of plan.withdrawn) await closePrice(sql, endpointId, modelId)
  const appliesAt = new Date(nowMs + rules.riseNoticeMs)
  for (const model of newlyScheduled) await insertWaiting(sql, endpointId, model, { state: 'scheduled', appliesAt })
  for (const model of newlyProbing)
    await insertWaiting(sql, endpointId, model, { state: 'probing', appliesAt: new Date(nowMs) })
  if (isSelling && (await listWaiting(sql, endpointId)).some(({ state }) => state === 'probing'))
    await enqueueProbes(sql, hosterId)
  await insertManifest(sql, hosterId, { body: manifest, source, changesPrices, nowMs })
  // A hoster may change this at any time: it is no price, and an overloaded server cannot wait.
  const changesLimits = await setMaxConcurrent(sql, endpointId, wanted)
  await setWaitingMaxConcurrent(sql, endpointId, wanted)
  if (changesPrices || changesLimits) await bumpControlVersion(sql, 'supply')
  await noteAction(sql, {
    action: 'hoster.manifest_changed',
    personId: actor.personId,
    keyId: actor.keyId,
    subject: name,
    detail: {
      hoster_id: hosterId,
      source,
      now: now.map(shownPrice),
      after_probes: newlyProbing.map(shownPrice),
      later: newlyScheduled.map(shownPrice),
      withdrawn: plan.withdrawn,
    },
    address: actor.address,
  })
}

/** @param param the place of the model in the manifest, for errors */
function hostedModelOf(model: Manifest['models'][number], param: string, rules: PriceRules): HostedModel {
  const named = model.supported_features ?? []
  const hosted: HostedModel = {
    modelId: model.id,
    upstreamModel: model.upstream_model ?? model.id,
    price: manifestPrice(model, param),
    contextTokens: model.context_length,
    maxOutputTokens: model.max_output_length,
    maxConcurrent: model.max_concurrent ?? null,
    features: [...new Set([...named, ...taskFeaturesOf(model)])],
  }
  try {
    checkModel(hosted)
  } catch (error) {
    if (!(error instanceof SupplyError)) throw error
    throw new ApiError('invalid_value', { message: error.message, param })
  }
  const kind = beyondBounds(hosted, rules)
  if (kind === null) return hosted
  const max = usdPerMillion(kind === 'input' ? rules.max.inputPicoPerToken : rules.max.outputPicoPerToken)
  throw new ApiError('invalid_value', {
    message: sayRefusal('refusal.price_too_high', { kind, model: model.id, max }),
    param: `${param}.pricing.${kind === 'input' ? 'prompt' : 'completion'}`,
  })
}

async function requirePause(
  sql: Sql,
  hosterId: string,
  { changeIntervalMs }: PriceRules,
  nowMs: number,
): Promise<void> {
  const last = await lastPriceChange(sql, hosterId)
  if (last === null) return
  const waitMs = last.getTime() + changeIntervalMs - nowMs
  if (waitMs <= 0) return
  throw new ApiError('price_change_too_soon', {
    message: `Prices may change once in ${changeIntervalMs / MINUTE_MS} minutes. Wait for the time in Retry-After, then send the manifest again.`,
    retryAfterS: Math.ceil(waitMs / 1_000),
  })
}

function shownPrice({ modelId, price }: HostedModel) {
  return {
    model: modelId,
    input_usd_per_million: usdPerMillion(price.inputPicoPerToken),
    output_usd_per_million: usdPerMillion(price.outputPicoPerToken),
  }
}
