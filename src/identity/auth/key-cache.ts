import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

/** The holder of a key, as of the last look-up. */
export interface FoundKey<Holder> {
  readonly holder: Holder
  /** Null: the key does not expire. */
  readonly expiresAt: Date | null
  /** The key is known, and refused until somebody resumes it. */
  readonly isPaused?: boolean
}

export interface KeyCacheDeps<Holder> {
  readonly clock: Clock
  /** Finds the key with this SHA-256, base64. Undefined: unknown or revoked. */
  readonly lookUp: (keyHash: string) => Promise<FoundKey<Holder> | undefined>
  /** Calls back whenever keys or their holders may have changed. Returns a function that unsubscribes. */
  readonly onAccessChange: (listener: () => void) => () => void
  /** The error for unknown, revoked and expired keys. */
  readonly refusal: 'invalid_api_key' | 'invalid_hoster_key'
}

/**
 * How many holders are kept in memory. At about 600 bytes each this is 6 MB; the longest list of models takes 20 kB
 * more, and so do the longest routing defaults.
 */
const KNOWN_MAX = 10_000
/** How long a cached holder is trusted at most, in case a change goes unnoticed. */
const KNOWN_MS = 60_000
/**
 * A holder older than this is looked up again in the background, so that frequent callers never wait for
 * PostgreSQL.
 */
export const RENEW_AFTER_MS = 30_000
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

interface Known<Holder> {
  readonly holder: Holder
  readonly expiresAtEpochMs: number
  readonly isPaused: boolean
  readonly readAtMs: number
  movedAtMs: number
  renewAtMs: number
}

type LookUps<Holder> = Map<string, Promise<Known<Holder> | undefined>>

/**
 * Finds the holders of keys, mostly in memory. Keys themselves are neither kept nor logged: the cache holds
 * hashes.
 */
export class KeyCache<Holder> {
  readonly #deps: KeyCacheDeps<Holder>
  readonly #clock: Clock
  readonly #stopListening: () => void
  readonly #known = new Map<string, Known<Holder>>()
  readonly #unknownUntilMs = new Map<string, number>()
  #lookUps: LookUps<Holder> = new Map()

  constructor(deps: KeyCacheDeps<Holder>) {
    this.#deps = deps
    this.#clock = deps.clock
    this.#stopListening = deps.onAccessChange(() => {
      this.#known.clear()
      this.#unknownUntilMs.clear()
      // Look-ups that started before the change may return the old state: no request may join them and their
      // results are not cached.
      this.#lookUps = new Map()
    })
  }

  /**
   * Returns the holder of a key: at once when it is cached. Throws or rejects with the refusal, `key_paused`, or with
   * `database_unavailable` when an unknown key cannot be looked up.
   *
   * @param hasValidChecksum called for keys that are not cached: a guessed key costs no query
   */
  find(keyHash: string, hasValidChecksum: () => boolean): Holder | Promise<Holder> {
    const cached = this.#cached(keyHash)
    if (cached !== undefined) return this.#holderOf(cached)
    if (!hasValidChecksum()) throw new ApiError(this.#deps.refusal)
    return this.#lookUp(keyHash).then(found => this.#holderOf(found))
  }

  /** Stops listening for changes. */
  close(): void {
    this.#stopListening()
  }

  #holderOf(found: Known<Holder> | undefined): Holder {
    if (!found || found.expiresAtEpochMs <= this.#clock.epochMs()) throw new ApiError(this.#deps.refusal)
    if (found.isPaused) throw new ApiError('key_paused')
    return found.holder
  }

  #cached(keyHash: string): Known<Holder> | undefined {
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

  async #lookUp(keyHash: string): Promise<Known<Holder> | undefined> {
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
  async #read(keyHash: string, startedIn: LookUps<Holder>): Promise<Known<Holder> | undefined> {
    try {
      const readAtMs = this.#clock.monotonicMs()
      const found = await this.#deps.lookUp(keyHash)
      const entry = found && knownOf(found, readAtMs)
      if (startedIn === this.#lookUps) this.#remember(keyHash, entry)
      return entry
    } catch (cause) {
      refuseOutage(cause)
    } finally {
      startedIn.delete(keyHash)
    }
  }

  #remember(keyHash: string, entry: Known<Holder> | undefined): void {
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

function knownOf<Holder>({ holder, expiresAt, isPaused = false }: FoundKey<Holder>, readAtMs: number): Known<Holder> {
  return {
    readAtMs,
    movedAtMs: readAtMs,
    renewAtMs: readAtMs + RENEW_AFTER_MS,
    expiresAtEpochMs: expiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
    isPaused,
    holder,
  }
}

function dropOldest(entries: Map<string, unknown>, max: number): void {
  if (entries.size <= max) return
  const oldest = entries.keys().next()
  if (!oldest.done) entries.delete(oldest.value)
}
