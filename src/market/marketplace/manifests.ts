import { randomUUID } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Manifest } from '../../wire/api/hoster-manifest.ts'
import {
  type HostedModel,
  type HosterPrice,
  hostedModel,
  PRICE_COLUMNS,
  type PriceRow,
} from '../supply/hosters/hosted-model.ts'
import type { OfferedModel, PastModel } from './price-rules.ts'

/** `sent` by the hoster, or `read` from its server. */
export type ManifestSource = 'sent' | 'read'

export interface StoredManifestRow {
  readonly version: number
  readonly body: Manifest
  readonly source: ManifestSource
  readonly createdAt: Date
}

/** Returns the newest manifest of a hoster; undefined when it has none. */
export async function findManifest(sql: Sql, hosterId: string): Promise<StoredManifestRow | undefined> {
  const { rows } = await sql.query<StoredManifestRow>(
    `SELECT version, body, source, created_at AS "createdAt" FROM hoster_manifest
      WHERE hoster_id = $1 ORDER BY version DESC LIMIT 1`,
    [hosterId],
  )
  return rows[0]
}

/** Stores another version. Lock the hoster first, so that versions are given in turn. */
export async function insertManifest(
  sql: Sql,
  hosterId: string,
  manifest: { body: Manifest; source: ManifestSource; changesPrices: boolean; nowMs: number },
): Promise<void> {
  const { body, source, changesPrices, nowMs } = manifest
  await sql.query(
    `INSERT INTO hoster_manifest (hoster_id, version, body, source, changes_prices, created_at)
     SELECT $1, coalesce(max(version), 0) + 1, $2, $3, $4, $5 FROM hoster_manifest WHERE hoster_id = $1`,
    [hosterId, JSON.stringify(body), source, changesPrices, new Date(nowMs)],
  )
}

/** Returns when a manifest last changed a price of the hoster; null: never. */
export async function lastPriceChange(sql: Sql, hosterId: string): Promise<Date | null> {
  const { at } = await queryRow<{ at: Date | null }>(
    sql,
    'SELECT max(created_at) AS at FROM hoster_manifest WHERE hoster_id = $1 AND changes_prices',
    [hosterId],
  )
  return at
}

interface LowestPrices {
  readonly lowest_input: bigint
  readonly lowest_output: bigint
  readonly lowest_cache_read: bigint
  readonly lowest_cache_write: bigint
}

/** SQL: the lowest prices of a group of rows of `hoster_price`. */
const LOWEST_COLUMNS = `min(past.input_pico_per_token) AS lowest_input, min(past.output_pico_per_token) AS lowest_output,
  min(coalesce(past.cache_read_pico_per_token, past.input_pico_per_token)) AS lowest_cache_read,
  min(coalesce(past.cache_write_pico_per_token, past.input_pico_per_token)) AS lowest_cache_write`

/** Returns the models that a server offers now, with their lowest prices since `sinceMs`. */
export async function listOffered(sql: Sql, endpointId: string, sinceMs: number): Promise<OfferedModel[]> {
  const { rows } = await sql.query<PriceRow & LowestPrices>(
    `SELECT ${PRICE_COLUMNS}, ${LOWEST_COLUMNS}
       FROM hoster_price p
       JOIN hoster_price past ON past.endpoint_id = p.endpoint_id AND past.model_id = p.model_id
        AND (past.valid_until IS NULL OR past.valid_until > $2)
      WHERE p.endpoint_id = $1 AND p.valid_until IS NULL
      GROUP BY p.endpoint_id, p.model_id, p.version`,
    [endpointId, new Date(sinceMs)],
  )
  return rows.map(row => ({ model: hostedModel(row), lowest: lowestOf(row) }))
}

/**
 * Returns the models that a hoster has ever sold, with their last prices and their lowest ones since `sinceMs`. Those
 * of a retired hoster with the same owner or domain are among them: joining again does not end the notice of a rise.
 */
export async function listPastModels(sql: Sql, hosterId: string, sinceMs: number): Promise<PastModel[]> {
  const { rows } = await sql.query<PriceRow & LowestPrices>(
    `WITH seller AS (
       SELECT h.hoster_id FROM hoster self JOIN hoster h ON h.hoster_id = self.hoster_id OR h.state = 'retired' AND (
                h.domain = self.domain
                OR EXISTS (SELECT FROM hoster_member a JOIN hoster_member b USING (person_id)
                            WHERE a.hoster_id = self.hoster_id AND b.hoster_id = h.hoster_id AND a.role = 'owner' AND b.role = 'owner'))
        WHERE self.hoster_id = $1 AND h.active_since IS NOT NULL),
     past AS (
       SELECT p.*, row_number() OVER (PARTITION BY p.model_id ORDER BY p.valid_from DESC, p.version DESC) AS age
         FROM seller JOIN hoster_endpoint USING (hoster_id) JOIN hoster_price p USING (endpoint_id)),
     lowest AS (
       SELECT model_id, ${LOWEST_COLUMNS}
         FROM past WHERE age = 1 OR valid_until IS NULL OR valid_until > $2 GROUP BY model_id)
     SELECT ${PRICE_COLUMNS}, lowest_input, lowest_output, lowest_cache_read, lowest_cache_write
       FROM past p JOIN lowest USING (model_id) WHERE age = 1`,
    [hosterId, new Date(sinceMs)],
  )
  return rows.map(row => {
    const { modelId, upstreamModel, price } = hostedModel(row)
    return { modelId, upstreamModel: upstreamModel ?? modelId, last: price, lowest: lowestOf(row) }
  })
}

function lowestOf(row: LowestPrices): HosterPrice {
  return {
    inputPicoPerToken: row.lowest_input,
    outputPicoPerToken: row.lowest_output,
    cacheReadPicoPerToken: row.lowest_cache_read,
    cacheWritePicoPerToken: row.lowest_cache_write,
  }
}

/** `scheduled`: it waits for its notice. `probing`: it waits for its probes. */
export type WaitingState = 'scheduled' | 'probing'

/** A model with a price that is not offered yet. */
export interface WaitingModel {
  readonly changeId: string
  readonly endpointId: string
  readonly state: WaitingState
  readonly appliesAt: Date
  readonly model: Required<HostedModel>
}

interface WaitingRow extends PriceRow {
  readonly change_id: string
  readonly endpoint_id: string
  readonly state: WaitingState
  readonly applies_at: Date
}

const WAITING_COLUMNS = `change_id, endpoint_id, state, applies_at, ${PRICE_COLUMNS.replace('p.version, ', '')}`

/** Returns the models of a server that wait for their notice or their probes, the next one first. */
export async function listWaiting(sql: Sql, endpointId: string): Promise<WaitingModel[]> {
  const { rows } = await sql.query<WaitingRow>(
    `SELECT ${WAITING_COLUMNS} FROM hoster_price_change p
      WHERE endpoint_id = $1 AND state IN ('scheduled', 'probing') ORDER BY applies_at, model_id`,
    [endpointId],
  )
  return rows.map(waitingModel)
}

/** Returns a price that has waited for its notice, and keeps others from it until the transaction ends. */
export async function lockDuePrice(sql: Sql, nowMs: number): Promise<WaitingModel | undefined> {
  const { rows } = await sql.query<WaitingRow>(
    `SELECT ${WAITING_COLUMNS} FROM hoster_price_change p
      WHERE state = 'scheduled' AND applies_at <= $1 ORDER BY applies_at, change_id LIMIT 1 FOR UPDATE SKIP LOCKED`,
    [new Date(nowMs)],
  )
  return rows[0] && waitingModel(rows[0])
}

/** @param appliesAt the end of the notice; for a model that waits for its probes, now */
export async function insertWaiting(
  sql: Sql,
  endpointId: string,
  model: HostedModel,
  { state, appliesAt }: Pick<WaitingModel, 'state' | 'appliesAt'>,
): Promise<void> {
  const { price } = model
  await sql.query(
    `INSERT INTO hoster_price_change (change_id, endpoint_id, model_id, upstream_model, input_pico_per_token, output_pico_per_token,
       cache_read_pico_per_token, cache_write_pico_per_token, context_tokens, max_output_tokens, features, applies_at, state,
       max_concurrent)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
    [
      randomUUID(),
      endpointId,
      model.modelId,
      model.upstreamModel ?? model.modelId,
      price.inputPicoPerToken,
      price.outputPicoPerToken,
      price.cacheReadPicoPerToken ?? null,
      price.cacheWritePicoPerToken ?? null,
      model.contextTokens,
      model.maxOutputTokens,
      [...model.features],
      appliesAt,
      state,
      model.maxConcurrent ?? null,
    ],
  )
}

/** Sets how many requests at once the server takes for models that wait. */
export async function setWaitingMaxConcurrent(
  sql: Sql,
  endpointId: string,
  models: readonly HostedModel[],
): Promise<void> {
  await sql.query(
    `UPDATE hoster_price_change p SET max_concurrent = n.max_concurrent
       FROM unnest($2::text[], $3::integer[]) AS n(model_id, max_concurrent)
      WHERE p.endpoint_id = $1 AND p.model_id = n.model_id AND p.state IN ('scheduled', 'probing')`,
    [endpointId, models.map(({ modelId }) => modelId), models.map(({ maxConcurrent }) => maxConcurrent ?? null)],
  )
}

/** `probing`: the notice has passed, and the probes follow. */
export async function changeWaiting(
  sql: Sql,
  changeId: string,
  state: 'applied' | 'cancelled' | 'probing',
): Promise<void> {
  await sql.query('UPDATE hoster_price_change SET state = $2 WHERE change_id = $1', [changeId, state])
}

/** Notes that the probes of a model failed. */
export async function noteFailedProbes(sql: Sql, changeId: string, nowMs: number): Promise<void> {
  await sql.query('UPDATE hoster_price_change SET probed_at = $2 WHERE change_id = $1', [changeId, new Date(nowMs)])
}

/**
 * Returns the hosters with a model that was not probed since `beforeMs`, and that has waited since `sinceMs` at most.
 */
export async function listHostersToProbe(
  sql: Sql,
  { beforeMs, sinceMs }: { readonly beforeMs: number; readonly sinceMs: number },
): Promise<string[]> {
  const { rows } = await sql.query<{ hoster_id: string }>(
    `SELECT DISTINCT hoster_id FROM hoster_price_change JOIN hoster_endpoint USING (endpoint_id)
      WHERE state = 'probing' AND (probed_at IS NULL OR probed_at <= $1) AND applies_at >= $2`,
    [new Date(beforeMs), new Date(sinceMs)],
  )
  return rows.map(row => row.hoster_id)
}

function waitingModel(row: WaitingRow): WaitingModel {
  return {
    changeId: row.change_id,
    endpointId: row.endpoint_id,
    state: row.state,
    appliesAt: row.applies_at,
    model: hostedModel(row),
  }
}
