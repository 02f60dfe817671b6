import { noteAction } from '../base/db/audit-log.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import { hosterCodes } from '../base/domain/hoster-sentences.ts'
import { nextStates } from '../base/domain/hoster-state.ts'
import type { Offer } from '../base/domain/offer.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { elementAt } from '../base/runtime/collections.ts'
import { changeHosterState, type StateActor } from '../market/marketplace/change-hoster-state.ts'
import { listHosterMembers } from '../market/marketplace/hoster-members.ts'
import { findManifest } from '../market/marketplace/manifests.ts'
import { listStateChanges, showHoster, showVerification } from '../market/marketplace/show-hoster.ts'
import { type HostedModel, hostedModel, PRICE_COLUMNS, type PriceRow } from '../market/supply/hosters/hosted-model.ts'
import {
  changeContract,
  changeTrustScore,
  type HosterListing,
  listHosters,
  lockHoster,
} from '../market/supply/hosters/hosters.ts'
import { listUnapprovedIds } from '../market/supply/hosters/model-ids.ts'
import { changeHosterPrice } from '../market/supply/hosters/set-hoster-price.ts'
import type {
  HosterReview,
  OperatorHosters,
  OperatorModels,
  PriceVersions,
  parseHosterChange,
  parsePriceChange,
  UnapprovedModels,
} from '../wire/api/operator/supply.ts'
import { type Actor, act } from './operator-action.ts'
import { listServers } from './servers.ts'

/** Returns what is sold now, by model, with the state of each server. */
export async function listModels(sql: Sql, offers: readonly Offer[], nowMs: number): Promise<OperatorModels> {
  const servers = await listServers(sql, offers, nowMs)
  const shown = offers.map((offer, index) => {
    const { model: _, ...server } = elementAt(servers, index)
    return {
      ...server,
      upstream_model: offer.upstreamModel,
      input_usd_per_million: perMillion(offer.price.inputPicoPerToken),
      output_usd_per_million: perMillion(offer.price.outputPicoPerToken),
      has_more_prices: offer.price.terms !== undefined || offer.timedPrices !== undefined,
      context_tokens: offer.contextTokens,
      max_output_tokens: offer.maxOutputTokens,
      features: [...offer.features],
      hoster_id: offer.endpoint.hosterId,
      trust_score: offer.endpoint.trustScore,
    }
  })
  const byModel = Map.groupBy(shown.entries(), ([index]) => elementAt(offers, index).modelId)
  return { data: [...byModel].map(([id, group]) => ({ id, offers: group.map(([, offer]) => offer) })) }
}

/** Returns up to 200 versions of hosters' prices, the newest first. Null: of all models. */
export async function listPriceVersions(sql: Sql, modelId: string | null): Promise<PriceVersions> {
  const { rows } = await sql.query<
    PriceRow & { hoster_id: string; name: string; valid_from: Date; valid_until: Date | null }
  >(PRICE_VERSIONS, [modelId])
  return {
    data: rows.map(row => ({
      hoster_id: row.hoster_id,
      hoster: row.name,
      ...shownPrice({ ...hostedModel(row), priceVersion: row.version }),
      valid_from: row.valid_from.toISOString(),
      valid_until: row.valid_until?.toISOString() ?? null,
    })),
  }
}

const PRICE_VERSIONS = `
SELECT ${PRICE_COLUMNS}, h.hoster_id, h.name, p.valid_from, p.valid_until
FROM hoster_price p JOIN hoster_endpoint USING (endpoint_id) JOIN hoster h USING (hoster_id)
WHERE $1::text IS NULL OR p.model_id = $1
ORDER BY p.valid_from DESC, h.name, p.model_id LIMIT 200`

/** Returns the model ids that wait for a decision or are refused. */
export async function showUnapprovedModels(sql: Sql): Promise<UnapprovedModels> {
  const ids = await listUnapprovedIds(sql)
  return {
    data: ids.map(({ modelId, state, reason, decidedAt, hosters }) => ({
      model: modelId,
      state,
      reason,
      decided_at: decidedAt?.toISOString() ?? null,
      hosters: hosters.map(({ id, name, isActive }) => ({ id, name, is_active: isActive })),
    })),
  }
}

export async function showHosters(sql: Sql): Promise<OperatorHosters> {
  return { data: (await listHosters(sql)).map(shownHoster) }
}

function shownHoster(hoster: HosterListing): OperatorHosters['data'][number] {
  return {
    id: hoster.hosterId,
    name: hoster.name,
    state: hoster.state,
    trust_score: hoster.trustScore,
    share: hoster.shareBps / 10_000,
    has_contract: hoster.hasContract,
    base_url: hoster.baseUrl,
    has_key: hoster.hasKey,
    created_at: hoster.createdAt.toISOString(),
    models: hoster.models.map(shownPrice),
  }
}

/**
 * Sets a price like `switchyard hoster price`: running requests keep the old one. Throws `not_found` for an unknown hoster and
 * `invalid_value` for a price that is refused.
 */
export function setPrice(
  pool: Pool,
  actor: Actor,
  hosterId: string,
  change: ReturnType<typeof parsePriceChange>,
): Promise<{ version: number }> {
  return act(pool, actor, async sql => {
    const { name, version } = await changeHosterPrice(sql, hosterId, change).catch(refuse)
    const { inputPicoPerToken, outputPicoPerToken } = change.price
    await noteAction(sql, {
      action: 'price.changed',
      personId: actor.personId,
      keyId: actor.keyId,
      subject: name,
      detail: {
        model: change.modelId,
        version,
        input_usd_per_million: perMillion(inputPicoPerToken),
        output_usd_per_million: perMillion(outputPicoPerToken),
      },
      address: actor.address,
    })
    return { version }
  })
}

/**
 * Changes state (with a reason) or trust score like `switchyard hoster activate`, `suspend` and `trust`. Throws like
 * `setPrice`.
 */
export function changeHoster(
  pool: Pool,
  actor: Actor,
  hosterId: string,
  change: ReturnType<typeof parseHosterChange>,
): Promise<void> {
  return act(pool, actor, async sql => {
    const { rows } = await sql.query<{ state: string; trust_score: number; has_contract: boolean }>(
      'SELECT state, trust_score, has_contract FROM hoster WHERE hoster_id = $1 FOR UPDATE',
      [hosterId],
    )
    const [before] = rows
    const { trustScore, hasContract } = change
    if (trustScore !== undefined || hasContract !== undefined) {
      if (trustScore !== undefined) await changeTrustScore(sql, hosterId, trustScore).catch(refuse)
      if (hasContract !== undefined) await changeContract(sql, hosterId, hasContract).catch(refuse)
      const { name } = await lockHoster(sql, hosterId).catch(refuse)
      const detail = { before, after: { trust_score: trustScore, has_contract: hasContract }, reason: change.reason }
      await noteAction(sql, {
        action: 'hoster.changed',
        personId: actor.personId,
        keyId: actor.keyId,
        subject: name,
        detail,
        address: actor.address,
      })
    }
    if (change.state === undefined || change.state === before?.state) return
    await changeHosterState(sql, { ...stateActor(actor), hosterId, to: change.state, reason: change.reason })
  })
}

/** An operator in the console, for a change of a state. */
function stateActor({ personId, keyId, address }: Actor): StateActor {
  return { actor: 'operator', personId, keyId, address }
}

/**
 * Returns what an operator needs for a decision: the hoster, its history, verification, manifest and members. Throws
 * `hoster_not_found`.
 */
export async function showHosterToReview(sql: Sql, hosterId: string): Promise<HosterReview> {
  const [hoster, changes, verification, manifest, members, listed] = await Promise.all([
    showHoster(sql, hosterId),
    listStateChanges(sql, hosterId),
    showVerification(sql, hosterId),
    findManifest(sql, hosterId),
    listHosterMembers(sql, hosterId),
    listHosters(sql, hosterId),
  ])
  return {
    ...shownHoster(elementAt(listed, 0)),
    transport: hoster.transport,
    active_since: hoster.activeSince?.toISOString() ?? null,
    next_states: nextStates(hoster.state, 'operator'),
    state_changes: changes.map(({ at, ...change }) => ({
      ...change,
      reason_codes: hosterCodes(change.reason),
      at: at.toISOString(),
    })),
    verification,
    manifest: manifest?.body ?? null,
    people: members.map(({ email, role }) => ({ email, role })),
  }
}

function refuse(error: unknown): never {
  if (!(error instanceof SupplyError)) throw error
  if (error.code === 'unknown_hoster') throw new ApiError('not_found', { message: sayRefusal('refusal.no_hoster') })
  throw new ApiError('invalid_value', { message: error.message })
}

function shownPrice({
  modelId,
  upstreamModel,
  price,
  priceVersion,
  contextTokens,
  maxOutputTokens,
  features,
}: Required<HostedModel> & { readonly priceVersion: number }) {
  const optional = (pico: bigint | undefined) => (pico === undefined ? null : perMillion(pico))
  return {
    model: modelId,
    upstream_model: upstreamModel ?? modelId,
    version: priceVersion,
    input_usd_per_million: perMillion(price.inputPicoPerToken),
    output_usd_per_million: perMillion(price.outputPicoPerToken),
    cache_read_usd_per_million: optional(price.cacheReadPicoPerToken),
    cache_write_usd_per_million: optional(price.cacheWritePicoPerToken),
    context_tokens: contextTokens,
    max_output_tokens: maxOutputTokens,
    features: [...features],
  }
}

/** Picodollars per token are microdollars per million tokens. */
function perMillion(pico: bigint): number {
  return Number(pico) / 1_000_000
}
