import type { Sql } from '../db/pool.ts'
import { refuseOutage } from '../db/refuse-outage.ts'
import { type AccountLimits, type Caller, type KeyAccess, plainAccess } from '../domain/caller.ts'
import { ApiError } from '../domain/errors.ts'
import { routingOf } from '../domain/routing-fields.ts'
import type { Clock } from '../runtime/clock.ts'
import { hashApiKey, hasValidChecksum } from './api-key.ts'
import { credentialOf } from './credential.ts'
import { createKeyLookUp, type KeyRow, type LookUpKey } from './look-up-keys.ts'

export interface Authenticator {
  /**
   * Returns the caller of a request: at once when its key is cached. Throws or rejects with ApiError:
   * `invalid_api_key`, or `database_unavailable` when an unknown key cannot be looked up.
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
  /** Calls back whenever keys or customers may have changed. Returns a function that unsubscribes. */
  readonly onAccessChange: (listener: () => void) => () => void
}

/**
 * How many callers are kept in memory. At about 600 bytes each this is 6 MB; the longest list of models takes 20 kB
 * more, and so do the longest routing defaults.
 */
const KNOWN_MAX = 10_000
/** How long a cached caller is trusted at most, in case a change goes unnoticed. */
const KNOWN_MS = 60_000
/**
 * A caller older than this is looked up again in the background, so that frequent callers never wait for
 * PostgreSQL.
 */
const RENEW_AFTER_MS = 30_000
/** How long to wait before another attempt to renew an entry. */
const RENEW_AGAIN_MS = 5_000
/**
 * A used entry moves to the end of its map at most this often. Each move leaves a hole, and moving at every request
 * would copy the map over and over.
 */
const MOVED_EVERY_MS = 1_000
/** How many unknown keys with a valid checksum are remembered. Issuing a key clears them, so no new key is hidden. */
const UNKNOWN_MAX = 10_000
const UNKNOWN_MS = 2_000

interface Known {
  readonly caller: Caller
  readonly expiresAtEpochMs: number
  readonly readAtMs: number
  movedAtMs: number
  renewAtMs: number
}

/**
 * Finds callers by their keys, mostly in memory. Keys themselves are neither kept nor logged: the cache holds
 * hashes.
 */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const cache = new CallerCache(deps)
  return { authenticate: rawHeaders => cache.authenticate(rawHeaders), close: () => cache.close() }
}

class CallerCache implements Authenticator {
  readonly #clock: Clock
  readonly #limitsOf: (accountTier: string) => AccountLimits
  readonly #lookUpKey: LookUpKey
  readonly #stopListening: () => void
  readonly #known = new Map<string, Known>()
  readonly #unknownUntilMs = new Map<string, number>()
  #lookUps = new Map<string, Promise<Known | undefined>>()

  constructor({ sql, clock, limitsOf, onAccessChange }: AuthenticatorDeps) {
    this.#clock = clock
    this.#limitsOf = limitsOf
    this.#lookUpKey = createKeyLookUp(sql)
    this.#stopListening = onAccessChange(() => {
      this.#known.clear()
      this.#unknownUntilMs.clear()
      // Look-ups that started before the change may return the old state: no request may join them and their
      // results are not cached.
      this.#lookUps = new Map()
    })
  }

  authenticate(rawHeaders: readonly string[]): Caller | Promise<Caller> {
    const key = credentialOf(rawHeaders)
    const keyHash = hashApiKey(key)
    const cached = this.#cached(keyHash)
    if (cached !== undefined) return this.#callerOf(cached)
    // A guessed key costs no query.
    if (!hasValidChecksum(key)) throw new ApiError('invalid_api_key')
    return this.#lookUp(keyHash).then(found => this.#callerOf(found))
  }

  close(): void {
    this.#stopListening()
  }

  #callerOf(found: Known | undefined): Caller {
    if (!found || found.expiresAtEpochMs <= this.#clock.epochMs()) throw new ApiError('invalid_api_key')
    return found.caller
  }

  #cached(keyHash: string): Known | undefined {
    const entry = this.#known.get(keyHash)
    const nowMs = this.#clock.monotonicMs()
    if (!entry || entry.readAtMs + KNOWN_MS <= nowMs) return undefined
    if (entry.movedAtMs + MOVED_EVERY_MS <= nowMs) {
      // The first entry of the map is dropped first.
      entry.movedAtMs = nowMs
      this.#known.delete(keyHash)
      this.#known.set(keyHash, entry)
    }
    if (entry.renewAtMs <= nowMs) {
      entry.renewAtMs = nowMs + RENEW_AGAIN_MS
      // If this fails, the entry stays valid until KNOWN_MS. The first request after that waits and gets the
      // error.
      this.#lookUp(keyHash).catch(() => {})
    }
    return entry
  }

  async #lookUp(keyHash: string): Promise<Known | undefined> {
    const untilMs = this.#unknownUntilMs.get(keyHash)
    if (untilMs !== undefined && this.#clock.monotonicMs() < untilMs) return undefined
    let lookUp = this.#lookUps.get(keyHash)
    if (!lookUp) {
      lookUp = this.#read(keyHash, this.#lookUps)
      this.#lookUps.set(keyHash, lookUp)
    }
    return lookUp
  }

  /**
   * @param startedIn the value of `#lookUps` when this look-up began; when it has been replaced, keys have changed
   *   since
   */
  async #read(keyHash: string, startedIn: Map<string, Promise<Known | undefined>>): Promise<Known | undefined> {
    try {
      const readAtMs = this.#clock.monotonicMs()
      const row = await this.#lookUpKey(keyHash)
      const entry = row && knownOf(row, this.#limitsOf(row.account_tier), readAtMs)
      if (startedIn === this.#lookUps) this.#remember(keyHash, entry)
      return entry
    } catch (cause) {
      refuseOutage(cause)
    } finally {
      startedIn.delete(keyHash)
    }
  }

  #remember(keyHash: string, entry: Known | undefined): void {
    this.#known.delete(keyHash)
    if (entry) {
      this.#known.set(keyHash, entry)
      dropOldest(this.#known, KNOWN_MAX)
    } else {
      this.#unknownUntilMs.delete(keyHash)
      this.#unknownUntilMs.set(keyHash, this.#clock.monotonicMs() + UNKNOWN_MS)
      dropOldest(this.#unknownUntilMs, UNKNOWN_MAX)
    }
  }
}

function knownOf(row: KeyRow, limits: AccountLimits, readAtMs: number): Known {
  return {
    readAtMs,
    movedAtMs: readAtMs,
    renewAtMs: readAtMs + RENEW_AFTER_MS,
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

function accessOf({ spend_limit_nanos, limit_reset, allowed_models, scopes, routing_defaults }: KeyRow): KeyAccess {
  if (spend_limit_nanos === null && allowed_models === null && scopes.length === 0 && routing_defaults === null)
    return plainAccess
  return {
    limit: spend_limit_nanos === null ? null : { limitNanos: spend_limit_nanos, reset: limit_reset },
    allowedModels: allowed_models === null ? null : new Set(allowed_models),
    mayManage: scopes.includes('manage'),
    defaults: routing_defaults === null ? null : routingOf(routing_defaults),
  }
}

function dropOldest(entries: Map<string, unknown>, max: number): void {
  if (entries.size <= max) return
  const oldest = entries.keys().next()
  if (!oldest.done) entries.delete(oldest.value)
}
