import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import type { HosterState } from '../../base/domain/hoster-state.ts'
import type { MemberRole } from '../../base/domain/member-role.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { StoredManifest } from '../../wire/api/hoster-manifest.ts'
import type { Verification } from '../../wire/api/hoster-verification.ts'
import { readShownScore } from '../supply/hosters/shown-score.ts'
import { applyAsHoster, changeServer, type HosterServer, type ServerRules } from './apply.ts'
import { changeHosterState, noteHosterAction, type StateActor } from './change-hoster-state.ts'
import { issueKeyOf, type NewKeyOrder, revokeKeyOf } from './change-keys.ts'
import { type HosterKeyListing, type IssuedHosterKey, listHosterKeys } from './hoster-keys.ts'
import {
  changeHosterMember,
  type HosterMember,
  type HosterMemberChange,
  type HosterMembership,
  listHosterMembers,
  listHosterMemberships,
} from './hoster-members.ts'
import { listWaiting } from './manifests.ts'
import { type ManifestRules, type ManifestUpload, putManifest } from './put-manifest.ts'
import {
  listStateChanges,
  type OwnHoster,
  type PastStateChange,
  showHoster,
  showManifest,
  showVerification,
} from './show-hoster.ts'
import { enqueueProbes, enqueueVerification, startVerification } from './verification.ts'

/**
 * What the programs and people of a hoster read and change. All methods reject with ApiError: `database_unavailable`,
 * `hoster_not_found`, and what they name.
 */
export interface HosterService {
  /** Returns the hosters of a person. */
  memberships(personId: string): Promise<HosterMembership[]>
  /** Returns what the operator offers those who apply now. */
  terms(): HosterTerms
  /** Makes a hoster and returns its id. Rejects like `applyAsHoster`, and with `sign_up_closed`. */
  apply(actor: StateActor, application: { name: string; server: HosterServer; personId: string }): Promise<string>
  show(hosterId: string): Promise<{ hoster: OwnHoster; trustScore: number; changes: PastStateChange[] }>
  /** Rejects like `changeHosterState`. */
  changeState(actor: StateActor, hosterId: string, change: { to: HosterState; reason: string }): Promise<void>
  /** Rejects like `changeServer`. */
  changeServer(actor: StateActor, hosterId: string, server: HosterServer): Promise<void>
  /** Rejects with `not_found` before the first manifest. */
  manifest(hosterId: string): Promise<StoredManifest>
  /** Rejects like `putManifest`. */
  putManifest(
    actor: StateActor,
    hosterId: string,
    upload: Pick<ManifestUpload, 'manifest' | 'expected'>,
  ): Promise<StoredManifest>
  verification(hosterId: string): Promise<Verification>
  /**
   * Starts the verification, a further check of a pending hoster, or the probes of waiting models. A job does the work.
   * Rejects with `hoster_state_refused`.
   */
  verify(actor: StateActor, hosterId: string): Promise<Verification>
  keys(hosterId: string): Promise<HosterKeyListing[]>
  /** Rejects with `invalid_value` when there are too many. */
  issueKey(actor: StateActor, hosterId: string, order: NewKeyOrder): Promise<IssuedHosterKey>
  /** Rejects with `not_found`. */
  revokeKey(actor: StateActor, hosterId: string, keyId: string): Promise<void>
  members(hosterId: string): Promise<HosterMember[]>
  /** Changes or removes the member with this address. Rejects like `changeHosterMember`. */
  changeMember(actor: StateActor, hosterId: string, change: MemberOrder): Promise<void>
  /** Ends the membership of the person who acts. Rejects with `last_owner`. */
  leave(actor: StateActor, hosterId: string): Promise<void>
}

export interface MemberOrder {
  readonly email: string
  /** Null removes the member. */
  readonly role: MemberRole | null
  /** What happens to the keys of a person who is removed: they end, or are those of the person who acts. */
  readonly keys: 'revoke' | 'hand_over'
}

export interface HosterServiceDeps {
  readonly pool: Pool
  /** For members and keys: see Database in start/compose. */
  readonly deskPool: Pool
  readonly clock: Clock
  readonly rules: ManifestRules
  readonly server: ServerRules
  /** The share of each charge that a new hoster earns. */
  readonly shareBps: number
  readonly acceptsApplications: boolean
  /** When and from which amount on hosters are paid. */
  readonly payouts: Pick<HosterTerms, 'holdDays' | 'minNanos'>
}

export interface HosterTerms {
  readonly shareBps: number
  readonly holdDays: number
  /** Less is not paid out. */
  readonly minNanos: Nanos
  readonly maxPrice: ManifestRules['max']
}

export function createHosterService(deps: HosterServiceDeps): HosterService {
  const { pool, deskPool, clock, rules } = deps
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)
  const atDesk = <T>(work: (sql: Sql) => Promise<T>) => transaction(deskPool, work).catch(refuseOutage)
  const manifestOf = async (sql: Sql, hosterId: string): Promise<StoredManifest> => {
    const found = await showManifest(sql, hosterId)
    if (found !== null) return found
    throw new ApiError('not_found', { message: sayRefusal('refusal.no_manifest') })
  }

  const change = (
    actor: StateActor,
    hosterId: string,
    isMember: (member: HosterMember) => boolean,
    wanted: HosterMemberChange,
  ) =>
    atDesk(async sql => {
      const { email, before, keys } = await changeHosterMember(sql, hosterId, isMember, wanted)
      const ended = { keys_revoked: keys.revoked, keys_handed_over: keys.handedOver }
      const detail = { email, from: before, to: wanted.role, ...ended }
      await noteHosterAction(sql, actor, hosterId, { action: 'hoster.member_changed', detail })
    })

  return {
    memberships: personId => listHosterMemberships(pool, personId).catch(refuseOutage),
    terms: () => ({ ...deps.payouts, shareBps: deps.shareBps, maxPrice: rules.max }),
    async apply(actor, application) {
      if (!deps.acceptsApplications)
        throw new ApiError('sign_up_closed', {
          message: sayRefusal('refusal.no_applications'),
        })
      return await atDesk(sql => applyAsHoster(sql, { ...application, actor, shareBps: deps.shareBps }, deps.server))
    },
    async show(hosterId) {
      const [hoster, trustScore, changes] = await Promise.all([
        showHoster(pool, hosterId),
        readShownScore(pool, hosterId, clock.epochMs()),
        listStateChanges(pool, hosterId),
      ]).catch(refuseOutage)
      return { hoster, trustScore, changes }
    },
    changeState: (actor, hosterId, change) =>
      inTransaction(async sql => {
        await changeHosterState(sql, { ...actor, ...change, hosterId })
      }),
    changeServer: (actor, hosterId, server) =>
      inTransaction(sql => changeServer(sql, hosterId, { server, actor }, deps.server)),
    manifest: hosterId => manifestOf(pool, hosterId).catch(refuseOutage),
    putManifest: (actor, hosterId, upload) =>
      inTransaction(async sql => {
        await putManifest(sql, { ...upload, hosterId, source: 'sent', actor }, rules, clock.epochMs())
        // A hoster that waits for its verification need not ask for another check.
        if ((await showHoster(sql, hosterId)).state === 'pending') await enqueueVerification(sql, hosterId)
        return manifestOf(sql, hosterId)
      }),
    verification: hosterId => showVerification(pool, hosterId).catch(refuseOutage),
    verify: (actor, hosterId) =>
      inTransaction(async sql => {
        // The hoster first and then its verification, as the job that ends a check: one order of locks.
        await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
        const { state, endpointId } = await showHoster(sql, hosterId)
        // A full verification would stop the requests of an active hoster, so only its new models are probed.
        if (!['applied', 'pending', 'verified'].includes(state)) {
          if ((await listWaiting(sql, endpointId)).some(each => each.state === 'probing')) {
            await enqueueProbes(sql, hosterId)
            return showVerification(sql, hosterId)
          }
          throw new ApiError('hoster_state_refused', {
            message: `The hoster is ${state}, so nothing is left to verify.`,
          })
        }
        await startVerification(sql, hosterId, clock.epochMs())
        await enqueueVerification(sql, hosterId)
        if (state !== 'pending') {
          const reason = sayOfHoster('hoster.asked').text
          await changeHosterState(sql, { ...actor, hosterId, to: 'pending', reason })
        }
        return showVerification(sql, hosterId)
      }),
    keys: hosterId => listHosterKeys(pool, hosterId).catch(refuseOutage),
    issueKey: (actor, hosterId, order) => atDesk(sql => issueKeyOf(sql, hosterId, order, actor)),
    revokeKey: (actor, hosterId, keyId) =>
      atDesk(async sql => {
        await revokeKeyOf(sql, hosterId, keyId, actor)
      }),
    members: hosterId => listHosterMembers(pool, hosterId).catch(refuseOutage),
    changeMember: (actor, hosterId, { email, role, keys }) => {
      const heirId = keys === 'revoke' ? null : actor.personId
      return change(actor, hosterId, each => each.email.toLowerCase() === email.toLowerCase(), { role, heirId })
    },
    leave: (actor, hosterId) =>
      change(actor, hosterId, each => each.personId === actor.personId, { role: null, heirId: null }),
  }
}
