import { randomUUID } from 'node:crypto'
import type { Manifest } from '../api/hoster-manifest.ts'
import type { Sql } from '../db/pool.ts'
import { type HostedModel, hostedModel, PRICE_COLUMNS, type PriceRow } from '../supply/hosters/hosted-model.ts'
import type { OfferedModel } from './price-rules.ts'

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
  const { rows } = await sql.query<{ at: Date | null }>(
    'SELECT max(created_at) AS at FROM hoster_manifest WHERE hoster_id = $1 AND changes_prices',
    [hosterId],
  )
  return rows[0]!.at
}

interface LowestPrices {
  readonly lowest_input: bigint
  readonly lowest_output: bigint
  readonly lowest_cache_read: bigint
  readonly lowest_cache_write: bigint
}

/** Returns the models that a server offers now, with their lowest prices since `sinceMs`. */
export async function listOffered(sql: Sql, endpointId: string, sinceMs: number): Promise<OfferedModel[]> {
  const { rows } = await sql.query<PriceRow & LowestPrices>(
    `SELECT ${PRICE_COLUMNS}, min(past.input_pico_per_token) AS lowest_input, min(past.output_pico_per_token) AS lowest_output,
            min(coalesce(past.cache_read_pico_per_token, past.input_pico_per_token)) AS lowest_cache_read,
            min(coalesce(past.cache_write_pico_per_token, past.input_pico_per_token)) AS lowest_cache_write
       FROM hoster_price p
       JOIN hoster_price past ON past.endpoint_id = p.endpoint_id AND past.model_id = p.model_id
        AND (past.valid_until IS NULL OR past.valid_until > $2)
      WHERE p.endpoint_id = $1 AND p.valid_until IS NULL
      GROUP BY p.endpoint_id, p.model_id, p.version`,
    [endpointId, new Date(sinceMs)],
  )
  return rows.map(row => ({
    model: hostedModel(row),
    lowest: {
      inputPicoPerToken: row.lowest_input,
      outputPicoPerToken: row.lowest_output,
      cacheReadPicoPerToken: row.lowest_cache_read,
      cacheWritePicoPerToken: row.lowest_cache_write,
    },
  }))
}

/** A price that waits for its notice. */
export interface ScheduledPrice {
  readonly changeId: string
  readonly endpointId: string
  readonly appliesAt: Date
  readonly model: Required<HostedModel>
}

interface ScheduledRow extends PriceRow {
  readonly change_id: string
  readonly endpoint_id: string
  readonly applies_at: Date
}

const SCHEDULED_COLUMNS = PRICE_COLUMNS.replace('p.version, ', '')

/** Returns the prices of a server that wait for their notice, the next one first. */
export async function listScheduled(sql: Sql, endpointId: string): Promise<ScheduledPrice[]> {
  const { rows } = await sql.query<ScheduledRow>(
    `SELECT change_id, endpoint_id, applies_at, ${SCHEDULED_COLUMNS} FROM hoster_price_change p
      WHERE endpoint_id = $1 AND state = 'scheduled' ORDER BY applies_at, model_id`,
    [endpointId],
  )
  return rows.map(scheduledPrice)
}

/** Returns a price that has waited for its notice, and keeps others from it until the transaction ends. */
export async function lockDuePrice(sql: Sql, nowMs: number): Promise<ScheduledPrice | undefined> {
  const { rows } = await sql.query<ScheduledRow>(
    `SELECT change_id, endpoint_id, applies_at, ${SCHEDULED_COLUMNS} FROM hoster_price_change p
      WHERE state = 'scheduled' AND applies_at <= $1 ORDER BY applies_at, change_id LIMIT 1 FOR UPDATE SKIP LOCKED`,
    [new Date(nowMs)],
  )
  return rows[0] && scheduledPrice(rows[0])
}

export async function schedulePrice(sql: Sql, endpointId: string, model: HostedModel, appliesAt: Date): Promise<void> {
  const { price } = model
  await sql.query(
    `INSERT INTO hoster_price_change (change_id, endpoint_id, model_id, upstream_model, input_pico_per_token, output_pico_per_token,
       cache_read_pico_per_token, cache_write_pico_per_token, context_tokens, max_output_tokens, features, applies_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
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
    ],
  )
}

export async function endScheduled(sql: Sql, changeId: string, state: 'applied' | 'cancelled'): Promise<void> {
  await sql.query('UPDATE hoster_price_change SET state = $2 WHERE change_id = $1', [changeId, state])
}

function scheduledPrice(row: ScheduledRow): ScheduledPrice {
  return {
    changeId: row.change_id,
    endpointId: row.endpoint_id,
    appliesAt: row.applies_at,
    model: hostedModel(row),
  }
}
