import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { acceptInvitation, type JoinHoster } from './accept-invitation.ts'
import { type CredentialCheck, factorAsked } from './credential-check.ts'
import { requireFactorInUse } from './factors.ts'
import { takeGroupRole } from './group-roles.ts'
import { type Identity, linkIdentity, usePersonOf } from './identities.ts'
import { readInviteLink, type ShownInvitation } from './links.ts'
import { noteNetwork } from './networks.ts'
import { isSame, mintAttempt, type OidcAttempt, readAttempt, spendState } from './oidc-attempt.ts'
import type { OidcClient, OidcProvider, ProvedIdentity } from './oidc-client.ts'
import type { PasskeyProof } from './passkey-check.ts'
import { makePendingSignIn, readPendingSignIn, usePendingSignIn } from './pending-sign-in.ts'
import {
  addPerson,
  findSigningPerson,
  findSigningPersonById,
  noteVerified,
  type Person,
  type SigningPerson,
} from './persons.ts'
import type { ProveAddress } from './prove-address.ts'
import { hashSecretToken } from './secret-token.ts'
import type { SecurityNotices } from './security-notices.ts'
import {
  type ClientTrace,
  confirmSession,
  lockSession,
  type OpenedSession,
  openSession,
  renewSession,
  type SignedIn,
} from './sessions.ts'
import { noteNamelessSuccess, takeNamelessAttempt } from './sign-in-throttle.ts'
import type { SignUp } from './sign-up.ts'

/** How a sign-in at another service ended. */
export type OidcOutcome = { readonly returnTo: string } & (
  | { readonly kind: 'entered' | 'confirmed' | 'linked'; readonly opened: OpenedSession }
  /** The second factor is missing. `token` is for a cookie. */
  | { readonly kind: 'factor'; readonly token: string; readonly expiresAt: Date; readonly param: string }
)

/**
 * Signs people in with other services. All methods reject with ApiError `database_unavailable`, and with what they
 * name.
 */
export interface OidcSignIn {
  /**
   * Returns the page of the service, and the cookie of the attempt. Rejects with `not_found`, `link_expired` or
   * `sign_in_provider_unavailable`.
   */
  start(
    order: Pick<OidcAttempt, 'provider' | 'purpose' | 'returnTo' | 'redirectUri'> & {
      /** The secret of an invitation that the person accepts; null for none. */
      readonly inviteToken: string | null
    },
    signedIn: SignedIn | null,
  ): Promise<{ url: string; cookie: string; expiresAt: Date }>
  /**
   * Takes the answer of the service. Rejects with `sign_in_refused`, `sign_in_provider_unavailable`, `no_account_here`,
   * `link_expired`, `identity_in_use`, `second_factor_required` or `too_many_attempts`.
   *
   * @param answer.query what the service added to the redirect URI
   */
  finish(
    answer: { cookie: string | undefined; query: string; signedIn: SignedIn | null },
    client: ClientTrace,
  ): Promise<OidcOutcome>
  /** Takes the second factor of a sign-in that waits for it. Rejects with `link_expired`, or as `People.signIn`. */
  finishFactor(
    typed: { token: string | undefined; code: string | null; passkey: PasskeyProof | null },
    client: ClientTrace,
  ): Promise<OpenedSession>
}

interface OidcDeps {
  readonly pool: Pool
  readonly clock: Clock
  readonly providers: readonly OidcProvider[]
  readonly oidcClient: OidcClient
  readonly signUp: Pick<SignUp, 'addOwner'>
  readonly check: CredentialCheck
  readonly notices: SecurityNotices
  readonly joinHoster: JoinHoster
  readonly proveAddress: ProveAddress
  /** 32 bytes. */
  readonly attemptKeys: SealingKeys
}

export function createOidcSignIn({
  pool,
  clock,
  providers,
  oidcClient,
  signUp,
  check,
  notices,
  joinHoster,
  proveAddress,
  attemptKeys,
}: OidcDeps): OidcSignIn {
  const nowMs = () => clock.epochMs()
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  const enter = async (
    sql: Sql,
    { personId, email: subject }: Person,
    identity: Identity & { readonly groupRole: InstallationRole | null },
    { hasSecondFactor }: { hasSecondFactor: boolean },
    client: ClientTrace,
  ) => {
    const { address } = client
    await noteNetwork(sql, personId, networkOf(address), nowMs())
    const verdict = await takeGroupRole(sql, personId, identity, address)
    // With the role that the person has now.
    const person = await findSigningPersonById(sql, personId)
    if (person === undefined) throw new ApiError('no_account_here')
    const opened = await openSession(sql, person, client, nowMs(), { hasSecondFactor })
    const detail = { with: identity.provider, ...(verdict !== 'done' && { groups: verdict }) }
    await noteAction(sql, { action: 'person.signed_in', personId, subject, detail, address })
    return opened
  }

  /** Returns the person of an identity. Links it by an address that both sides have verified, or makes an account. */
  async function personOf(
    sql: Sql,
    identity: ProvedIdentity,
    invitation: ShownInvitation | null,
    client: ClientTrace,
  ): Promise<{ person: SigningPerson; isNew: boolean; wasHere: boolean }> {
    const known = await usePersonOf(sql, identity, nowMs())
    // The same text in all cases, so that the answer does not say which addresses have accounts.
    const refuse = () => new ApiError('no_account_here')
    if (known !== undefined) {
      const person = await findSigningPersonById(sql, known)
      if (person === undefined) throw refuse()
      return { person, isNew: false, wasHere: true }
    }
    const { email, isEmailVerified, name } = identity
    if (email === null || !isEmailVerified) throw refuse()
    if (invitation !== null) requireInvited(invitation, email)
    const sameMail = await findSigningPerson(sql, email)
    if (sameMail !== undefined) {
      if (!sameMail.isVerified) throw refuse()
      return { person: sameMail, isNew: true, wasHere: true }
    }
    const added =
      invitation === null
        ? await signUp.addOwner(sql, { email, name }, client)
        : await addInvited(sql, { email: invitation.email, name })
    const person = added === undefined ? undefined : await findSigningPersonById(sql, added.personId)
    if (person === undefined) throw refuse()
    return { person, isNew: true, wasHere: false }
  }

  /** Makes the account of an invited person, whose address the service has verified. */
  async function addInvited(sql: Sql, { email, name }: { email: string; name: string }): Promise<Person | undefined> {
    const person = await addPerson(sql, { email, name })
    if (person !== undefined) await noteVerified(sql, person.personId, nowMs())
    return person
  }

  /** Rejects with `link_expired`. */
  async function invitationOf(sql: Sql, inviteHash: string | null): Promise<ShownInvitation | null> {
    if (inviteHash === null) return null
    const invitation = await readInviteLink(sql, Buffer.from(inviteHash, 'hex'), nowMs())
    if (invitation === undefined) throw new ApiError('link_expired')
    return invitation
  }

  /**
   * Rejects with `sign_in_refused` for another person than the invited one: a link that was passed on opens nothing.
   */
  async function accept(
    sql: Sql,
    { email, personId }: Pick<Person, 'email' | 'personId'>,
    { inviteHash, invitation }: { inviteHash: string | null; invitation: ShownInvitation | null },
    { address }: ClientTrace,
  ): Promise<void> {
    if (inviteHash === null || invitation === null) return
    requireInvited(invitation, email)
    const tokenHash = Buffer.from(inviteHash, 'hex')
    await acceptInvitation(
      sql,
      { tokenHash, invitation, personId },
      { joinHoster, proveAddress, address, nowMs: nowMs() },
    )
  }

  async function signIn(
    identity: ProvedIdentity,
    { returnTo, inviteHash }: Pick<OidcAttempt, 'returnTo' | 'inviteHash'>,
    client: ClientTrace,
  ): Promise<OidcOutcome> {
    const { linkedTo, ...outcome } = await inTransaction<OidcOutcome & { linkedTo?: string }>(async sql => {
      const invitation = await invitationOf(sql, inviteHash)
      const { person, isNew, wasHere } = await personOf(sql, identity, invitation, client)
      if (person.hasTotp || person.hasPasskey) {
        const waiting = { ...identityOnly(identity), inviteHash }
        const pending = await makePendingSignIn(sql, person.personId, waiting, nowMs())
        return { kind: 'factor', ...pending, param: factorAsked(person).param, returnTo }
      }
      await accept(sql, person, { inviteHash, invitation }, client)
      // The invitation may have proved the address, which unlinks all services.
      const isLinked =
        (isNew || invitation !== null) &&
        (await linkIdentity(sql, person, identity, { address: client.address, nowMs: nowMs() }))
      const opened = await enter(sql, person, identity, { hasSecondFactor: false }, client)
      return { kind: 'entered', opened, returnTo, ...(isLinked && wasHere && { linkedTo: person.email }) }
    })
    if (linkedTo !== undefined) notices.send(linkedTo, 'service_linked')
    return outcome
  }

  /** Confirms a change of a person without a password and without a second factor. */
  async function confirm(identity: ProvedIdentity, signedIn: SignedIn, returnTo: string): Promise<OidcOutcome> {
    if (signedIn.hasFactor) throw new ApiError('second_factor_required')
    return inTransaction(async sql => {
      if ((await usePersonOf(sql, identity, nowMs())) !== signedIn.person.personId)
        throw new ApiError('sign_in_refused')
      const opened = await confirmSession(sql, signedIn, { hasSecondFactor: false }, nowMs())
      return { kind: 'confirmed', opened, returnTo }
    })
  }

  return {
    async start(order, signedIn) {
      const provider = providers.find(({ id }) => id === order.provider)
      if (provider === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_sign_in_service') })
      if (order.purpose === 'link' && signedIn !== null) requireFactorInUse(signedIn)
      const { inviteToken, ...attempt } = order
      const sessionId = signedIn?.sessionId ?? null
      const inviteHash = inviteToken === null ? null : hashSecretToken(inviteToken).toString('hex')
      await inTransaction(sql => invitationOf(sql, inviteHash))
      const { cookie, expiresAt, secrets } = mintAttempt(attemptKeys, { ...attempt, sessionId, inviteHash }, nowMs())
      const isFresh = order.purpose === 'confirm'
      const url = await oidcClient.authorizationUrl(provider, { redirectUri: order.redirectUri, secrets, isFresh })
      return { url, cookie, expiresAt }
    },
    async finish({ cookie, query, signedIn }, client) {
      const network = networkOf(client.address)
      await inTransaction(sql => takeNamelessAttempt(sql, network, nowMs()))
      const found = cookie === undefined ? undefined : readAttempt(attemptKeys, cookie, nowMs())
      const provider = providers.find(({ id }) => id === found?.attempt.provider)
      if (found === undefined || provider === undefined) throw new ApiError('sign_in_refused')
      const { attempt, secrets } = found
      const [state, ...more] = new URLSearchParams(query).getAll('state')
      if (state === undefined || more.length > 0 || !isSame(state, secrets.state)) throw new ApiError('sign_in_refused')
      if (!(await spendState(pool, secrets.state, nowMs()).catch(refuseOutage))) throw new ApiError('sign_in_refused')
      const { purpose, returnTo, redirectUri } = attempt
      const actor = purpose === 'sign-in' ? null : signedIn
      if (purpose !== 'sign-in' && actor?.sessionId !== attempt.sessionId) throw new ApiError('sign_in_refused')
      const url = new URL(`${redirectUri}?${query}`)
      const identity = await oidcClient.prove(provider, { url, secrets, isFresh: purpose === 'confirm' })
      const outcome = await finishAs(identity)
      await inTransaction(sql => noteNamelessSuccess(sql, network))
      return outcome

      async function finishAs(identity: ProvedIdentity): Promise<OidcOutcome> {
        if (actor === null) return signIn(identity, attempt, client)
        if (purpose === 'confirm') return confirm(identity, actor, returnTo)
        requireFactorInUse(actor)
        const opened = await inTransaction(async sql => {
          await lockSession(sql, actor)
          await linkIdentity(sql, actor.person, identity, { address: client.address, nowMs: nowMs() })
          return renewSession(sql, actor, nowMs())
        })
        notices.send(actor.person.email, 'service_linked')
        return { kind: 'linked', opened, returnTo }
      }
    },
    async finishFactor({ token, code, passkey }, client) {
      const pending =
        token === undefined ? undefined : await readPendingSignIn(pool, token, nowMs()).catch(refuseOutage)
      if (token === undefined || pending === undefined) throw new ApiError('link_expired')
      const person = await findSigningPersonById(pool, pending.personId).catch(refuseOutage)
      if (person === undefined) throw new ApiError('link_expired')
      // The service has replaced the password, not the second factor. Someone may have removed that in the meantime.
      if (!person.hasTotp && !person.hasPasskey) throw new ApiError('link_expired')
      await check({ email: person.email, password: null, code, passkey }, client, 'either')
      const { opened, isLinked } = await inTransaction(async sql => {
        if (!(await usePendingSignIn(sql, token))) throw new ApiError('link_expired')
        const { inviteHash, ...identity } = pending.identity
        await accept(sql, person, { inviteHash, invitation: await invitationOf(sql, inviteHash) }, client)
        const isLinked = await linkIdentity(sql, person, identity, { address: client.address, nowMs: nowMs() })
        const opened = await enter(sql, person, identity, { hasSecondFactor: true }, client)
        return { opened, isLinked }
      })
      if (isLinked) notices.send(person.email, 'service_linked')
      return opened
    },
  }
}

function requireInvited({ email: invited }: ShownInvitation, email: string): void {
  if (email.toLowerCase() === invited.toLowerCase()) return
  const message = sayRefusal('refusal.invited_other', { email: invited })
  throw new ApiError('sign_in_refused', { message })
}

function identityOnly({ issuer, subject, provider, email, groupRole }: ProvedIdentity) {
  return { issuer, subject, provider, email, groupRole }
}
