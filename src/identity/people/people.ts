import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { hashNewPassword } from './common-password.ts'
import type { CredentialCheck } from './credential-check.ts'
import { requireFactorInUse } from './factors.ts'
import { readInvitedRole } from './invited-roles.ts'
import { noteDevice, noteNetwork } from './networks.ts'
import type { PasskeyCheck, PasskeyProof } from './passkey-check.ts'
import { findSigningPersonById, listMemberships, type Membership, setPassword } from './persons.ts'
import { isSecretToken, mintSecretToken } from './secret-token.ts'
import type { SecurityNotices } from './security-notices.ts'
import {
  type ClientTrace,
  confirmSession,
  endOtherSessions,
  endSession,
  findSession,
  type ListedSession,
  listSessions,
  lockSession,
  type OpenedSession,
  openSession,
  type SignedIn,
  type VisitedCustomer,
} from './sessions.ts'
import { noteNamelessSuccess, takeNamelessAttempt } from './sign-in-throttle.ts'

/**
 * Signs people in and out. All methods reject with ApiError: `database_unavailable` when PostgreSQL cannot be reached,
 * and what they name.
 */
export interface People {
  /** Rejects with `wrong_credentials`, `second_factor_required`, `wrong_code` or `too_many_attempts`. */
  signIn(
    credentials: { email: string; password: string; code: string | null; passkey: PasskeyProof | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
  signOut(signedIn: SignedIn, client: ClientTrace): Promise<void>
  /** The session of a cookie, with the customer that the request concerns; undefined when it has ended. */
  find(
    token: string,
    customerId: string | null,
  ): Promise<{ signedIn: SignedIn; customer: VisitedCustomer | undefined } | undefined>
  memberships(personId: string): Promise<Membership[]>
  /** The role on the installation that a person was invited for and does not have yet; null: none. */
  invitedRole(personId: string): Promise<InstallationRole | null>
  /**
   * Notes that the person signed in from the browser with this token. Returns the token, or one for a browser without.
   */
  noteDevice(personId: string, token: string | undefined): Promise<string>
  /** Signs in with a passkey alone. Rejects with `wrong_passkey` or `too_many_attempts`. */
  signInWithPasskey(proof: PasskeyProof, client: ClientTrace): Promise<OpenedSession>
  /**
   * Changes the password, ends all other sessions and opens a new one. `currentPassword` is null for people without
   * one. Rejects with `wrong_credentials`, or `invalid_value` for a common password.
   */
  changePassword(
    signedIn: SignedIn,
    change: { currentPassword: string | null; newPassword: string },
    client: ClientTrace,
  ): Promise<OpenedSession>
  /**
   * Notes that the person has just typed the code, used a passkey or, without a second factor, typed the password. The
   * session gets another token. Rejects as `signIn`.
   */
  confirm(
    signedIn: SignedIn,
    typed: { password: string | null; code: string | null; passkey: PasskeyProof | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
  sessions(signedIn: SignedIn): Promise<ListedSession[]>
  /** Ends one session of the person. Rejects with `not_found`. */
  endSession(signedIn: SignedIn, sessionId: string, client: ClientTrace): Promise<void>
  /** Returns how many sessions ended. */
  endOtherSessions(signedIn: SignedIn, client: ClientTrace): Promise<number>
}

export function createPeople({
  pool,
  lookups,
  clock,
  check,
  passkeyCheck,
  notices,
}: {
  pool: Pool
  lookups: Sql
  clock: Clock
  check: CredentialCheck
  passkeyCheck: PasskeyCheck
  notices: SecurityNotices
}): People {
  const nowMs = () => clock.epochMs()
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  return {
    async signIn(credentials, client) {
      const person = await check(credentials, client)
      return inTransaction(async sql => {
        const opened = await openSession(sql, person, client, nowMs(), {
          hasSecondFactor: person.hasTotp || person.hasPasskey,
        })
        await noteAction(sql, {
          action: 'person.signed_in',
          personId: person.personId,
          subject: person.email,
          address: client.address,
        })
        return opened
      })
    },
    async signInWithPasskey(proof, client) {
      const network = networkOf(client.address)
      await inTransaction(sql => takeNamelessAttempt(sql, network, nowMs()))
      const personId = await passkeyCheck(proof)
      return inTransaction(async sql => {
        const person = await findSigningPersonById(sql, personId)
        if (person === undefined) throw new ApiError('wrong_passkey')
        await noteNamelessSuccess(sql, network)
        await noteNetwork(sql, personId, network, nowMs())
        // The authenticator asked for a finger, a face or a PIN: that and the key are two factors.
        const opened = await openSession(sql, person, client, nowMs(), { hasSecondFactor: true })
        const { email: subject } = person
        const { address } = client
        await noteAction(sql, { action: 'person.signed_in', personId, subject, detail: { with: 'passkey' }, address })
        return opened
      })
    },
    signOut: ({ sessionId, person: { personId, email } }, { address }) =>
      inTransaction(async sql => {
        if (!(await endSession(sql, personId, sessionId))) return
        await noteAction(sql, { action: 'person.signed_out', personId, subject: email, address })
      }),
    find: (token, customerId) => findSession(lookups, token, customerId, nowMs()).catch(refuseOutage),
    memberships: personId => listMemberships(lookups, personId).catch(refuseOutage),
    invitedRole: personId => readInvitedRole(lookups, personId).catch(refuseOutage),
    async changePassword(signedIn, { currentPassword, newPassword }, client) {
      requireFactorInUse(signedIn)
      const { person, hasSecondFactor, isFromHost } = signedIn
      const { personId, email: subject } = person
      if (currentPassword !== null) {
        await check({ email: subject, password: currentPassword, code: null, passkey: null }, client, 'password')
      } else if ((await findSigningPersonById(lookups, personId).catch(refuseOutage))?.passwordHash !== null) {
        throw new ApiError('wrong_credentials', { param: 'current_password' })
      }
      const passwordHash = await hashNewPassword(newPassword, subject, 'new_password')
      const renewed = await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        const ended = await endOtherSessions(sql, personId, null)
        await setPassword(sql, personId, passwordHash)
        const opened = await openSession(sql, person, client, nowMs(), { hasSecondFactor, isFromHost })
        const { address } = client
        await noteAction(sql, { action: 'person.password_changed', personId, subject, detail: { ended }, address })
        return opened
      })
      notices.send(subject, 'password_changed')
      return renewed
    },
    async confirm(signedIn, typed, client) {
      const { hasTotp, hasPasskey } = await check({ email: signedIn.person.email, ...typed }, client, 'either')
      return inTransaction(sql => confirmSession(sql, signedIn, { hasSecondFactor: hasTotp || hasPasskey }, nowMs()))
    },
    async noteDevice(personId, token) {
      const kept = token !== undefined && isSecretToken(token) ? token : mintSecretToken().token
      await noteDevice(pool, personId, kept, nowMs()).catch(refuseOutage)
      return kept
    },
    sessions: ({ person }) => listSessions(lookups, person, nowMs()).catch(refuseOutage),
    endSession: ({ person: { personId } }, sessionId, { address }) =>
      inTransaction(async sql => {
        if (!(await endSession(sql, personId, sessionId))) {
          throw new ApiError('not_found', { message: sayRefusal('refusal.session_ended') })
        }
        await noteAction(sql, { action: 'session.ended', personId, subject: sessionId, address })
      }),
    endOtherSessions: ({ sessionId, person: { personId } }, { address }) =>
      inTransaction(async sql => {
        const ended = await endOtherSessions(sql, personId, sessionId)
        if (ended > 0) {
          await noteAction(sql, {
            action: 'session.ended',
            personId,
            subject: 'all others',
            detail: { ended },
            address,
          })
        }
        return ended
      }),
  }
}
