import { randomBytes, randomUUID } from 'node:crypto'
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { firstRecoveryCodes, forgetCodesWithoutFactor, requireFactorInUse, requireMayEnrol } from './factors.ts'
import { requireOtherWayIn } from './other-way-in.ts'
import { type ChallengeHolder, mintChallenge } from './passkey-challenge.ts'
import { type PasskeySite, useChallenge, userHandleOf } from './passkey-check.ts'
import type { SecurityNotices } from './security-notices.ts'
import { type ClientTrace, lockSession, type OpenedSession, renewSession, type SignedIn } from './sessions.ts'

export interface Passkey {
  readonly passkeyId: string
  readonly name: string
  readonly createdAt: Date
  /** Null: never. */
  readonly lastUsedAt: Date | null
}

/**
 * The passkeys of people. A change ends the other sessions: see `renewSession`. All methods reject with ApiError
 * `database_unavailable`, and with what they name.
 */
export interface Passkeys {
  /** What a browser needs to let a person choose a passkey. Only the holder can use its challenge. */
  signInOptions(browser: string, site: PasskeySite): Promise<PublicKeyCredentialRequestOptionsJSON>
  /** The same for a person who is signed in. */
  confirmOptions(signedIn: SignedIn, site: PasskeySite): Promise<PublicKeyCredentialRequestOptionsJSON>
  /** What a browser needs to make a passkey. Rejects with `second_factor_required` or `too_many_passkeys`. */
  registerOptions(signedIn: SignedIn, site: PasskeySite): Promise<PublicKeyCredentialCreationOptionsJSON>
  /**
   * Adds a passkey. The first factor of a person comes with recovery codes; otherwise `codes` is null. Rejects with
   * `wrong_passkey`, `second_factor_required` or `too_many_passkeys`.
   */
  register(
    signedIn: SignedIn,
    made: { response: RegistrationResponseJSON; name: string; site: PasskeySite },
    client: ClientTrace,
  ): Promise<{ codes: string[] | null; opened: OpenedSession }>
  list(personId: string): Promise<Passkey[]>
  /** Rejects with `second_factor_required` or `not_found`. */
  rename(signedIn: SignedIn, passkeyId: string, name: string, client: ClientTrace): Promise<void>
  /** Rejects with `second_factor_required`, `not_found` or `last_way_in`. */
  remove(signedIn: SignedIn, passkeyId: string, client: ClientTrace): Promise<OpenedSession>
}

const PASSKEYS_MAX = 20
/** Ed25519, ECDSA with P-256, RSA with SHA-256: what authenticators have. */
const ALGORITHMS = [-8, -7, -257]
const RP_NAME = 'Switchyard'

/** A secret for the cookie of a browser, which its challenges belong to. */
export function mintBrowserSecret(): string {
  return randomBytes(32).toString('base64url')
}

export function createPasskeys({
  pool,
  clock,
  notices,
  challengeKeys,
}: {
  pool: Pool
  clock: Clock
  notices: SecurityNotices
  challengeKeys: SealingKeys
}): Passkeys {
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)
  const challengeFor = (holder: ChallengeHolder) => mintChallenge(challengeKeys, holder, clock.epochMs())

  async function requestOptions(holder: ChallengeHolder, { rpId }: PasskeySite, allowCredentials: { id: string }[]) {
    const { generateAuthenticationOptions } = await import('@simplewebauthn/server')
    const challenge = challengeFor(holder)
    return generateAuthenticationOptions({ rpID: rpId, challenge, allowCredentials, userVerification: 'required' })
  }

  return {
    signInOptions: (browser, site) => requestOptions({ purpose: 'sign-in', holder: browser }, site, []),
    async confirmOptions({ sessionId, person }, site) {
      const allowed = await credentialsOf(pool, person.personId).catch(refuseOutage)
      return requestOptions({ purpose: 'confirm', holder: sessionId }, site, allowed)
    },
    async registerOptions(signedIn, { rpId }) {
      requireMayEnrol(signedIn)
      const { personId, email, name } = signedIn.person
      const excludeCredentials = await credentialsOf(pool, personId).catch(refuseOutage)
      if (excludeCredentials.length >= PASSKEYS_MAX) throw new ApiError('too_many_passkeys')
      const { generateRegistrationOptions } = await import('@simplewebauthn/server')
      return generateRegistrationOptions({
        rpName: RP_NAME,
        rpID: rpId,
        userName: email,
        userDisplayName: name || email,
        userID: userHandleOf(personId),
        challenge: challengeFor({ purpose: 'register', holder: signedIn.sessionId }),
        // The maker of the authenticator does not matter, and its certificate would make people distinguishable.
        attestationType: 'none',
        excludeCredentials,
        // The browser offers the passkey without an e-mail address, and asks for a finger, a face or a PIN.
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        supportedAlgorithmIDs: ALGORITHMS,
      })
    },
    async register(signedIn, { response, name, site }, { address }) {
      requireMayEnrol(signedIn)
      const holder = { purpose: 'register', holder: signedIn.sessionId } as const
      const { clientDataJSON } = response.response
      const challenge = await useChallenge(pool, challengeKeys, clientDataJSON, holder, clock.epochMs())
      const { verifyRegistrationResponse } = await import('@simplewebauthn/server')
      const { registrationInfo } = await verifyRegistrationResponse({
        response,
        expectedChallenge: challenge,
        expectedOrigin: site.origin,
        expectedRPID: site.rpId,
        requireUserVerification: true,
        supportedAlgorithmIDs: ALGORITHMS,
      }).catch(() => ({ registrationInfo: undefined }))
      if (registrationInfo === undefined) throw new ApiError('wrong_passkey')
      const { personId, email: subject } = signedIn.person
      const { credential } = registrationInfo
      const made = await inTransaction(async sql => {
        // Two passkeys that are added at the same time: only one of them is the first factor.
        await lockSession(sql, signedIn)
        if ((await credentialsOf(sql, personId)).length >= PASSKEYS_MAX) throw new ApiError('too_many_passkeys')
        const { rowCount } = await sql.query(
          `INSERT INTO person_passkey (passkey_id, person_id, credential_id, public_key, sign_count, transports, name, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (credential_id) DO NOTHING`,
          [
            randomUUID(),
            personId,
            credential.id,
            Buffer.from(credential.publicKey),
            credential.counter,
            credential.transports ?? [],
            name,
            new Date(clock.epochMs()),
          ],
        )
        if (rowCount === 0) throw new ApiError('wrong_passkey')
        const codes = await firstRecoveryCodes(sql, personId)
        // The authenticator asked for a finger, a face or a PIN.
        const opened = await renewSession(sql, signedIn, clock.epochMs(), { hasSecondFactor: true })
        await noteAction(sql, {
          action: 'factor.added',
          personId,
          subject,
          detail: { factor: 'passkey', name },
          address,
        })
        return { codes, opened }
      })
      notices.send(subject, 'passkey_added')
      return made
    },
    list: personId => listPasskeys(pool, personId).catch(refuseOutage),
    async rename(signedIn, passkeyId, name, { address }) {
      requireFactorInUse(signedIn)
      const { personId, email: subject } = signedIn.person
      await inTransaction(async sql => {
        const { rowCount } = await sql.query(
          'UPDATE person_passkey SET name = $3 WHERE person_id = $1 AND passkey_id = $2',
          [personId, passkeyId, name],
        )
        if (rowCount === 0) throw noPasskey()
        const detail = { passkey_id: passkeyId, name }
        await noteAction(sql, { action: 'factor.renamed', personId, subject, detail, address })
      })
    },
    async remove(signedIn, passkeyId, { address }) {
      const opened = await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        requireFactorInUse(signedIn)
        const { personId, email: subject } = signedIn.person
        await requireOtherWayIn(sql, personId, { passkeys: 1 })
        const { rows } = await sql.query<{ name: string }>(
          'DELETE FROM person_passkey WHERE person_id = $1 AND passkey_id = $2 RETURNING name',
          [personId, passkeyId],
        )
        if (rows[0] === undefined) throw noPasskey()
        await forgetCodesWithoutFactor(sql, personId)
        const detail = { factor: 'passkey', name: rows[0].name }
        await noteAction(sql, { action: 'factor.removed', personId, subject, detail, address })
        return renewSession(sql, signedIn, clock.epochMs())
      })
      notices.send(signedIn.person.email, 'passkey_removed')
      return opened
    },
  }
}

async function listPasskeys(sql: Sql, personId: string): Promise<Passkey[]> {
  const { rows } = await sql.query<Passkey>(
    `SELECT passkey_id AS "passkeyId", name, created_at AS "createdAt", last_used_at AS "lastUsedAt"
       FROM person_passkey WHERE person_id = $1 ORDER BY created_at, passkey_id`,
    [personId],
  )
  return rows
}

async function credentialsOf(sql: Sql, personId: string): Promise<{ id: string; transports: string[] }[]> {
  const { rows } = await sql.query<{ id: string; transports: string[] }>(
    'SELECT credential_id AS id, transports FROM person_passkey WHERE person_id = $1',
    [personId],
  )
  return rows
}

function noPasskey(): ApiError {
  return new ApiError('not_found', { message: sayRefusal('refusal.no_passkey') })
}
