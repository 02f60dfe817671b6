import { type Pool, type Sql, transaction } from '../db/pool.ts'
import { refuseOutage } from '../db/refuse-outage.ts'
import { ApiError } from '../domain/errors.ts'
import { networkOf } from '../runtime/client-address.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Factors } from './factors.ts'
import { knowsNetwork, noteNetwork } from './networks.ts'
import { passwordMatches } from './password.ts'
import { findSigningPerson, type SigningPerson } from './persons.ts'
import type { ClientTrace } from './sessions.ts'
import { noteSuccess, takeAttempt } from './sign-in-throttle.ts'

interface Credentials {
  readonly email: string
  readonly password: string | null
  /** Of the authenticator app, or a recovery code. */
  readonly code: string | null
}

/**
 * Checks what a person typed, slowed down by earlier failures, and returns the person. One count covers passwords and codes.
 * `all` needs the password, and the code of a person with an authenticator app. `either` needs the code then, and only otherwise
 * the password. Rejects with `wrong_credentials`, `second_factor_required`, `wrong_code` or `too_many_attempts`.
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
}: {
  pool: Pool
  lookups: Sql
  clock: Clock
  factors: Factors
}): CredentialCheck {
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  return async ({ email, password, code }, { address }, needed = 'all') => {
    const person = await findSigningPerson(lookups, email).catch(refuseOutage)
    const network = networkOf(address)
    const isKnownNetwork = person !== undefined && (await knowsNetwork(lookups, person.personId, network))
    const attempt = { email, network, isKnownNetwork }
    const needsCode = person?.hasTotp === true && needed !== 'password'
    await inTransaction(sql => takeAttempt(sql, attempt, clock.epochMs()))
    if (!needsCode || needed !== 'either') {
      const matches = await passwordMatches(password ?? '', person?.passwordHash ?? null)
      if (!matches || person === undefined) throw new ApiError('wrong_credentials')
    }
    if (needsCode) {
      if (code === null) {
        // Typing the password first is no failure, and clears none: that takes the code.
        await inTransaction(sql => noteSuccess(sql, attempt, true))
        throw new ApiError('second_factor_required', {
          message: 'Type the code of your authenticator app, or a recovery code.',
          param: 'code',
        })
      }
      if (!(await factors.accepts(person.personId, code))) throw new ApiError('wrong_code', { param: 'code' })
    }
    await inTransaction(async sql => {
      await noteSuccess(sql, attempt, needed === 'password' && person!.hasTotp)
      await noteNetwork(sql, person!.personId, network, clock.epochMs())
    })
    return person!
  }
}
