import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../../../base/db/control-version.ts'
import { type Pool, type Sql, transaction } from '../../../base/db/pool.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { sealSecret } from '../../../base/secrets/sealed-secret.ts'
import { checkHosterUrl, checkInteger, checkKey, checkModel, checkName, checkTrust } from './check-hoster.ts'
import { type HostedModel, insertPrice } from './hosted-model.ts'
import { approveOnce } from './model-ids.ts'

export interface NewHoster {
  /** Unique among hosters. Commands accept it in place of the id. */
  readonly name: string
  readonly baseUrl: string
  readonly apiKey?: string | undefined
  readonly models: readonly HostedModel[]
  /** 0..1. 0: the hoster earns its score. Otherwise this counts until the operator takes it back. */
  readonly trustScore: number
  /** The hoster's share of each charge, in basis points: 8,000 leaves the platform a fee of 20%. */
  readonly shareBps: number
}

export interface NewHosterOptions {
  readonly masterKeys: SealingKeys
  readonly allowPrivateUrls: boolean
}

/** Like `insertHoster`, in a transaction of its own. */
export function addHoster(
  pool: Pool,
  hoster: NewHoster,
  options: NewHosterOptions,
): Promise<{ hosterId: string; endpointId: string }> {
  return transaction(pool, sql => insertHoster(sql, hoster, options))
}

/**
 * Adds a hoster with one endpoint and its first prices. It stays `pending` and gets no requests until it is
 * activated. Run it in a transaction. Throws SupplyError `invalid_url`, `invalid_value` or `name_taken`.
 */
export async function insertHoster(
  sql: Sql,
  hoster: NewHoster,
  { masterKeys, allowPrivateUrls }: NewHosterOptions,
): Promise<{ hosterId: string; endpointId: string }> {
  const baseUrl = checkHosterUrl(hoster.baseUrl, { allowPrivate: allowPrivateUrls })
  const name = checkName(hoster.name)
  const trustScore = checkTrust(hoster.trustScore)
  const shareBps = checkInteger('The share', hoster.shareBps, 0, 10_000)
  const apiKey = checkKey(hoster.apiKey)
  hoster.models.forEach(checkModel)
  const repeated = hoster.models.find(({ modelId }, at) => hoster.models.findIndex(m => m.modelId === modelId) < at)
  if (repeated)
    throw new SupplyError('invalid_value', `The model ${repeated.modelId} appears twice. Name each model once.`)

  const hosterId = randomUUID()
  const endpointId = randomUUID()
  const { rowCount } = await sql.query(
    `INSERT INTO hoster (hoster_id, name, trust_score, trust_override, share_bps) VALUES ($1, $2, $3::float8, nullif($3::float8, 0), $4)
     ON CONFLICT (name) DO NOTHING`,
    [hosterId, name, trustScore, shareBps],
  )
  if (rowCount === 0)
    throw new SupplyError('name_taken', `A hoster named "${name}" exists already. Choose another name.`)
  const sealed =
    apiKey === undefined ? null : sealSecret(masterKeys, apiKey, { ownerId: hosterId, purpose: 'upstream_key' })
  await sql.query(
    `INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url, key_sealed) VALUES ($1, $2, $3, $4)`,
    [endpointId, hosterId, baseUrl, sealed],
  )
  for (const model of hoster.models) await insertPrice(sql, endpointId, 1, model)
  await approveOnce(
    sql,
    hoster.models.map(({ modelId }) => modelId),
    'The operator added it with a hoster.',
  )
  await bumpControlVersion(sql, 'supply')
  return { hosterId, endpointId }
}
