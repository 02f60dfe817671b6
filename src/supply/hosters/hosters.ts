import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../../db/control-version.ts'
import { type Pool, type Sql, transaction } from '../../db/pool.ts'
import { type Feature, features } from '../../domain/chat-job.ts'
import type { TokenPrice } from '../../domain/money.ts'
import { isReservedModel } from '../../domain/offer.ts'
import { SupplyError } from '../../domain/supply-error.ts'
import { UUID } from '../../runtime/uuid.ts'
import { sealSecret } from '../../secrets/sealed-secret.ts'
import { checkHosterUrl } from './hoster-url.ts'

// Every change here bumps the control topic `supply` in its own transaction, so that running nodes see it within about a second.

export interface NewHoster {
  /** Unique among hosters; what operators type. */
  readonly name: string
  readonly baseUrl: string
  readonly apiKey?: string | undefined
  readonly models: readonly HostedModel[]
  /** 0..1 */
  readonly trustScore: number
  /** The hoster's part of each charge, in basis points: 8,000 leaves the platform a fee of 20 %. */
  readonly shareBps: number
}

export interface HostedModel {
  readonly modelId: string
  /** The id the hoster knows it by; the model id when left out. */
  readonly upstreamModel?: string | undefined
  readonly price: TokenPrice
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly features: readonly Feature[]
}

export type HosterState = 'pending' | 'active' | 'suspended'

/** A hoster as an operator sees it; never its key. */
export interface HosterListing {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  readonly trustScore: number
  readonly shareBps: number
  readonly endpointId: string
  readonly baseUrl: string
  readonly hasKey: boolean
  readonly createdAt: Date
  readonly models: readonly (Required<HostedModel> & { readonly priceVersion: number })[]
}

/**
 * Adds a hoster with one endpoint and its first prices. It stays `pending`, and gets no requests, until activated.
 * Throws SupplyError `invalid_url`, `invalid_value` or `name_taken`.
 */
export async function addHoster(
  pool: Pool,
  hoster: NewHoster,
  { masterKey, allowPrivateUrls }: { masterKey: Buffer; allowPrivateUrls: boolean },
): Promise<{ hosterId: string; endpointId: string }> {
  const baseUrl = checkHosterUrl(hoster.baseUrl, { allowPrivate: allowPrivateUrls })
  const name = checkName(hoster.name)
  const trustScore = checkTrust(hoster.trustScore)
  const shareBps = checkInteger('The share', hoster.shareBps, 0, 10_000)
  const apiKey = checkKey(hoster.apiKey)
  hoster.models.forEach(checkModel)
  const repeated = hoster.models.find(({ modelId }, at) => hoster.models.findIndex(m => m.modelId === modelId) < at)
  if (repeated) throw new SupplyError('invalid_value', `The model ${repeated.modelId} is given twice.`)

  const hosterId = randomUUID()
  const endpointId = randomUUID()
  await transaction(pool, async sql => {
    const { rowCount } = await sql.query(
      `INSERT INTO hoster (hoster_id, name, trust_score, share_bps) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING`,
      [hosterId, name, trustScore, shareBps],
    )
    if (rowCount === 0)
      throw new SupplyError('name_taken', `A hoster named "${name}" exists already. Choose another name.`)
    const sealed =
      apiKey === undefined ? null : sealSecret(masterKey, apiKey, { ownerId: hosterId, purpose: 'upstream_key' })
    await sql.query(
      `INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url, key_sealed) VALUES ($1, $2, $3, $4)`,
      [endpointId, hosterId, baseUrl, sealed],
    )
    for (const model of hoster.models) await insertPrice(sql, endpointId, 1, model)
    await bumpControlVersion(sql, 'supply')
  })
  return { hosterId, endpointId }
}

/** All hosters with their current prices, oldest first. */
export async function listHosters(sql: Sql): Promise<HosterListing[]> {
  const { rows } = await sql.query<ListingRow>(`
    SELECT h.hoster_id, h.name, h.state, h.trust_score, h.share_bps, h.created_at,
           e.endpoint_id, e.base_url, e.key_sealed IS NOT NULL AS has_key,
           p.model_id, p.upstream_model, p.version, p.input_pico_per_token, p.output_pico_per_token,
           p.context_tokens, p.max_output_tokens, p.features
    FROM hoster h
    JOIN hoster_endpoint e USING (hoster_id)
    LEFT JOIN hoster_price p ON p.endpoint_id = e.endpoint_id AND p.valid_until IS NULL
    ORDER BY h.created_at, h.hoster_id, e.endpoint_id, p.model_id`)
  return [...Map.groupBy(rows, row => row.endpoint_id).values()].map(group => ({
    hosterId: group[0]!.hoster_id,
    name: group[0]!.name,
    state: group[0]!.state,
    trustScore: group[0]!.trust_score,
    shareBps: group[0]!.share_bps,
    endpointId: group[0]!.endpoint_id,
    baseUrl: group[0]!.base_url,
    hasKey: group[0]!.has_key,
    createdAt: group[0]!.created_at,
    models: group.flatMap(row => (row.model_id === null ? [] : [{ ...toModel(row), priceVersion: row.version }])),
  }))
}

export interface PriceChange {
  readonly modelId: string
  readonly price: TokenPrice
  /** Kept from the version before when left out; a model that is new at this hoster needs both token limits. */
  readonly upstreamModel?: string | undefined
  readonly contextTokens?: number | undefined
  readonly maxOutputTokens?: number | undefined
  readonly features?: readonly Feature[] | undefined
}

/**
 * Closes the current price of a model and opens the next version. Requests admitted before keep the price they were admitted at.
 * Throws SupplyError `unknown_hoster`, `unknown_model` (new model without token limits) or `invalid_value`.
 *
 * @param hoster id or name
 */
export async function setHosterPrice(
  pool: Pool,
  hoster: string,
  change: PriceChange,
): Promise<HosterRef & { version: number }> {
  return transaction(pool, async sql => {
    const { hosterId, name } = await lockHoster(sql, hoster)
    const endpoint = await sql.query<{ endpoint_id: string }>(
      'SELECT endpoint_id FROM hoster_endpoint WHERE hoster_id = $1 ORDER BY created_at, endpoint_id LIMIT 1',
      [hosterId],
    )
    const endpointId = endpoint.rows[0]!.endpoint_id
    const before = await latestPrice(sql, endpointId, change.modelId)
    const contextTokens = change.contextTokens ?? before?.context_tokens
    const maxOutputTokens = change.maxOutputTokens ?? before?.max_output_tokens
    if (contextTokens === undefined || maxOutputTokens === undefined) {
      throw new SupplyError(
        'unknown_model',
        `This hoster does not have the model ${change.modelId} yet. Give its context length and its largest output as well.`,
      )
    }
    const model: HostedModel = {
      modelId: change.modelId,
      upstreamModel: change.upstreamModel ?? before?.upstream_model ?? change.modelId,
      price: change.price,
      contextTokens,
      maxOutputTokens,
      features: change.features ?? before?.features ?? [],
    }
    checkModel(model)
    const version = (before?.version ?? 0) + 1
    await sql.query(
      'UPDATE hoster_price SET valid_until = now() WHERE endpoint_id = $1 AND model_id = $2 AND valid_until IS NULL',
      [endpointId, change.modelId],
    )
    await insertPrice(sql, endpointId, version, model)
    await bumpControlVersion(sql, 'supply')
    return { hosterId, name, version }
  })
}

/**
 * Lets a hoster receive requests, for the models it has prices for: `pricedModels` of them, perhaps none yet. `hoster` is an id or a
 * name. Throws SupplyError `unknown_hoster`.
 */
export async function activateHoster(pool: Pool, hoster: string): Promise<HosterRef & { pricedModels: number }> {
  const found = await setState(pool, hoster, 'active')
  const { rows } = await pool.query<{ models: number }>(
    `SELECT count(*)::integer AS models FROM hoster_price JOIN hoster_endpoint USING (endpoint_id)
     WHERE hoster_id = $1 AND valid_until IS NULL`,
    [found.hosterId],
  )
  return { ...found, pricedModels: rows[0]!.models }
}

/** Stops new requests to a hoster; running ones finish and are paid. Throws SupplyError `unknown_hoster`. */
export function suspendHoster(pool: Pool, hoster: string): Promise<HosterRef> {
  return setState(pool, hoster, 'suspended')
}

/** Sets the trust score, 0 to 1. Throws SupplyError `unknown_hoster` or `invalid_value`. */
export async function setTrustScore(pool: Pool, hoster: string, trustScore: number): Promise<HosterRef> {
  checkTrust(trustScore)
  return changeHoster(pool, hoster, (sql, hosterId) =>
    sql.query('UPDATE hoster SET trust_score = $2 WHERE hoster_id = $1', [hosterId, trustScore]),
  )
}

/** Replaces the upstream key; null for a hoster that wants none. Throws SupplyError `unknown_hoster` or `invalid_value`. */
export async function setHosterKey(
  pool: Pool,
  hoster: string,
  apiKey: string | null,
  masterKey: Buffer,
): Promise<HosterRef> {
  const key = apiKey === null ? undefined : checkKey(apiKey)
  return changeHoster(pool, hoster, (sql, hosterId) => {
    const sealed = key === undefined ? null : sealSecret(masterKey, key, { ownerId: hosterId, purpose: 'upstream_key' })
    return sql.query('UPDATE hoster_endpoint SET key_sealed = $2 WHERE hoster_id = $1', [hosterId, sealed])
  })
}

export interface HosterRef {
  readonly hosterId: string
  readonly name: string
}

function setState(pool: Pool, hoster: string, state: HosterState): Promise<HosterRef> {
  return changeHoster(pool, hoster, (sql, hosterId) =>
    sql.query('UPDATE hoster SET state = $2 WHERE hoster_id = $1', [hosterId, state]),
  )
}

function changeHoster(
  pool: Pool,
  hoster: string,
  change: (sql: Sql, hosterId: string) => Promise<unknown>,
): Promise<HosterRef> {
  return transaction(pool, async sql => {
    const found = await lockHoster(sql, hoster)
    await change(sql, found.hosterId)
    await bumpControlVersion(sql, 'supply')
    return found
  })
}

/** Finds a hoster by id or name and keeps others from changing it until the transaction ends. */
async function lockHoster(sql: Sql, hoster: string): Promise<HosterRef> {
  const { rows } = await sql.query<{ hoster_id: string; name: string }>(
    'SELECT hoster_id, name FROM hoster WHERE hoster_id::text = lower($1) OR name = $1 FOR UPDATE',
    [hoster],
  )
  const row = rows[0]
  if (!row)
    throw new SupplyError(
      'unknown_hoster',
      `There is no hoster with the id or name "${hoster}". List them with: switchyard hoster list`,
    )
  return { hosterId: row.hoster_id, name: row.name }
}

interface PriceRow {
  model_id: string
  upstream_model: string
  version: number
  input_pico_per_token: bigint
  output_pico_per_token: bigint
  context_tokens: number
  max_output_tokens: number
  features: Feature[]
}

interface ListingHead {
  hoster_id: string
  name: string
  state: HosterState
  trust_score: number
  share_bps: number
  created_at: Date
  endpoint_id: string
  base_url: string
  has_key: boolean
}

type ListingRow = ListingHead & (PriceRow | { model_id: null })

function toModel(row: PriceRow): Required<HostedModel> {
  return {
    modelId: row.model_id,
    upstreamModel: row.upstream_model,
    price: { inputPicoPerToken: row.input_pico_per_token, outputPicoPerToken: row.output_pico_per_token },
    contextTokens: row.context_tokens,
    maxOutputTokens: row.max_output_tokens,
    features: row.features,
  }
}

async function latestPrice(sql: Sql, endpointId: string, modelId: string): Promise<PriceRow | undefined> {
  const { rows } = await sql.query<PriceRow>(
    'SELECT * FROM hoster_price WHERE endpoint_id = $1 AND model_id = $2 ORDER BY version DESC LIMIT 1',
    [endpointId, modelId],
  )
  return rows[0]
}

async function insertPrice(sql: Sql, endpointId: string, version: number, model: HostedModel): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_price (endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token,
                               context_tokens, max_output_tokens, features)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      endpointId,
      model.modelId,
      version,
      model.upstreamModel ?? model.modelId,
      model.price.inputPicoPerToken,
      model.price.outputPicoPerToken,
      model.contextTokens,
      model.maxOutputTokens,
      [...model.features],
    ],
  )
}

/** 1,000 USD per million tokens. The dearest models on sale ask about 200; above it is a slip of the decimal point. */
const DEAREST_PICO_PER_TOKEN = 1_000_000_000n

function checkModel(model: HostedModel): void {
  checkModelId('The model id', model.modelId)
  if (isReservedModel(model.modelId))
    throw new SupplyError('invalid_value', `The model id "${model.modelId}" is reserved. Choose another one.`)
  if (model.upstreamModel !== undefined) checkModelId('The upstream model', model.upstreamModel)
  checkPrice('The input price', model.price.inputPicoPerToken)
  checkPrice('The output price', model.price.outputPicoPerToken)
  checkInteger('The context length', model.contextTokens, 1, 100_000_000)
  checkInteger('The largest output', model.maxOutputTokens, 1, 100_000_000)
  if (model.maxOutputTokens > model.contextTokens) {
    const [output, context] = [model.maxOutputTokens, model.contextTokens]
    throw new SupplyError(
      'invalid_value',
      `The largest output, ${output} tokens, is more than the context length, ${context}; input and output together have to fit in there.`,
    )
  }
  const unknown = model.features.find(feature => !features.includes(feature))
  if (unknown) throw new SupplyError('invalid_value', `"${unknown}" is not a feature. Use ${features.join(', ')}.`)
}

function checkModelId(what: string, id: string): void {
  if (!/^[\w.:/@+-]{1,200}$/.test(id))
    throw new SupplyError('invalid_value', `${what} "${id}" must have 1 to 200 letters, digits or any of . : / @ + _ -`)
}

function checkPrice(what: string, picoPerToken: bigint): void {
  if (picoPerToken < 0n || picoPerToken > DEAREST_PICO_PER_TOKEN)
    throw new SupplyError('invalid_value', `${what} must be between 0 and 1,000 USD per million tokens.`)
}

function checkInteger(what: string, value: number, least: number, most: number): number {
  if (!Number.isInteger(value) || value < least || value > most)
    throw new SupplyError('invalid_value', `${what} must be a whole number from ${least} to ${most}.`)
  return value
}

function checkTrust(trustScore: number): number {
  if (!(trustScore >= 0 && trustScore <= 1))
    throw new SupplyError('invalid_value', 'The trust score must be between 0 and 1.')
  return trustScore
}

function checkName(name: string): string {
  if (!/^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,79}$/u.test(name) || name.endsWith(' '))
    throw new SupplyError(
      'invalid_value',
      'The name must have 1 to 80 letters, digits, spaces, dots, dashes or underscores, and begin and end with no space.',
    )
  // Hosters are found by either, and whoever is named like another one would be suspended, priced and sent keys in its place.
  if (UUID.test(name)) throw new SupplyError('invalid_value', 'The name must not look like an id.')
  return name
}

function checkKey(key: string | undefined): string | undefined {
  // It becomes a header value; anything else would be an injection or a typing mistake.
  if (key !== undefined && !/^[\x21-\x7e]{1,4096}$/.test(key))
    throw new SupplyError('invalid_value', 'The upstream key must be printable ASCII without spaces.')
  return key
}
