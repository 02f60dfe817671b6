import { createHash } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { valueAt } from '../../base/runtime/collections.ts'

/**
 * How failures of one kind are slowed down: after `free` failures each one doubles the wait, from one second to
 * `maxSeconds`. A day without a failure clears the count.
 */
interface Slowdown {
  readonly free: number
  readonly maxSeconds: number
}

/** One account from one network. People mistype, so a few failures are free. */
const ACCOUNT_AT_NETWORK: Slowdown = { free: 5, maxSeconds: 900 }
/** One account from networks that its owner has never used. The owner's own networks are not slowed down by this. */
const ACCOUNT_ELSEWHERE: Slowdown = { free: 20, maxSeconds: 60 }
/** One network, for all accounts. An office may share one address. */
const NETWORK: Slowdown = { free: 50, maxSeconds: 3_600 }

const FORGOTTEN_AFTER_MS = DAY_MS

export interface Attempt {
  readonly email: string
  /** See `networkOf`. */
  readonly network: string
  /** Whether the owner of the account has signed in from this network before. */
  readonly isKnownNetwork: boolean
}

/**
 * Counts an attempt as failed before the password is checked, so that parallel guesses count too. Unknown e-mails count
 * like known ones. Throws `too_many_attempts` while the wait after earlier failures is not over. Run it in a
 * transaction.
 */
export function takeAttempt(sql: Sql, attempt: Attempt, nowMs: number): Promise<void> {
  return take(sql, slowdownsOf(attempt), nowMs)
}

/** One mailbox gets a few mails, then fewer and fewer. */
const MAIL_TO: Slowdown = { free: 3, maxSeconds: 3_600 }
const MAIL_FROM_NETWORK: Slowdown = { free: 20, maxSeconds: 3_600 }

/** Counts a mail that anybody can cause, whether or not the address has an account. Otherwise as `takeAttempt`. */
export function takeMail(sql: Sql, { email, network }: Omit<Attempt, 'isKnownNetwork'>, nowMs: number): Promise<void> {
  const slowdowns = new Map([
    [`mail to ${hashed(email)}`, MAIL_TO],
    [`mail from ${network}`, MAIL_FROM_NETWORK],
  ])
  return take(sql, slowdowns, nowMs)
}

/** Codes of vouchers have 125 bits, so this only keeps the noise down. */
const CODES_OF_PERSON: Slowdown = { free: 5, maxSeconds: 900 }
const CODES_OF_NETWORK: Slowdown = { free: 50, maxSeconds: 3_600 }

export interface RedemptionAttempt {
  readonly personId: string
  /** See `networkOf`. */
  readonly network: string
}

/** Counts the redemption of a voucher as failed before its code is looked up. Otherwise as `takeAttempt`. */
export function takeRedemption(sql: Sql, attempt: RedemptionAttempt, nowMs: number): Promise<void> {
  const [person, network] = redemptionSubjects(attempt)
  const slowdowns = new Map([
    [person, CODES_OF_PERSON],
    [network, CODES_OF_NETWORK],
  ])
  return take(sql, slowdowns, nowMs)
}

/** Takes back what `takeRedemption` counted. */
export function noteRedeemed(sql: Sql, attempt: RedemptionAttempt): Promise<void> {
  return takeBack(sql, redemptionSubjects(attempt))
}

/** Neither can be guessed, so this only bounds the work that one network causes. */
const NAMELESS_OF_NETWORK: Slowdown = { free: 50, maxSeconds: 3_600 }

/**
 * Counts a sign-in without an e-mail address, by a passkey or another service, as failed before it is checked.
 * Otherwise as `takeAttempt`.
 */
export function takeNamelessAttempt(sql: Sql, network: string, nowMs: number): Promise<void> {
  return take(sql, new Map([[namelessFrom(network), NAMELESS_OF_NETWORK]]), nowMs)
}

/** Takes back what `takeNamelessAttempt` counted. */
export function noteNamelessSuccess(sql: Sql, network: string): Promise<void> {
  return takeBack(sql, [namelessFrom(network)])
}

function namelessFrom(network: string): string {
  return `nameless from ${network}`
}

/** @param forgotten all failures of this subject are forgotten */
async function takeBack(sql: Sql, subjects: readonly string[], forgotten: string | null = null): Promise<void> {
  await lockRows(sql, subjects)
  await sql.query('DELETE FROM sign_in_throttle WHERE subject = ANY ($1) AND (failures = 1 OR subject = $2)', [
    subjects,
    forgotten,
  ])
  await sql.query(
    'UPDATE sign_in_throttle SET failures = failures - 1, next_attempt_at = last_failure_at WHERE subject = ANY ($1)',
    [subjects],
  )
}

/**
 * Locks the counts of these subjects in the order of their names. Every transaction that changes several does so first:
 * UPDATE and DELETE lock in the order of the plan, and two transactions that lock in different orders deadlock.
 */
async function lockRows(sql: Sql, subjects: readonly string[]): Promise<Row[]> {
  const { rows } = await sql.query<Row>(
    `SELECT subject, failures, next_attempt_at AS "nextAttemptAt", last_failure_at AS "lastFailureAt"
       FROM sign_in_throttle WHERE subject = ANY ($1) ORDER BY subject FOR UPDATE`,
    [subjects],
  )
  return rows
}

function redemptionSubjects({ personId, network }: RedemptionAttempt): [string, string] {
  return [`voucher of ${personId}`, `voucher from ${network}`]
}

async function take(sql: Sql, slowdowns: ReadonlyMap<string, Slowdown>, nowMs: number): Promise<void> {
  const subjects = [...slowdowns.keys()].sort()
  const rows = await lockRows(sql, subjects)
  // A free failure has no wait. Its time may still be ahead of `nowMs`: parallel attempts take their times before their
  // locks.
  const waiting = rows.filter(({ subject, failures }) => failures > valueAt(slowdowns, subject).free)
  const nextMs = Math.max(0, ...waiting.map(({ nextAttemptAt }) => nextAttemptAt.getTime()))
  if (nextMs > nowMs) {
    throw new ApiError('too_many_attempts', { retryAfterS: Math.ceil((nextMs - nowMs) / 1_000) })
  }
  const forgottenMs = nowMs - FORGOTTEN_AFTER_MS
  const counted = new Map(
    rows.map(({ subject, failures, lastFailureAt }) => [subject, lastFailureAt.getTime() < forgottenMs ? 0 : failures]),
  )
  const next = subjects.map(subject => {
    const failures = (counted.get(subject) ?? 0) + 1
    return new Date(nowMs + waitSeconds(valueAt(slowdowns, subject), failures) * 1_000)
  })
  // Attempts that insert the same row at once count one after the other.
  await sql.query(
    `INSERT INTO sign_in_throttle AS t (subject, failures, next_attempt_at, last_failure_at)
     SELECT subject, 1, next_attempt_at, $3 FROM unnest($1::text[], $2::timestamptz[]) AS s(subject, next_attempt_at)
     ON CONFLICT (subject) DO UPDATE SET
       failures = CASE WHEN t.last_failure_at < $4 THEN 1 ELSE t.failures + 1 END,
       next_attempt_at = EXCLUDED.next_attempt_at,
       last_failure_at = EXCLUDED.last_failure_at`,
    [subjects, next, new Date(nowMs), new Date(forgottenMs)],
  )
}

/** Takes back what `takeAttempt` counted. Unless `isPartial`, also forgets the account's failures from this network. */
export function noteSuccess(sql: Sql, attempt: Attempt, isPartial = false): Promise<void> {
  return takeBack(sql, [...slowdownsOf(attempt).keys()], isPartial ? null : accountAtNetwork(attempt))
}

/**
 * Deletes counts that are forgotten. Skips those that an attempt has locked: waiting for several of them could
 * deadlock.
 */
export async function deleteOldThrottles(sql: Sql, nowMs: number): Promise<void> {
  await sql.query(
    `DELETE FROM sign_in_throttle WHERE subject IN (
       SELECT subject FROM sign_in_throttle WHERE last_failure_at < $1 FOR UPDATE SKIP LOCKED)`,
    [new Date(nowMs - FORGOTTEN_AFTER_MS)],
  )
}

interface Row {
  readonly subject: string
  readonly failures: number
  readonly nextAttemptAt: Date
  readonly lastFailureAt: Date
}

function slowdownsOf({ email, network, isKnownNetwork }: Attempt): Map<string, Slowdown> {
  return new Map([
    [accountAtNetwork({ email, network }), ACCOUNT_AT_NETWORK],
    [`network ${network}`, NETWORK],
    ...(isKnownNetwork ? [] : ([[`account ${hashed(email)}`, ACCOUNT_ELSEWHERE]] as const)),
  ])
}

function accountAtNetwork({ email, network }: Pick<Attempt, 'email' | 'network'>): string {
  return `account ${hashed(email)} at ${network}`
}

/** Rows have a fixed size, whatever was typed. */
function hashed(email: string): string {
  return createHash('sha256').update(email.toLowerCase()).digest('base64url')
}

function waitSeconds({ free, maxSeconds }: Slowdown, failures: number): number {
  return failures <= free ? 0 : Math.min(2 ** (failures - free - 1), maxSeconds)
}
