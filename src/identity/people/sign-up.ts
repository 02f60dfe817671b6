import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { hashNewPassword } from './common-password.ts'
import { type MailedLink, makeMailedLink, readMailedLink, useMailedLink } from './links.ts'
import { hasAccountMail, resetMail, securityMail, signUpMail } from './mail-texts.ts'
import { noteNetwork } from './networks.ts'
import type { PeopleMail } from './people-mail.ts'
import {
  addPerson,
  findSigningPerson,
  lockPerson,
  noteVerified,
  type Person,
  setMember,
  setPassword,
} from './persons.ts'
import type { ProveAddress } from './prove-address.ts'
import { type ClientTrace, endOtherSessions, type OpenedSession, openSession } from './sessions.ts'
import { takeMail } from './sign-in-throttle.ts'
import { openSignupAccount, type SignupCreditCaps } from './signup-credit.ts'

/** `closed`: the operator makes accounts. `invite`: owners invite people too. `open`: anybody signs up. */
export type SignUpMode = 'closed' | 'invite' | 'open'

/**
 * Makes accounts and sets forgotten passwords, by mail. All methods reject with ApiError `database_unavailable`, and
 * with what they name.
 */
export interface SignUp {
  /**
   * Mails a link. Says nothing about whether the address has an account: the work happens after the answer. Rejects with
   * `sign_up_closed` or `too_many_attempts`.
   */
  start(email: string, client: ClientTrace): Promise<void>
  /** Returns the address of a sign-up link. Rejects with `link_expired`. */
  show(token: string): Promise<string>
  /** Makes the account and its customer, and signs in. Rejects with `sign_up_closed` or `link_expired`. */
  finish(signUp: { token: string; name: string; password: string }, client: ClientTrace): Promise<OpenedSession>
  /**
   * Makes a person who proved the address in another way, with a customer. Undefined: sign-up is closed, or the address
   * has an account.
   */
  addOwner(sql: Sql, person: { email: string; name: string }, client: ClientTrace): Promise<Person | undefined>
  /** Mails a link to set a new password. As `start`. Rejects with `mail_not_configured` or `too_many_attempts`. */
  forgot(email: string, client: ClientTrace): Promise<void>
  /** Sets a new password, ends all sessions, and proves the address. Rejects with `link_expired`. */
  reset(reset: { token: string; password: string }, client: ClientTrace): Promise<void>
}

interface SignUpDeps {
  readonly pool: Pool
  readonly clock: Clock
  readonly mail: PeopleMail
  readonly mode: SignUpMode
  readonly caps: SignupCreditCaps
  /**
   * Returns the customer with this e-mail if it has no member, or makes it. Undefined if another person's customer has the e-mail.
   * `open` opens the account of a new one.
   */
  readonly openCustomer: (
    sql: Sql,
    email: string,
    open: (customerId: string, creditNanos: Nanos) => Promise<void>,
  ) => Promise<string | undefined>
  readonly proveAddress: ProveAddress
  readonly log: { warn(facts: object, message: string): void }
}

export function createSignUp({ pool, clock, mail, mode, caps, openCustomer, proveAddress, log }: SignUpDeps): SignUp {
  const nowMs = () => clock.epochMs()
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)
  const throttle = (email: string, { address }: ClientTrace) =>
    inTransaction(sql => takeMail(sql, { email, network: networkOf(address) }, nowMs()))

  /** The answer does not wait for the look-up and the mail, so its time says nothing about the address. */
  function afterwards(work: () => Promise<unknown>): void {
    work().catch(error => log.warn({ err: error }, 'a mail to a person could not be prepared'))
  }

  const isOpen = mode === 'open' && mail.canSend
  const requireOpen = () => {
    if (!isOpen) throw new ApiError('sign_up_closed')
  }

  /** Returns the address of a link. Throws `link_expired`. */
  async function addressOf(purpose: 'sign_up' | 'reset', token: string): Promise<string> {
    const link = await readMailedLink(pool, purpose, token, nowMs()).catch(refuseOutage)
    if (link === undefined) throw new ApiError('link_expired')
    return link.email
  }

  /** Uses a link up, which another request may have done since `addressOf`. Throws `link_expired`. */
  async function useUp(sql: Sql, purpose: 'sign_up' | 'reset', token: string): Promise<MailedLink> {
    const link = await useMailedLink(sql, purpose, token, nowMs())
    if (link === undefined) throw new ApiError('link_expired')
    return link
  }

  async function mailSignUp(email: string) {
    const known = await findSigningPerson(pool, email)
    if (known !== undefined) return mail.send(hasAccountMail(known.email, mail.url('/sign-in')))
    const path = await transaction(pool, sql =>
      makeMailedLink(sql, { purpose: 'sign_up', personId: null, email }, nowMs()),
    )
    return mail.send(signUpMail(email, mail.url(path)))
  }

  async function mailReset(typed: string) {
    const person = await findSigningPerson(pool, typed)
    if (person === undefined) return
    const { personId, email } = person
    const path = await transaction(pool, sql => makeMailedLink(sql, { purpose: 'reset', personId, email }, nowMs()))
    await mail.send(resetMail(email, mail.url(path)))
  }

  /** Makes a person with a proved address, and the person's customer. Undefined: the address has an account. */
  async function addOwner(sql: Sql, { email, name }: { email: string; name: string }, client: ClientTrace) {
    const person = await addPerson(sql, { email, name })
    if (person === undefined) return undefined
    const { personId } = person
    await noteVerified(sql, personId, nowMs())
    const customerId = await openCustomer(sql, email, (madeId, creditNanos) =>
      openSignupAccount(sql, { customerId: madeId, email, creditNanos, client }, caps, nowMs()),
    )
    if (customerId !== undefined) await setMember(sql, { customerId, personId, role: 'owner' })
    await noteNetwork(sql, personId, networkOf(client.address), nowMs())
    await noteAction(sql, {
      action: 'person.signed_up',
      personId,
      subject: email,
      customerId: customerId ?? null,
      address: client.address,
    })
    return person
  }

  return {
    async start(email, client) {
      requireOpen()
      await throttle(email, client)
      afterwards(() => mailSignUp(email))
    },
    show: token => addressOf('sign_up', token),
    async finish({ token, name, password }, client) {
      requireOpen()
      const passwordHash = await hashNewPassword(password, await addressOf('sign_up', token))
      return inTransaction(async sql => {
        const { email } = await useUp(sql, 'sign_up', token)
        const person = await addOwner(sql, { email, name }, client)
        if (person === undefined) throw new ApiError('link_expired')
        await setPassword(sql, person.personId, passwordHash)
        return openSession(sql, person, client, nowMs())
      })
    },
    addOwner: (sql, person, client) => (isOpen ? addOwner(sql, person, client) : Promise.resolve(undefined)),
    async forgot(email, client) {
      if (!mail.canSend) throw new ApiError('mail_not_configured')
      await throttle(email, client)
      afterwards(() => mailReset(email))
    },
    async reset({ token, password }, { address }) {
      const passwordHash = await hashNewPassword(password, await addressOf('reset', token))
      const email = await inTransaction(async sql => {
        const used = await useUp(sql, 'reset', token)
        const personId = used.personId!
        await lockPerson(sql, personId)
        const ended = await endOtherSessions(sql, personId, null)
        await proveAddress(sql, personId, nowMs())
        await setPassword(sql, personId, passwordHash)
        await noteAction(sql, {
          action: 'person.password_reset',
          personId,
          subject: used.email,
          detail: { ended },
          address,
        })
        return used.email
      })
      afterwards(() => mail.send(securityMail(email, 'password_changed')))
    },
  }
}
