import { randomUUID } from 'node:crypto'
import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import { sealSecret } from '../../base/secrets/sealed-secret.ts'
import { checkHosterUrl, checkKey, checkName } from '../supply/hosters/check-hoster.ts'
import { AGENT_BASE_URL, type HosterTransport } from '../supply/hosters/hosters.ts'
import { changeHosterState, noteStateChange, type StateActor } from './change-hoster-state.ts'
import { addHosterMember } from './hoster-members.ts'
import { forgetVerification } from './verification.ts'

/** Where the models of a hoster are: an address, or an agent that connects to the gateway. */
export interface HosterServer {
  readonly transport: HosterTransport
  /** Null with `agent`. */
  readonly baseUrl: string | null
  /** Sent to the server. Null: none. */
  readonly apiKey: string | null
}

/** What the operator allows and keeps. */
export interface ServerRules {
  readonly masterKeys: SealingKeys
  readonly allowPrivateUrls: boolean
}

/** The most hosters that a person may own at a time, so that nobody fills the review queue. */
const HOSTERS_MAX = 5

export interface HosterApplication {
  /** Default: a random id. */
  readonly hosterId?: string
  readonly name: string
  readonly server: HosterServer
  /** The owner; null: nobody yet, because the owner is invited. */
  readonly personId: string | null
  readonly shareBps: number
  readonly actor: StateActor
}

/**
 * Makes a hoster in the state `applied`, with its owner if there is one yet, and returns its id. It inherits nothing of
 * an earlier one: no trust, no earnings, no state. Run it in a transaction. Throws `invalid_value` for a name or an
 * address that is not allowed or taken.
 */
export async function applyAsHoster(sql: Sql, application: HosterApplication, rules: ServerRules): Promise<string> {
  const { server, personId, shareBps, actor } = application
  const name = checked('name', () => checkName(application.name))
  const { baseUrl, domain, apiKey } = checkServer(server, rules)
  if (personId !== null) {
    // Applications of one person queue here, so that two at once cannot pass the limit together.
    await sql.query('SELECT FROM person WHERE person_id = $1 FOR NO KEY UPDATE', [personId])
    await requireFewer(sql, personId)
  }
  await requireFree(sql, { name, domain, hosterId: null })
  const { hosterId = randomUUID() } = application
  await sql.query(`INSERT INTO hoster (hoster_id, name, state, share_bps, domain) VALUES ($1, $2, 'applied', $3, $4)`, [
    hosterId,
    name,
    shareBps,
    domain,
  ])
  await sql.query(
    `INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url, transport, key_sealed) VALUES ($1, $2, $3, $4, $5)`,
    [randomUUID(), hosterId, baseUrl, server.transport, sealed(hosterId, apiKey, rules)],
  )
  if (personId !== null) await addHosterMember(sql, { hosterId, personId, role: 'owner' })
  const reason = personId === null ? sayOfHoster('hoster.invited').text : sayOfHoster('hoster.applied').text
  await noteStateChange(sql, { ...actor, hosterId, from: null, to: 'applied', reason })
  await noteAction(sql, {
    action: 'hoster.applied',
    personId: actor.personId,
    subject: name,
    detail: { hoster_id: hosterId, transport: server.transport, base_url: server.baseUrl },
    address: actor.address,
  })
  return hosterId
}

/**
 * Gives a hoster another server. It must be verified again, so a hoster beyond `applied` becomes `pending`. Run it in a
 * transaction. Throws like `applyAsHoster`, and `hoster_state_refused` for a suspended or retired hoster.
 */
export async function changeServer(
  sql: Sql,
  hosterId: string,
  change: { server: HosterServer; actor: StateActor },
  rules: ServerRules,
): Promise<void> {
  const { server, actor } = change
  const { baseUrl, domain, apiKey } = checkServer(server, rules)
  const { rows } = await sql.query<{ state: string }>('SELECT state FROM hoster WHERE hoster_id = $1 FOR UPDATE', [
    hosterId,
  ])
  await requireFree(sql, { name: null, domain, hosterId })
  await sql.query('UPDATE hoster SET domain = $2 WHERE hoster_id = $1', [hosterId, domain])
  await sql.query(
    `UPDATE hoster_endpoint SET base_url = $2, transport = $3, key_sealed = $4, challenge_passed_at = NULL WHERE hoster_id = $1`,
    [hosterId, baseUrl, server.transport, sealed(hosterId, apiKey, rules)],
  )
  await forgetVerification(sql, hosterId)
  const reason = sayOfHoster('hoster.moved').text
  if (rows[0]?.state === 'applied' || rows[0]?.state === 'pending') return
  await changeHosterState(sql, { ...actor, hosterId, to: 'pending', reason })
}

function checkServer(
  { transport, baseUrl, apiKey }: HosterServer,
  { allowPrivateUrls }: ServerRules,
): { baseUrl: string; domain: string | null; apiKey: string | undefined } {
  if (transport === 'agent') return { baseUrl: AGENT_BASE_URL, domain: null, apiKey: undefined }
  if (baseUrl === null)
    throw new ApiError('missing_parameter', { message: sayRefusal('refusal.base_url_required'), param: 'base_url' })
  const url = checked('base_url', () => checkHosterUrl(baseUrl, { allowPrivate: allowPrivateUrls }))
  return { baseUrl: url, domain: new URL(url).host, apiKey: checked('api_key', () => checkKey(apiKey ?? undefined)) }
}

/** Turns a refusal of the supply into one of the field. */
function checked<T>(param: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof SupplyError)) throw error
    throw new ApiError('invalid_value', { message: error.message, param })
  }
}

function sealed(hosterId: string, apiKey: string | undefined, { masterKeys }: ServerRules): Buffer | null {
  return apiKey === undefined ? null : sealSecret(masterKeys, apiKey, { ownerId: hosterId, purpose: 'upstream_key' })
}

async function requireFewer(sql: Sql, personId: string): Promise<void> {
  const { count } = await queryRow<{ count: bigint }>(
    sql,
    `SELECT count(*) FROM hoster_member JOIN hoster USING (hoster_id)
      WHERE person_id = $1 AND role = 'owner' AND state <> 'retired'`,
    [personId],
  )
  if (count < HOSTERS_MAX) return
  throw new ApiError('invalid_value', {
    message: sayRefusal('refusal.too_many_hosters', { count: HOSTERS_MAX }),
  })
}

async function requireFree(
  sql: Sql,
  { name, domain, hosterId }: { name: string | null; domain: string | null; hosterId: string | null },
): Promise<void> {
  const { rows } = await sql.query<{ isName: boolean }>(
    `SELECT name IS NOT DISTINCT FROM $1 AS "isName" FROM hoster
      WHERE (name = $1 OR (domain = $2 AND state <> 'retired')) AND hoster_id IS DISTINCT FROM $3`,
    [name, domain, hosterId],
  )
  if (rows.length === 0) return
  throw rows.some(({ isName }) => isName)
    ? new ApiError('invalid_value', {
        message: sayRefusal('refusal.hoster_exists', { name: name ?? '' }),
        param: 'name',
      })
    : new ApiError('invalid_value', {
        message: sayRefusal('refusal.domain_taken', { domain: domain ?? '' }),
        param: 'base_url',
      })
}
