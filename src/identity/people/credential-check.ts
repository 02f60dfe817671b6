import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Said } from '../../base/domain/said.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Factors } from './factors.ts'
import { knowsNetwork, noteNetwork } from './networks.ts'
import type { PasskeyCheck, PasskeyProof } from './passkey-check.ts'
import { passwordMatches } from './password.ts'
import { findSigningPerson, type SigningPerson } from './persons.ts'
import type { ClientTrace } from './sessions.ts'
import { noteSuccess, takeAttempt } from './sign-in-throttle.ts'

interface Credentials {
  readonly email: string
  readonly password: string | null
  /** A code of the authenticator app, or a recovery code. */
  readonly code: string | null
  /** The use of a passkey, instead of a code. */
  readonly passkey: PasskeyProof | null
}

/**
 * Checks what a person typed, slowed down by earlier failures, and returns the person. One count covers passwords and codes.
 * `all` needs the password, and the code or passkey of a person who has a second factor. `either` needs that then, and only
 * otherwise the password. Rejects with `wrong_credentials`, `second_factor_required`, `wrong_code`, `wrong_passkey` or
 * `too_many_attempts`.
 */
export type CredentialCheck = (
  credentials: Credentials,
  client: ClientTrace,
  needed?: 'all' | 'password' | 'either',
) => Promise<SigningPerson>

export function createCredentialCheck({
  pool,
  lookups,
  clock,
  factors,
  passkeyCheck,
}: {
  pool: Pool
  lookups: Sql
  clock: Clock
  factors: Factors
  passkeyCheck: PasskeyCheck
}): CredentialCheck {
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  return async ({ email, password, code, passkey }, { address }, needed = 'all') => {
    const person = await findSigningPerson(lookups, email).catch(refuseOutage)
    const network = networkOf(address)
    // Also looks up the network of nobody, so that the time says nothing about the address.
    const isKnownNetwork = await knowsNetwork(lookups, person?.personId ?? null, network).catch(refuseOutage)
    const attempt = { email, network, isKnownNetwork }
    // Somebody who is signed in has typed no address.
    const wrong = () =>
      new ApiError('wrong_credentials', needed === 'all' ? {} : { message: sayRefusal('refusal.wrong_password') })
    const hasFactor = person !== undefined && (person.hasTotp || person.hasPasskey)
    const needsFactor = hasFactor && needed !== 'password'
    await inTransaction(sql => takeAttempt(sql, attempt, clock.epochMs()))
    if (!needsFactor || needed !== 'either') {
      const matches = await passwordMatches(password ?? '', person?.passwordHash ?? null)
      if (!matches) throw wrong()
    }
    if (person === undefined) throw wrong()
    if (needsFactor) {
      if (passkey !== null) {
        if ((await passkeyCheck(passkey)) !== person.personId) throw new ApiError('wrong_passkey')
      } else if (code === null) {
        // Typing the password first is no failure, and clears none: that takes the second factor.
        await inTransaction(sql => noteSuccess(sql, attempt, true))
        throw new ApiError('second_factor_required', factorAsked(person))
      } else if (!(await factors.accepts(person.personId, code))) throw new ApiError('wrong_code', { param: 'code' })
    }
    await inTransaction(async sql => {
      await noteSuccess(sql, attempt, needed === 'password' && hasFactor)
      await noteNetwork(sql, person.personId, network, clock.epochMs())
    })
    return person
  }
}

/** What the page asks for next. `param` is `passkey` for people without an authenticator app. */
export function factorAsked({ hasTotp }: Pick<SigningPerson, 'hasTotp'>): { message: Said; param: string } {
  return hasTotp
    ? { message: sayRefusal('refusal.type_code'), param: 'code' }
    : { message: sayRefusal('refusal.use_passkey'), param: 'passkey' }
}
