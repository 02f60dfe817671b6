import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { acceptInvitation, type JoinHoster } from './accept-invitation.ts'
import { hashNewPassword, requireUncommon } from './common-password.ts'
import type { CredentialCheck } from './credential-check.ts'
import { removeFactors } from './factors.ts'
import { unlinkAll } from './identities.ts'
import { readInviteLink, type ShownInvitation, useWelcomeLink } from './links.ts'
import { noteNetwork } from './networks.ts'
import type { PasskeyProof } from './passkey-check.ts'
import { addPerson, changeEmail, findSigningPerson, type SigningPerson, setPassword } from './persons.ts'
import type { ProveAddress } from './prove-address.ts'
import { hashSecretToken } from './secret-token.ts'
import { type ClientTrace, endOtherSessions, type OpenedSession, openSession } from './sessions.ts'

/**
 * Lets people in with a link of an operator or an owner. All methods reject with ApiError `database_unavailable`, and
 * with what they name.
 */
export interface LinkEntry {
  /**
   * Gives the operator of a welcome link a password, and another e-mail address if there is one, and signs in. Rejects with
   * `link_expired`.
   */
  welcome(
    welcome: { token: string; email: string | null; password: string },
    client: ClientTrace,
  ): Promise<OpenedSession>
  /**
   * Shows an invitation, and whether its person has a password: null if the link was not mailed, because then the
   * inviter has it too, and must not find out which addresses have accounts. Rejects with `link_expired`.
   */
  showInvite(token: string): Promise<ShownInvitation & { hasPassword: boolean | null }>
  /**
   * Makes the person of an invitation a member of its customer or hoster, and signs in. A person who has a password
   * must give it, others set one, also to prove the address by a mailed invitation. Rejects with `link_expired`, or as
   * `signIn`.
   */
  join(
    invite: { token: string; name: string; password: string; code: string | null; passkey: PasskeyProof | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
}

const ACCOUNT_WITHOUT_PASSWORD =
  'This address already has an account, and it has no password. Its owner sets one with a link of the operator, and then joins.'

export function createLinkEntry({
  pool,
  clock,
  check,
  joinHoster,
  proveAddress,
}: {
  pool: Pool
  clock: Clock
  check: CredentialCheck
  joinHoster: JoinHoster
  proveAddress: ProveAddress
}): LinkEntry {
  const nowMs = () => clock.epochMs()
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  const read = (token: string): Promise<ShownInvitation & { hasPassword: boolean }> =>
    inTransaction(async sql => {
      const invitation = await readInviteLink(sql, hashSecretToken(token), nowMs())
      if (invitation === undefined) throw new ApiError('link_expired')
      const person = await findSigningPerson(sql, invitation.email)
      const hasPassword = (person?.passwordHash ?? null) !== null && !opensUnproved(invitation, person)
      return { ...invitation, hasPassword }
    })

  return {
    async welcome({ token, email, password }, client) {
      const passwordHash = await hashNewPassword(password, email ?? '')
      return inTransaction(async sql => {
        const personId = await useWelcomeLink(sql, token, nowMs())
        if (personId === undefined) throw new ApiError('link_expired')
        await setPassword(sql, personId, passwordHash)
        await endOtherSessions(sql, personId, null)
        // The operator at the machine has lost the password or the phone, or the account to a thief.
        await removeFactors(sql, personId)
        await unlinkAll(sql, personId)
        if (email !== null) await changeEmail(sql, personId, email)
        await noteNetwork(sql, personId, networkOf(client.address), nowMs())
        const { address } = client
        const opened = await openSession(sql, { personId, installationRole: 'operator' }, client, nowMs(), {
          isFromHost: true,
        })
        const { email: subject } = await queryRow<{ email: string }>(
          sql,
          'SELECT email FROM person WHERE person_id = $1',
          [personId],
        )
        await noteAction(sql, { action: 'person.welcomed', personId, subject, address })
        return opened
      })
    },
    async showInvite(token) {
      const invitation = await read(token)
      return { ...invitation, hasPassword: invitation.isMailed ? invitation.hasPassword : null }
    },
    async join({ token, name, password, code, passkey }, client) {
      const { email, isMailed, hasPassword } = await read(token)
      // Otherwise a common password would tell an address with an account from one without, and use up no invitation.
      if (!isMailed) await requireUncommon(password, email)
      const known = hasPassword ? await check({ email, password, code, passkey }, client) : undefined
      const passwordHash = known === undefined ? await hashNewPassword(password, email) : null
      return inTransaction(async sql => {
        const tokenHash = hashSecretToken(token)
        const invitation = await readInviteLink(sql, tokenHash, nowMs())
        if (invitation === undefined) throw new ApiError('link_expired')
        const person = known ?? (await addPerson(sql, { email, name })) ?? (await unprovedPerson(sql, invitation))
        // A member may invite any address. The link alone must not open the account of another person.
        if (person === undefined) throw new ApiError('link_expired', { message: ACCOUNT_WITHOUT_PASSWORD })
        const { personId } = person
        await acceptInvitation(
          sql,
          { tokenHash, invitation, personId },
          { joinHoster, proveAddress, address: client.address, nowMs: nowMs() },
        )
        if (passwordHash !== null) await setPassword(sql, personId, passwordHash)
        await noteNetwork(sql, personId, networkOf(client.address), nowMs())
        const hasSecondFactor = known !== undefined && (known.hasTotp || known.hasPasskey)
        return openSession(sql, person, client, nowMs(), { hasSecondFactor })
      })
    },
  }
}

/** Returns the person of a mailed invitation with an account that has not proved its address. */
async function unprovedPerson(sql: Sql, invitation: ShownInvitation): Promise<SigningPerson | undefined> {
  const person = await findSigningPerson(sql, invitation.email)
  return opensUnproved(invitation, person) ? person : undefined
}

/**
 * Whether a mailed link opens an account with a password that another person may have set. A link of the host opens
 * those of operators.
 */
function opensUnproved({ isMailed }: ShownInvitation, person: SigningPerson | undefined): boolean {
  return isMailed && person !== undefined && !person.isVerified && person.installationRole === null
}
