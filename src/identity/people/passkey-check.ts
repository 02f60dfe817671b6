import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import type { Pool } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { type ChallengeHolder, isChallengeOf, spendChallenge } from './passkey-challenge.ts'

/** The name that passkeys of this server belong to, and the origin of its pages. */
export interface PasskeySite {
  /** A domain name, or `localhost`. */
  readonly rpId: string
  readonly origin: string
}

/** What a browser sends after a person used a passkey. */
export interface PasskeyProof extends ChallengeHolder {
  readonly response: AuthenticationResponseJSON
  readonly site: PasskeySite
}

/**
 * Checks the use of a passkey, and returns its person. The challenge is used up, whether or not the passkey is right. Rejects with
 * `wrong_passkey`, which does not say why.
 */
export type PasskeyCheck = (proof: PasskeyProof) => Promise<string>

export function createPasskeyCheck({
  pool,
  clock,
  challengeKeys,
}: {
  pool: Pool
  clock: Clock
  challengeKeys: SealingKeys
}): PasskeyCheck {
  return async proof => {
    const { response, site } = proof
    const challenge = await useChallenge(pool, challengeKeys, response.response.clientDataJSON, proof, clock.epochMs())
    const passkey = await findPasskey(pool, response.id).catch(refuseOutage)
    if (passkey === undefined || !namesPerson(response.response.userHandle, passkey.personId)) {
      throw new ApiError('wrong_passkey')
    }
    const { verifyAuthenticationResponse } = await import('@simplewebauthn/server')
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: site.origin,
      expectedRPID: site.rpId,
      credential: { id: response.id, publicKey: new Uint8Array(passkey.publicKey), counter: Number(passkey.signCount) },
      requireUserVerification: true,
    }).catch(() => ({ verified: false, authenticationInfo: undefined }))
    if (!verified || authenticationInfo === undefined) throw new ApiError('wrong_passkey')
    // Two uses at the same time cannot both raise the count, and a copy of the key falls behind. Many authenticators
    // always send 0.
    const { rowCount } = await pool
      .query(
        `UPDATE person_passkey SET sign_count = $2, last_used_at = $3
          WHERE passkey_id = $1 AND (sign_count < $2 OR (sign_count = 0 AND $2 = 0))`,
        [passkey.passkeyId, authenticationInfo.newCounter, new Date(clock.epochMs())],
      )
      .catch(refuseOutage)
    if (rowCount === 0) throw new ApiError('wrong_passkey')
    return passkey.personId
  }
}

/**
 * Returns the challenge that the browser signed, and uses it up. Rejects with `wrong_passkey` if it is not this
 * holder's.
 */
export async function useChallenge(
  pool: Pool,
  challengeKeys: SealingKeys,
  clientDataJson: string,
  holder: ChallengeHolder,
  nowMs: number,
): Promise<string> {
  const challenge = challengeIn(clientDataJson)
  if (challenge === undefined || !isChallengeOf(challengeKeys, challenge, holder, nowMs)) {
    throw new ApiError('wrong_passkey')
  }
  if (!(await spendChallenge(pool, challenge, nowMs).catch(refuseOutage))) throw new ApiError('wrong_passkey')
  return challenge
}

/** @param clientDataJson base64url of JSON */
function challengeIn(clientDataJson: string): string | undefined {
  try {
    const { challenge } = JSON.parse(Buffer.from(clientDataJson, 'base64url').toString()) as { challenge?: unknown }
    return typeof challenge === 'string' ? challenge : undefined
  } catch {
    return undefined
  }
}

interface PasskeyRow {
  readonly passkeyId: string
  readonly personId: string
  readonly publicKey: Buffer
  readonly signCount: bigint
}

async function findPasskey(pool: Pool, credentialId: string): Promise<PasskeyRow | undefined> {
  const { rows } = await pool.query<PasskeyRow>(
    `SELECT passkey_id AS "passkeyId", person_id AS "personId", public_key AS "publicKey", sign_count AS "signCount"
       FROM person_passkey WHERE credential_id = $1`,
    [credentialId],
  )
  return rows[0]
}

/** The id by which authenticators know a person: the bytes of the UUID. */
export function userHandleOf(personId: string): Buffer<ArrayBuffer> {
  return Buffer.from(personId.replaceAll('-', ''), 'hex')
}

/** A browser may leave the handle out when the passkey was asked for by its id. */
function namesPerson(userHandle: string | undefined, personId: string): boolean {
  return userHandle === undefined || Buffer.from(userHandle, 'base64url').equals(userHandleOf(personId))
}
