import { noteAction } from '../../../base/db/audit-log.ts'
import { bumpControlVersion } from '../../../base/db/control-version.ts'
import { type Pool, type Sql, transaction } from '../../../base/db/pool.ts'
import { commandLine } from '../../../base/domain/acting.ts'
import type { HosterState } from '../../../base/domain/hoster-state.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { groupBy } from '../../../base/runtime/collections.ts'
import { ownCommand } from '../../../base/runtime/own-command.ts'
import { sealSecret } from '../../../base/secrets/sealed-secret.ts'
import { checkKey, checkTrust } from './check-hoster.ts'
import { type HostedModel, hostedModel, PRICE_COLUMNS, type PriceRow } from './hosted-model.ts'

// Every change to the supply bumps the control topic `supply` in its own transaction, so running nodes see it
// within about a second.

/** A hoster as an operator sees it, without its key. */
export interface HosterListing {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  readonly trustScore: number
  readonly shareBps: number
  readonly hasContract: boolean
  readonly endpointId: string
  readonly baseUrl: string
  readonly hasKey: boolean
  readonly createdAt: Date
  readonly models: readonly (Required<HostedModel> & { readonly priceVersion: number })[]
}

/** Returns all hosters, or the one with this id, with their current prices, oldest first. */
export async function listHosters(sql: Sql, hosterId: string | null = null): Promise<HosterListing[]> {
  const { rows } = await sql.query<ListingRow>(
    `
    SELECT h.hoster_id, h.name, h.state, h.trust_score, h.share_bps, h.has_contract, h.created_at,
           e.endpoint_id, e.base_url, e.key_sealed IS NOT NULL AS has_key,
           ${PRICE_COLUMNS}
    FROM hoster h
    JOIN hoster_endpoint e USING (hoster_id)
    LEFT JOIN hoster_price p ON p.endpoint_id = e.endpoint_id AND p.valid_until IS NULL
    WHERE $1::uuid IS NULL OR h.hoster_id = $1
    ORDER BY h.created_at, h.hoster_id, e.endpoint_id, p.model_id`,
    [hosterId],
  )
  return [...groupBy(rows, row => row.endpoint_id).values()].map(group => ({
    hosterId: group[0].hoster_id,
    name: group[0].name,
    state: group[0].state,
    trustScore: group[0].trust_score,
    shareBps: group[0].share_bps,
    hasContract: group[0].has_contract,
    endpointId: group[0].endpoint_id,
    baseUrl: group[0].base_url,
    hasKey: group[0].has_key,
    createdAt: group[0].created_at,
    models: group.flatMap(row => (row.model_id === null ? [] : [{ ...hostedModel(row), priceVersion: row.version }])),
  }))
}

/**
 * Replaces the earned trust score by one from 0 to 1; null: the earned one counts again. Throws SupplyError `unknown_hoster` or
 * `invalid_value`.
 */
export function setTrustScore(pool: Pool, hoster: string, trustScore: number | null): Promise<HosterRef> {
  return transaction(pool, async sql => {
    const found = await changeTrustScore(sql, hoster, trustScore)
    await noteHosterChanged(sql, found, { trust_score: trustScore })
    return found
  })
}

/** Like `setTrustScore`, inside a transaction. */
export async function changeTrustScore(sql: Sql, hoster: string, trustScore: number | null): Promise<HosterRef> {
  if (trustScore !== null) checkTrust(trustScore)
  const found = await lockHoster(sql, hoster)
  await sql.query(SET_OVERRIDE, [found.hosterId, trustScore])
  await bumpControlVersion(sql, 'supply')
  return found
}

/**
 * Notes whether the operator has a contract with a hoster, which lifts the cap of its score. Throws SupplyError
 * `unknown_hoster`.
 */
export function setContract(pool: Pool, hoster: string, hasContract: boolean): Promise<HosterRef> {
  return transaction(pool, async sql => {
    const found = await changeContract(sql, hoster, hasContract)
    await noteHosterChanged(sql, found, { has_contract: hasContract })
    return found
  })
}

/** Like `setContract`, inside a transaction. */
export async function changeContract(sql: Sql, hoster: string, hasContract: boolean): Promise<HosterRef> {
  const found = await lockHoster(sql, hoster)
  await sql.query('UPDATE hoster SET has_contract = $2 WHERE hoster_id = $1', [found.hosterId, hasContract])
  return found
}

/**
 * Replaces the upstream key; null removes it. Throws SupplyError `unknown_hoster` or
 * `invalid_value`.
 */
export async function setHosterKey(
  pool: Pool,
  hoster: string,
  apiKey: string | null,
  masterKeys: SealingKeys,
): Promise<HosterRef> {
  const key = apiKey === null ? undefined : checkKey(apiKey)
  return changeHoster(pool, hoster, async (sql, { hosterId, name }) => {
    const sealed =
      key === undefined ? null : sealSecret(masterKeys, key, { ownerId: hosterId, purpose: 'upstream_key' })
    await sql.query('UPDATE hoster_endpoint SET key_sealed = $2 WHERE hoster_id = $1', [hosterId, sealed])
    await noteHosterChanged(sql, { hosterId, name }, { has_upstream_key: key !== undefined })
  })
}

export interface HosterRef {
  readonly hosterId: string
  readonly name: string
}

// A quarantined hoster stays at 0 until the quarantine ends.
const SET_OVERRIDE = `
UPDATE hoster SET trust_override = $2, trust_score = CASE WHEN quarantined_at IS NOT NULL THEN 0
    ELSE coalesce($2, (SELECT (score ->> 'score')::float8 FROM hoster_trust t WHERE t.hoster_id = hoster.hoster_id), 0) END
 WHERE hoster_id = $1`

function changeHoster(
  pool: Pool,
  hoster: string,
  change: (sql: Sql, found: HosterRef) => Promise<unknown>,
): Promise<HosterRef> {
  return transaction(pool, async sql => {
    const found = await lockHoster(sql, hoster)
    await bumpControlVersion(sql, 'supply')
    await change(sql, found)
    return found
  })
}

/** Notes a change by the command line in the audit log, last in its transaction. */
function noteHosterChanged(
  sql: Sql,
  { hosterId, name }: HosterRef,
  after: Readonly<Record<string, unknown>>,
): Promise<void> {
  const detail = { hoster_id: hosterId, after }
  return noteAction(sql, { ...commandLine, action: 'hoster.changed', subject: name, detail })
}

/** Finds a hoster by id or name and locks its row until the transaction ends. Throws SupplyError `unknown_hoster`. */
export async function lockHoster(sql: Sql, hoster: string): Promise<HosterRef> {
  return only(await sql.query<HosterRef>(`${FIND} FOR UPDATE`, [hoster]), hoster)
}

/** Finds a hoster by id or name. Throws SupplyError `unknown_hoster`. */
export async function findHoster(sql: Sql, hoster: string): Promise<HosterRef> {
  return only(await sql.query<HosterRef>(FIND, [hoster]), hoster)
}

const FIND = 'SELECT hoster_id AS "hosterId", name FROM hoster WHERE hoster_id::text = lower($1) OR name = $1'

function only({ rows }: { readonly rows: readonly HosterRef[] }, hoster: string): HosterRef {
  if (rows[0] === undefined)
    throw new SupplyError(
      'unknown_hoster',
      `There is no hoster with the id or name "${hoster}". List them with: ${ownCommand('hoster list')}`,
    )
  return rows[0]
}

interface ListingHead {
  hoster_id: string
  name: string
  state: HosterState
  trust_score: number
  share_bps: number
  has_contract: boolean
  created_at: Date
  endpoint_id: string
  base_url: string
  has_key: boolean
}

type ListingRow = ListingHead & (PriceRow | { model_id: null })

/**
 * How requests reach the server of a hoster: `direct` to its address, or `agent` over connections that the hoster's
 * agent opened to the gateway.
 */
export type HosterTransport = 'direct' | 'agent'

/**
 * The base URL of every server behind an agent. The name never resolves (RFC 6761), so nothing can be sent there by
 * mistake.
 */
export const AGENT_BASE_URL = 'https://agent.invalid/v1'
