import { type AuditAction, noteAction } from '../../base/db/audit-log.ts'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type HosterActor, type HosterState, mayChangeState, nextStates } from '../../base/domain/hoster-state.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import { approveOfferedIds } from '../supply/hosters/model-ids.ts'

/** The program or the person that changes a state, for the audit log. */
export interface StateActor {
  readonly actor: HosterActor
  /** Null: the command line, a key or the gateway. */
  readonly personId: string | null
  readonly keyId: string | null
  /** The address of the client; null for the command line and the gateway. */
  readonly address: string | null
}

/** @public The gateway itself, for example after a passed verification. */
export const gatewayActor: StateActor = { actor: 'system', personId: null, keyId: null, address: null }
/** The operator at the machine. */
export const commandLineActor: StateActor = { actor: 'operator', personId: null, keyId: null, address: null }

export interface StateChange extends StateActor {
  readonly hosterId: string
  readonly to: HosterState
  /** For people: why the state changes. */
  readonly reason: string
}

/**
 * Changes the state of a hoster, with a row of its history and an entry in the audit log. Every node notices within two
 * seconds. Call it last in a transaction: see `noteAction`. Returns the state before. Throws `hoster_not_found`, or
 * `hoster_state_refused` when the actor may not make the change; a change to the same state is refused too.
 */
export async function changeHosterState(sql: Sql, change: StateChange): Promise<{ name: string; from: HosterState }> {
  const { hosterId, to, actor, personId, keyId, address, reason } = change
  const { rows } = await sql.query<{ name: string; from: HosterState; isQuarantined: boolean; isNew: boolean }>(
    'SELECT name, state AS "from", quarantined_at IS NOT NULL AS "isQuarantined", active_since IS NULL AS "isNew" FROM hoster WHERE hoster_id = $1 FOR UPDATE',
    [hosterId],
  )
  const [hoster] = rows
  if (hoster === undefined) throw new ApiError('hoster_not_found')
  const { name, from, isQuarantined, isNew } = hoster
  // The next scores would suspend it again.
  if (isQuarantined && from === 'suspended' && to !== 'retired')
    throw new ApiError('hoster_state_refused', {
      message: `The hoster is in quarantine. End that first: POST /console/api/operator/hosters/{hoster_id}/quarantine with the decision "end", or \`${ownCommand('hoster release')}\`.`,
    })
  if (!mayChangeState(from, to, actor)) throw refusal(from, to, actor)
  await sql.query(
    `UPDATE hoster SET state = $2, active_since = CASE WHEN $2 = 'active' THEN coalesce(active_since, now()) ELSE active_since END
      WHERE hoster_id = $1`,
    [hosterId, to],
  )
  // The operator has reviewed what it offers. Later ids are decided about one by one.
  const approved =
    to === 'active' && actor === 'operator' && isNew ? await approveOfferedIds(sql, hosterId, personId) : []
  await noteStateChange(sql, { ...change, from })
  await bumpControlVersion(sql, 'supply')
  // The keys of a retired hoster end.
  if (to === 'retired') await bumpControlVersion(sql, 'access')
  await noteAction(sql, {
    action: 'hoster.state_changed',
    personId,
    keyId,
    subject: name,
    detail: {
      hoster_id: hosterId,
      from,
      to,
      reason,
      by: actor,
      ...(approved.length > 0 && { approved_models: approved }),
    },
    address,
  })
  return { name, from }
}

/** Writes an entry about a hoster to the audit log. Call it last in a transaction. */
export async function noteHosterAction(
  sql: Sql,
  { personId, keyId, address }: StateActor,
  hosterId: string,
  { action, detail }: { action: AuditAction; detail: Readonly<Record<string, unknown>> },
): Promise<void> {
  const { name } = await queryRow<{ name: string }>(sql, 'SELECT name FROM hoster WHERE hoster_id = $1', [hosterId])
  const noted = { hoster_id: hosterId, ...detail }
  await noteAction(sql, { action, personId, keyId, subject: name, detail: noted, address })
}

/** Writes a row of the history. `from` is null for a new hoster. */
export async function noteStateChange(
  sql: Sql,
  change: StateChange & { readonly from: HosterState | null },
): Promise<void> {
  const { hosterId, from, to, actor, personId, keyId, reason } = change
  await sql.query(
    `INSERT INTO hoster_state_change (hoster_id, from_state, to_state, actor, person_id, key_id, reason)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [hosterId, from, to, actor, personId, keyId, reason],
  )
}

function refusal(from: HosterState, to: HosterState, actor: HosterActor): ApiError {
  if (from === to) return new ApiError('hoster_state_refused', { message: `The hoster is ${to} already.` })
  const next = nextStates(from, actor)
  const advice = next.length === 0 ? 'Nothing leads from there.' : `From there it can become ${next.join(', ')}.`
  return new ApiError('hoster_state_refused', { message: `A hoster that is ${from} cannot become ${to}. ${advice}` })
}
