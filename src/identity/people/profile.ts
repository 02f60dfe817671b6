import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { requireFactorInUse } from './factors.ts'
import { makeMailedLink, useMailedLink } from './links.ts'
import { emailChangedMail, hasAccountMail, newEmailMail } from './mail-texts.ts'
import type { PeopleMail } from './people-mail.ts'
import { findSigningPerson } from './persons.ts'
import { type ClientTrace, lockSession, type OpenedSession, renewSession, type SignedIn } from './sessions.ts'
import { takeMail } from './sign-in-throttle.ts'

/**
 * The name and the e-mail address of a person. All methods reject with ApiError `database_unavailable`, and with what
 * they name.
 */
export interface Profile {
  changeName(signedIn: SignedIn, name: string, client: ClientTrace): Promise<void>
  /**
   * Mails a link to the new address. Says nothing about whether it has an account. Rejects with `mail_not_configured`,
   * `second_factor_required` or `too_many_attempts`.
   */
  startEmail(signedIn: SignedIn, email: string, client: ClientTrace): Promise<void>
  /**
   * Changes the address, ends the other sessions, and sends a mail to the former address. Rejects with `link_expired`,
   * also for the link of another person.
   */
  finishEmail(signedIn: SignedIn, token: string, client: ClientTrace): Promise<OpenedSession>
}

export function createProfile({
  pool,
  clock,
  mail,
  log,
}: {
  pool: Pool
  clock: Clock
  mail: PeopleMail
  log: { warn(facts: object, message: string): void }
}): Profile {
  const nowMs = () => clock.epochMs()
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  /** The answer does not wait for the look-up and the mail, so its time says nothing about the address. */
  function afterwards(work: () => Promise<unknown>): void {
    work().catch(error => log.warn({ err: error }, 'a mail to a person could not be prepared'))
  }

  async function mailLink(personId: string, email: string) {
    const known = await findSigningPerson(pool, email)
    if (known !== undefined && known.personId !== personId) {
      return mail.send(hasAccountMail(known.email, mail.url('/sign-in')))
    }
    const path = await transaction(pool, sql => makeMailedLink(sql, { purpose: 'email', personId, email }, nowMs()))
    return mail.send(newEmailMail(email, mail.url(path)))
  }

  return {
    changeName: ({ person: { personId, name: before, email: subject } }, name, { address }) =>
      inTransaction(async sql => {
        if (name === before) return
        await sql.query('UPDATE person SET name = $2 WHERE person_id = $1', [personId, name])
        const detail = { from: before, to: name }
        await noteAction(sql, { action: 'person.name_changed', personId, subject, detail, address })
      }),
    async startEmail(signedIn, email, { address }) {
      requireFactorInUse(signedIn)
      if (!mail.canSend) throw new ApiError('mail_not_configured')
      await inTransaction(sql => takeMail(sql, { email, network: networkOf(address) }, nowMs()))
      afterwards(() => mailLink(signedIn.person.personId, email))
    },
    async finishEmail(signedIn, token, { address }) {
      const { personId, email: before } = signedIn.person
      const { email, opened } = await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        const link = await useMailedLink(sql, 'email', token, nowMs())
        // The owner of a mistyped address must not get this account.
        if (link === undefined || link.personId !== personId) throw new ApiError('link_expired')
        const { rowCount } = await sql.query(
          `UPDATE person SET email = $2, email_verified_at = $3 WHERE person_id = $1
              AND NOT EXISTS (SELECT FROM person other WHERE lower(other.email) = lower($2) AND other.person_id <> $1)`,
          [personId, link.email, new Date(nowMs())],
        )
        if (rowCount === 0) throw new ApiError('link_expired')
        // A link to the former mailbox must not set the password any more.
        await sql.query("DELETE FROM person_token WHERE purpose = 'reset' AND person_id = $1", [personId])
        const detail = { from: before, to: link.email }
        await noteAction(sql, { action: 'person.email_changed', personId, subject: link.email, detail, address })
        // A mailbox is a way in: it sets the password.
        return { email: link.email, opened: await renewSession(sql, signedIn, nowMs()) }
      })
      afterwards(() => mail.send(emailChangedMail(before, email)))
      return opened
    },
  }
}
