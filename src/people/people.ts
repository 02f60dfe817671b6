import { type Pool, type Sql, transaction } from '../db/pool.ts'
import { refuseOutage } from '../db/refuse-outage.ts'
import { ApiError } from '../domain/errors.ts'
import { networkOf } from '../runtime/client-address.ts'
import type { Clock } from '../runtime/clock.ts'
import { noteAction } from './audit-log.ts'
import { createCredentialCheck } from './credential-check.ts'
import { type Factors, removeTotp, requireFactorInUse } from './factors.ts'
import { readInviteLink, useInviteLink, useWelcomeLink } from './links.ts'
import { noteNetwork } from './networks.ts'
import { hashPassword } from './password.ts'
import {
  addPerson,
  changeEmail,
  findSigningPerson,
  listMemberships,
  type Membership,
  noteVerified,
  setMember,
  setPassword,
} from './persons.ts'
import {
  type ClientTrace,
  confirmSession,
  endOtherSessions,
  endSession,
  findSession,
  type ListedSession,
  listSessions,
  type OpenedSession,
  openSession,
  type SignedIn,
  type VisitedCustomer,
} from './sessions.ts'

/**
 * Signs people in and out. All methods reject with ApiError: `database_unavailable` when PostgreSQL cannot be reached,
 * and what they name.
 */
export interface People {
  /** Rejects with `wrong_credentials`, `second_factor_required`, `wrong_code` or `too_many_attempts`. */
  signIn(
    credentials: { email: string; password: string; code: string | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
  signOut(signedIn: SignedIn, client: ClientTrace): Promise<void>
  /** The session of a cookie, with the customer that the request concerns; undefined when it has ended. */
  find(
    token: string,
    customerId: string | null,
  ): Promise<{ signedIn: SignedIn; customer: VisitedCustomer | undefined } | undefined>
  memberships(personId: string): Promise<Membership[]>
  /**
   * Gives the operator of a welcome link a password, and another e-mail address if there is one, and signs in. Rejects with
   * `link_expired`.
   */
  welcome(
    welcome: { token: string; email: string | null; password: string },
    client: ClientTrace,
  ): Promise<OpenedSession>
  /** Shows the person and the customer of an invitation. Rejects with `link_expired`. */
  showInvite(token: string): Promise<{ email: string; customerEmail: string; role: string; hasPassword: boolean }>
  /**
   * Makes the person of an invitation a member and signs in. A person who has a password must give it, others set one. Rejects
   * with `link_expired`, or as `signIn`.
   */
  join(
    invite: { token: string; name: string; password: string; code: string | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
  /** Changes the password, ends all other sessions and opens a new one. Rejects with `wrong_credentials`. */
  changePassword(
    signedIn: SignedIn,
    change: { currentPassword: string; newPassword: string },
    client: ClientTrace,
  ): Promise<OpenedSession>
  /**
   * Notes that the person has just typed the code, or without an authenticator app the password. The session gets another
   * token. Rejects as `signIn`.
   */
  confirm(
    signedIn: SignedIn,
    typed: { password: string | null; code: string | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
  sessions(signedIn: SignedIn): Promise<ListedSession[]>
  /** Ends one session of the person. Rejects with `not_found`. */
  endSession(signedIn: SignedIn, sessionId: string, client: ClientTrace): Promise<void>
  /** Returns how many sessions ended. */
  endOtherSessions(signedIn: SignedIn, client: ClientTrace): Promise<number>
}

const ACCOUNT_WITHOUT_PASSWORD =
  'This address already has an account, and it has no password. Its owner sets one with a link of the operator, and then joins.'

export function createPeople({
  pool,
  lookups,
  clock,
  factors,
}: {
  pool: Pool
  lookups: Sql
  clock: Clock
  factors: Factors
}): People {
  const nowMs = () => clock.epochMs()
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  const check = createCredentialCheck({ pool, lookups, clock, factors })

  return {
    async signIn(credentials, client) {
      const person = await check(credentials, client)
      return inTransaction(async sql => {
        const opened = await openSession(sql, person, client, nowMs(), person.hasTotp)
        await noteAction(sql, {
          action: 'person.signed_in',
          personId: person.personId,
          subject: person.email,
          address: client.address,
        })
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
    async welcome({ token, email, password }, client) {
      const passwordHash = await hashPassword(password)
      return inTransaction(async sql => {
        const personId = await useWelcomeLink(sql, token, nowMs())
        if (personId === undefined) throw new ApiError('link_expired')
        await setPassword(sql, personId, passwordHash)
        // The operator at the machine has lost the password or the phone.
        await removeTotp(sql, personId)
        if (email !== null) await changeEmail(sql, personId, email)
        await endOtherSessions(sql, personId, null)
        await noteNetwork(sql, personId, networkOf(client.address), nowMs())
        const { address } = client
        const opened = await openSession(sql, { personId, installationRole: 'operator' }, client, nowMs())
        await noteAction(sql, { action: 'person.welcomed', personId, subject: email ?? '', address })
        return opened
      })
    },
    showInvite: token =>
      inTransaction(async sql => {
        const invitation = await readInviteLink(sql, token, nowMs())
        if (invitation === undefined) throw new ApiError('link_expired')
        const { rows } = await sql.query<{ customerEmail: string }>(
          'SELECT email AS "customerEmail" FROM customer WHERE customer_id = $1',
          [invitation.customerId],
        )
        const person = await findSigningPerson(sql, invitation.email)
        const hasPassword = (person?.passwordHash ?? null) !== null
        return { email: invitation.email, role: invitation.role, hasPassword, ...rows[0]! }
      }),
    async join({ token, name, password, code }, client) {
      const { email, hasPassword } = await this.showInvite(token)
      const known = hasPassword ? await check({ email, password, code }, client) : undefined
      const passwordHash = known === undefined ? await hashPassword(password) : null
      return inTransaction(async sql => {
        const invitation = await readInviteLink(sql, token, nowMs())
        if (invitation === undefined) throw new ApiError('link_expired')
        await useInviteLink(sql, token)
        const person = known ?? (await addPerson(sql, { email, name }))
        // A member may invite any address. The link alone must not open the account of another person.
        if (person === undefined) throw new ApiError('link_expired', { message: ACCOUNT_WITHOUT_PASSWORD })
        if (passwordHash !== null) await setPassword(sql, person.personId, passwordHash)
        const { customerId, role } = invitation
        const { personId } = person
        if (invitation.isMailed) await noteVerified(sql, personId, nowMs())
        await setMember(sql, { customerId, personId, role })
        await noteNetwork(sql, personId, networkOf(client.address), nowMs())
        const opened = await openSession(sql, person, client, nowMs(), known?.hasTotp)
        const { address } = client
        await noteAction(sql, {
          action: 'member.joined',
          personId,
          subject: email,
          customerId,
          detail: { role },
          address,
        })
        return opened
      })
    },
    async changePassword(signedIn, { currentPassword, newPassword }, client) {
      requireFactorInUse(signedIn)
      const { person, hasSecondFactor } = signedIn
      await check({ email: person.email, password: currentPassword, code: null }, client, 'password')
      const passwordHash = await hashPassword(newPassword)
      const { personId, email: subject } = person
      return inTransaction(async sql => {
        await setPassword(sql, personId, passwordHash)
        const ended = await endOtherSessions(sql, personId, null)
        const opened = await openSession(sql, person, client, nowMs(), hasSecondFactor)
        const { address } = client
        await noteAction(sql, { action: 'person.password_changed', personId, subject, detail: { ended }, address })
        return opened
      })
    },
    async confirm(signedIn, { password, code }, client) {
      const { email } = signedIn.person
      const { hasTotp } = await check({ email, password, code }, client, 'either')
      return inTransaction(sql => confirmSession(sql, signedIn, { hasSecondFactor: hasTotp }, nowMs()))
    },
    sessions: ({ person }) => listSessions(lookups, person, nowMs()).catch(refuseOutage),
    endSession: ({ person: { personId } }, sessionId, { address }) =>
      inTransaction(async sql => {
        if (!(await endSession(sql, personId, sessionId))) {
          throw new ApiError('not_found', { message: 'This session has already ended.' })
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
