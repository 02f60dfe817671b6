import { noteAction } from '../../../base/db/audit-log.ts'
import { bumpControlVersion } from '../../../base/db/control-version.ts'
import { type Pool, type Sql, transaction } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { commandLine } from '../../../base/domain/acting.ts'
import type { Feature } from '../../../base/domain/chat-job.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { checkModel } from './check-hoster.ts'
import { type HostedModel, type HosterPrice, insertPrice, type PriceRow } from './hosted-model.ts'
import { type HosterRef, lockHoster } from './hosters.ts'
import { approveOnce } from './model-ids.ts'

export interface PriceChange {
  readonly modelId: string
  readonly price: HosterPrice
  /**
   * This and the fields below are taken from the previous version when left out. A model that is new at this hoster
   * needs both token limits.
   */
  readonly upstreamModel?: string | undefined
  readonly contextTokens?: number | undefined
  readonly maxOutputTokens?: number | undefined
  /** Null: no longer declared. */
  readonly maxConcurrent?: number | null | undefined
  readonly features?: readonly Feature[] | undefined
}

/**
 * Closes the current price of a model and opens the next version, as an operator does: a new model id is approved by that. Requests that were admitted earlier keep
 * their price. Throws SupplyError `unknown_hoster`, `unknown_model` (new model without token limits) or
 * `invalid_value`.
 *
 * @param hoster id or name
 */
export function setHosterPrice(
  pool: Pool,
  hoster: string,
  change: PriceChange,
): Promise<HosterRef & { version: number }> {
  return transaction(pool, async sql => {
    const { hosterId, name, version } = await changeHosterPrice(sql, hoster, change)
    const { inputPicoPerToken, outputPicoPerToken } = change.price
    await noteAction(sql, {
      ...{ ...commandLine, action: 'price.changed', subject: name },
      detail: {
        ...{ hoster_id: hosterId, model: change.modelId, version },
        input_usd_per_million: Number(inputPicoPerToken) / 1e6,
        output_usd_per_million: Number(outputPicoPerToken) / 1e6,
      },
    })
    return { hosterId, name, version }
  })
}

/** Like `setHosterPrice`, inside a transaction. */
export async function changeHosterPrice(
  sql: Sql,
  hoster: string,
  change: PriceChange,
): Promise<HosterRef & { version: number }> {
  const { hosterId, name } = await lockHoster(sql, hoster)
  const { endpoint_id: endpointId } = await queryRow<{ endpoint_id: string }>(
    sql,
    'SELECT endpoint_id FROM hoster_endpoint WHERE hoster_id = $1 ORDER BY created_at, endpoint_id LIMIT 1',
    [hosterId],
  )
  const before = await latestPrice(sql, endpointId, change.modelId)
  const contextTokens = change.contextTokens ?? before?.context_tokens
  const maxOutputTokens = change.maxOutputTokens ?? before?.max_output_tokens
  if (contextTokens === undefined || maxOutputTokens === undefined) {
    throw new SupplyError(
      'unknown_model',
      `This hoster has no model ${change.modelId} yet. A new model needs its context length and its largest output.`,
    )
  }
  const model: HostedModel = {
    modelId: change.modelId,
    upstreamModel: change.upstreamModel ?? before?.upstream_model ?? change.modelId,
    price: change.price,
    contextTokens,
    maxOutputTokens,
    maxConcurrent: change.maxConcurrent === undefined ? before?.max_concurrent : change.maxConcurrent,
    features: change.features ?? before?.features ?? [],
  }
  checkModel(model)
  const version = await replacePrice(sql, endpointId, model)
  await approveOnce(sql, [model.modelId], 'The operator set its price.')
  await bumpControlVersion(sql, 'supply')
  return { hosterId, name, version }
}

/** Closes the current price of a model, if it has one, and opens the next version. Returns the version. */
export async function replacePrice(sql: Sql, endpointId: string, model: HostedModel): Promise<number> {
  const version = ((await latestPrice(sql, endpointId, model.modelId))?.version ?? 0) + 1
  await closePrice(sql, endpointId, model.modelId)
  await insertPrice(sql, endpointId, version, model)
  return version
}

/** Ends the current price of a model: it is no longer offered. */
export async function closePrice(sql: Sql, endpointId: string, modelId: string): Promise<void> {
  await sql.query(
    'UPDATE hoster_price SET valid_until = now() WHERE endpoint_id = $1 AND model_id = $2 AND valid_until IS NULL',
    [endpointId, modelId],
  )
}

/**
 * Sets how many requests at once a server takes for the models that it offers. That is no price, so the version stays.
 * Returns whether something has changed.
 */
export async function setMaxConcurrent(sql: Sql, endpointId: string, models: readonly HostedModel[]): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE hoster_price p SET max_concurrent = n.max_concurrent
       FROM unnest($2::text[], $3::integer[]) AS n(model_id, max_concurrent)
      WHERE p.endpoint_id = $1 AND p.model_id = n.model_id AND p.valid_until IS NULL
        AND p.max_concurrent IS DISTINCT FROM n.max_concurrent`,
    [endpointId, models.map(({ modelId }) => modelId), models.map(({ maxConcurrent }) => maxConcurrent ?? null)],
  )
  return (rowCount ?? 0) > 0
}

async function latestPrice(sql: Sql, endpointId: string, modelId: string): Promise<PriceRow | undefined> {
  const { rows } = await sql.query<PriceRow>(
    'SELECT * FROM hoster_price WHERE endpoint_id = $1 AND model_id = $2 ORDER BY version DESC LIMIT 1',
    [endpointId, modelId],
  )
  return rows[0]
}
