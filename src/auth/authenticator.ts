import type { Sql } from '../db/pool.ts'
import { type AccountLimits, type Caller, type KeyAccess, plainAccess } from '../domain/caller.ts'
import { ApiError } from '../domain/errors.ts'
import type { Clock } from '../runtime/clock.ts'
import { hashApiKey, hasValidChecksum } from './api-key.ts'
import { credentialOf } from './credential.ts'
import { createKeyLookUp, type KeyRow } from './look-up-keys.ts'

export interface Authenticator {
  /**
   * Who sends this request: at once when the key is known here. Throws or rejects with ApiError: `invalid_api_key`, or
   * `database_unavailable` when an unknown key cannot be looked up.
   *
   * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`
   */
  authenticate(rawHeaders: readonly string[]): Caller | Promise<Caller>
  /** Stops listening for changes. */
  close(): void
}

export interface AuthenticatorDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly limitsOf: (accountTier: string) => AccountLimits
  /** Calls back whenever keys or customers may have changed, and returns how to stop that. */
  readonly onAccessChange: (listener: () => void) => () => void
}

/** Known callers kept in memory. At about 600 bytes each this is 6 MB; the longest list of models takes 20 kB more. */
const KNOWN_MAX = 10_000
/** The longest a known caller is believed without looking again, should a change ever go unnoticed. */
const KNOWN_MS = 60_000
/** Who is asked for after this long is looked up again beside the request, so that nobody who comes often ever waits for PostgreSQL. */
const RENEWED_AFTER_MS = 30_000
/** Before the next attempt, where one has failed. */
const RENEWED_AGAIN_MS = 5_000
/** Moving an entry to the end of a map leaves a hole; doing it at every request has the map copied over and over. */
const MOVED_EVERY_MS = 1_000
/** Keys that pass the checksum and are not ours. Issuing one drops them all, so this hides no new key. */
const UNKNOWN_MAX = 10_000
const UNKNOWN_MS = 2_000

interface Known {
  readonly caller: Caller
  readonly expiresAtEpochMs: number
  readonly readAtMs: number
  movedAtMs: number
  renewAtMs: number
}

/** Finds callers by their keys, mostly in memory. Keys themselves are neither kept nor logged: the cache knows hashes. */
export function createAuthenticator({ sql, clock, limitsOf, onAccessChange }: AuthenticatorDeps): Authenticator {
  const lookUpKey = createKeyLookUp(sql)
  const known = new Map<string, Known>()
  const unknownUntilMs = new Map<string, number>()
  let running = new Map<string, Promise<Known | undefined>>()

  const stopListening = onAccessChange(() => {
    known.clear()
    unknownUntilMs.clear()
    // Look-ups that started before the change may return the old state: nobody may join them or remember what they find.
    running = new Map()
  })

  return {
    authenticate(rawHeaders) {
      const key = credentialOf(rawHeaders)
      const keyHash = hashApiKey(key)
      const known = fresh(keyHash)
      if (known !== undefined) return callerOf(known)
      // A guess costs no query.
      if (!hasValidChecksum(key)) throw new ApiError('invalid_api_key')
      return lookUp(keyHash).then(callerOf)
    },
    close: stopListening,
  }

  function callerOf(found: Known | undefined): Caller {
    if (!found || found.expiresAtEpochMs <= clock.epochMs()) throw new ApiError('invalid_api_key')
    return found.caller
  }

  function fresh(keyHash: string): Known | undefined {
    const entry = known.get(keyHash)
    const nowMs = clock.monotonicMs()
    if (!entry || entry.readAtMs + KNOWN_MS <= nowMs) return undefined
    if (entry.movedAtMs + MOVED_EVERY_MS <= nowMs) {
      // Last in the map is last to be dropped.
      entry.movedAtMs = nowMs
      known.delete(keyHash)
      known.set(keyHash, entry)
    }
    if (entry.renewAtMs <= nowMs) {
      entry.renewAtMs = nowMs + RENEWED_AGAIN_MS
      // It is believed for as long as it would be otherwise, and then the request that waits is told.
      lookUp(keyHash).catch(() => {})
    }
    return entry
  }

  async function lookUp(keyHash: string): Promise<Known | undefined> {
    const untilMs = unknownUntilMs.get(keyHash)
    if (untilMs !== undefined && clock.monotonicMs() < untilMs) return undefined
    let query = running.get(keyHash)
    if (!query) {
      query = read(keyHash, running)
      running.set(keyHash, query)
    }
    return query
  }

  async function read(keyHash: string, startedIn: typeof running): Promise<Known | undefined> {
    try {
      const readAtMs = clock.monotonicMs()
      const row = await lookUpKey(keyHash)
      const entry = row && knownOf(row, readAtMs)
      if (startedIn === running) remember(keyHash, entry)
      return entry
    } catch (cause) {
      throw new ApiError('database_unavailable', { internal: cause })
    } finally {
      startedIn.delete(keyHash)
    }
  }

  function remember(keyHash: string, entry: Known | undefined): void {
    if (entry) {
      known.delete(keyHash)
      known.set(keyHash, entry)
      dropOldest(known, KNOWN_MAX)
    } else {
      known.delete(keyHash)
      unknownUntilMs.delete(keyHash)
      unknownUntilMs.set(keyHash, clock.monotonicMs() + UNKNOWN_MS)
      dropOldest(unknownUntilMs, UNKNOWN_MAX)
    }
  }

  function knownOf(row: KeyRow, readAtMs: number): Known {
    const limits = limitsOf(row.account_tier)
    return {
      readAtMs,
      movedAtMs: readAtMs,
      renewAtMs: readAtMs + RENEWED_AFTER_MS,
      expiresAtEpochMs: row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
      caller: Object.freeze({
        customerId: row.customer_id,
        keyId: row.key_id,
        access: accessOf(row),
        email: row.email,
        accountTier: row.account_tier,
        limits: Object.freeze({
          requestsPerMinute: row.requests_per_minute ?? limits.requestsPerMinute,
          requestsPerDay: row.requests_per_day ?? limits.requestsPerDay,
          dailySpendCapNanos: row.daily_spend_cap_nanos ?? limits.dailySpendCapNanos,
        }),
      }),
    }
  }
}

function accessOf({ spend_limit_nanos, limit_reset, allowed_models, scopes }: KeyRow): KeyAccess {
  if (spend_limit_nanos === null && allowed_models === null && scopes.length === 0) return plainAccess
  return {
    limit: spend_limit_nanos === null ? null : { limitNanos: spend_limit_nanos, reset: limit_reset },
    allowedModels: allowed_models === null ? null : new Set(allowed_models),
    mayManage: scopes.includes('manage'),
  }
}

function dropOldest(entries: Map<string, unknown>, max: number): void {
  if (entries.size <= max) return
  const oldest = entries.keys().next()
  if (!oldest.done) entries.delete(oldest.value)
}
