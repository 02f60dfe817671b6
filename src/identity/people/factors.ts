import { createHash, randomBytes } from 'node:crypto'
import type { TOTP } from 'otpauth'
import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import { quoteForShell } from '../../base/runtime/quote-for-shell.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { SecurityNotices } from './security-notices.ts'
import { type ClientTrace, lockSession, type OpenedSession, renewSession, type SignedIn } from './sessions.ts'

export interface FactorState {
  readonly hasPassword: boolean
  readonly hasTotp: boolean
  readonly recoveryCodesLeft: number
}

/** New recovery codes, and the session with another token. */
export interface RenewedCodes {
  readonly codes: string[]
  readonly opened: OpenedSession
}

/**
 * The authenticator app of a person, and the recovery codes. A change ends the other sessions: see `renewSession`. All
 * methods reject with ApiError `database_unavailable`, and with what they name.
 */
export interface Factors {
  show(personId: string): Promise<FactorState>
  /**
   * Makes a secret for an authenticator app, which counts once `finishTotp` gets a code of it. Rejects with
   * `second_factor_required`.
   */
  startTotp(signedIn: SignedIn): Promise<{ secret: string; uri: string }>
  /**
   * Needs codes of this app from now on, and returns new recovery codes. Rejects with `wrong_code` or
   * `second_factor_required`.
   */
  finishTotp(signedIn: SignedIn, code: string, client: ClientTrace): Promise<RenewedCodes>
  /** Rejects with `second_factor_required`. */
  removeTotp(signedIn: SignedIn, client: ClientTrace): Promise<OpenedSession>
  /** Replaces the recovery codes. Rejects with `second_factor_required`. */
  renewRecoveryCodes(signedIn: SignedIn, client: ClientTrace): Promise<RenewedCodes>
  /** Uses up a code of the app or a recovery code. Returns whether it was right. */
  accepts(personId: string, code: string): Promise<boolean>
}

const STEP_S = 30
const RECOVERY_CODES = 10
const ISSUER = 'Switchyard'

/** @param seal encrypts the secret of a person; `open` decrypts it */
export function createFactors({
  pool,
  clock,
  notices,
  seal,
  open,
}: {
  pool: Pool
  clock: Clock
  notices: SecurityNotices
  seal: (secret: string, personId: string) => Buffer
  open: (sealed: Buffer, personId: string) => string
}): Factors {
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)

  /** Returns the time step of a right code, or null. A phone may be 30 seconds off. */
  async function stepOf(sealed: Buffer, personId: string, code: string): Promise<number | null> {
    const timestamp = clock.epochMs()
    const delta = (await totpOf(open(sealed, personId), '')).validate({ token: code, timestamp, window: 1 })
    return delta === null ? null : Math.floor(timestamp / 1_000 / STEP_S) + delta
  }

  return {
    async show(personId) {
      return queryRow<FactorState>(
        pool,
        `SELECT password_hash IS NOT NULL AS "hasPassword", totp_secret IS NOT NULL AS "hasTotp",
                  (SELECT count(*)::int FROM person_recovery_code c WHERE c.person_id = p.person_id) AS "recoveryCodesLeft"
             FROM person p WHERE person_id = $1`,
        [personId],
      ).catch(refuseOutage)
    },
    async startTotp(signedIn) {
      requireMayEnrol(signedIn)
      const { personId, email } = signedIn.person
      const { Secret } = await import('otpauth')
      const secret = new Secret({ size: 20 }).base32
      await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        await sql.query('UPDATE person SET totp_pending = $2 WHERE person_id = $1', [personId, seal(secret, personId)])
      })
      return { secret, uri: (await totpOf(secret, email)).toString() }
    },
    async finishTotp(signedIn, code, { address }) {
      const made = await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        requireMayEnrol(signedIn)
        const { personId, email } = signedIn.person
        const { rows } = await sql.query<{ pending: Buffer | null }>(
          'SELECT totp_pending AS pending FROM person WHERE person_id = $1 FOR NO KEY UPDATE',
          [personId],
        )
        const pending = rows[0]?.pending ?? null
        const step = pending === null ? null : await stepOf(pending, personId, code)
        if (step === null) throw new ApiError('wrong_code', { param: 'code' })
        await sql.query(
          'UPDATE person SET totp_secret = totp_pending, totp_pending = NULL, totp_last_step = $2 WHERE person_id = $1',
          [personId, step],
        )
        const codes = await makeRecoveryCodes(sql, personId)
        const opened = await renewSession(sql, signedIn, clock.epochMs(), { hasSecondFactor: true })
        await noteAction(sql, { action: 'factor.added', personId, subject: email, detail: { factor: 'totp' }, address })
        return { codes, opened }
      })
      notices.send(signedIn.person.email, 'app_added')
      return made
    },
    async removeTotp(signedIn, { address }) {
      const opened = await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        requireFactorInUse(signedIn)
        const { personId, email } = signedIn.person
        await sql.query('UPDATE person SET totp_secret = NULL, totp_pending = NULL WHERE person_id = $1', [personId])
        await forgetCodesWithoutFactor(sql, personId)
        await noteAction(sql, {
          action: 'factor.removed',
          personId,
          subject: email,
          detail: { factor: 'totp' },
          address,
        })
        return renewSession(sql, signedIn, clock.epochMs())
      })
      notices.send(signedIn.person.email, 'app_removed')
      return opened
    },
    async renewRecoveryCodes(signedIn, { address }) {
      const made = await inTransaction(async sql => {
        await lockSession(sql, signedIn)
        requireMayEnrol(signedIn)
        const { personId, email } = signedIn.person
        if (!signedIn.hasFactor) throw new ApiError('second_factor_required')
        const codes = await makeRecoveryCodes(sql, personId)
        await noteAction(sql, { action: 'recovery_codes.made', personId, subject: email, address })
        return { codes, opened: await renewSession(sql, signedIn, clock.epochMs()) }
      })
      notices.send(signedIn.person.email, 'recovery_codes_made')
      return made
    },
    accepts: (personId, code) =>
      inTransaction(async sql => {
        const { rowCount } = await sql.query(
          'DELETE FROM person_recovery_code WHERE person_id = $1 AND code_hash = $2',
          [personId, hashOf(code)],
        )
        if (rowCount === 1) return true
        // Locked: the secret may be sealed again at any time, and is compared below.
        const { rows } = await sql.query<{ sealed: Buffer | null }>(
          'SELECT totp_secret AS sealed FROM person WHERE person_id = $1 FOR NO KEY UPDATE',
          [personId],
        )
        const sealed = rows[0]?.sealed ?? null
        const step = sealed === null ? null : await stepOf(sealed, personId, code)
        if (step === null) return false
        // No code works twice, also not at the same time.
        const used = await sql.query(
          'UPDATE person SET totp_last_step = $2 WHERE person_id = $1 AND totp_last_step < $2 AND totp_secret = $3',
          [personId, step, sealed],
        )
        return used.rowCount === 1
      }),
  }
}

/**
 * Throws `second_factor_required` if the person has a second factor and did not use it in this session: a password
 * alone changes no factor and no password.
 */
export function requireFactorInUse({ hasFactor, hasSecondFactor }: SignedIn): void {
  if (hasFactor && !hasSecondFactor) throw new ApiError('second_factor_required')
}

/**
 * Throws `second_factor_required` unless the person may add a factor in this session: as `requireFactorInUse`, and with
 * a role on the installation only a link of the host adds the first one. Otherwise a password alone would be enough to
 * operate.
 */
export function requireMayEnrol(signedIn: SignedIn): void {
  requireFactorInUse(signedIn)
  const command = firstFactorCommand(signedIn)
  if (command === null) return
  throw new ApiError('second_factor_required', { message: sayRefusal('refusal.first_factor_by_host', { command }) })
}

/**
 * Returns the command whose link opens a session that may add the first factor of the person; null if this session may,
 * or the person has one.
 */
export function firstFactorCommand({ person, hasFactor, isFromHost }: SignedIn): string | null {
  if (person.installationRole === null || hasFactor || isFromHost) return null
  return ownCommand(`operator link ${quoteForShell(person.email)}`)
}

/** Returns new recovery codes if the passkey that the person has just added is the first factor; otherwise null. */
export async function firstRecoveryCodes(sql: Sql, personId: string): Promise<string[] | null> {
  const { isFirst } = await queryRow<{ isFirst: boolean }>(
    sql,
    `SELECT totp_secret IS NULL AND (SELECT count(*) FROM person_passkey k WHERE k.person_id = p.person_id) = 1 AS "isFirst"
       FROM person p WHERE person_id = $1`,
    [personId],
  )
  return isFirst ? makeRecoveryCodes(sql, personId) : null
}

/** Removes the authenticator app, the passkeys and the recovery codes of a person. */
export async function removeFactors(sql: Sql, personId: string): Promise<void> {
  await sql.query('UPDATE person SET totp_secret = NULL, totp_pending = NULL WHERE person_id = $1', [personId])
  await sql.query('DELETE FROM person_passkey WHERE person_id = $1', [personId])
  await forgetCodesWithoutFactor(sql, personId)
}

/** Recovery codes replace a lost factor. Without one, signing in does not ask for them. */
export async function forgetCodesWithoutFactor(sql: Sql, personId: string): Promise<void> {
  await sql.query(
    `DELETE FROM person_recovery_code c WHERE person_id = $1
        AND NOT EXISTS (SELECT FROM person p WHERE p.person_id = $1 AND totp_secret IS NOT NULL)
        AND NOT EXISTS (SELECT FROM person_passkey k WHERE k.person_id = $1)`,
    [personId],
  )
}

/** Loads the library on first use. */
async function totpOf(secret: string, label: string): Promise<TOTP> {
  const { Secret, TOTP } = await import('otpauth')
  return new TOTP({ issuer: ISSUER, label: label || ISSUER, secret: Secret.fromBase32(secret), period: STEP_S })
}

/** Replaces the recovery codes. Each has 80 random bits, so its hash needs no salt. */
async function makeRecoveryCodes(sql: Sql, personId: string): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, () =>
    randomBytes(10)
      .toString('hex')
      .replace(/.{5}(?=.)/g, '$&-'),
  )
  await sql.query('DELETE FROM person_recovery_code WHERE person_id = $1', [personId])
  await sql.query('INSERT INTO person_recovery_code (person_id, code_hash) SELECT $1, unnest($2::bytea[])', [
    personId,
    codes.map(hashOf),
  ])
  return codes
}

function hashOf(code: string): Buffer {
  return createHash('sha256')
    .update(code.toLowerCase().replace(/[^0-9a-f]/g, ''))
    .digest()
}
