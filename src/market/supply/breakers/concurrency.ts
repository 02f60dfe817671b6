/**
 * How many requests at once a server takes, found by additive increase and multiplicative decrease. It only orders
 * offers: a full server comes after the others, and gets requests when there is no other.
 */
export interface Concurrency {
  limit: number
  /** The server has refused or delayed a request since the limit began to rise. */
  hasLost: boolean
  /** When the limit was last lowered. */
  loweredAtMs: number
}

const FIRST_LIMIT = 4
const KEPT_AFTER_LOSS = 0.9
/** The limit rises only while it is nearly reached, so it says what the server has proved. */
const USED_TO_RISE = 0.8

export function newConcurrency(): Concurrency {
  return { limit: FIRST_LIMIT, hasLost: false, loweredAtMs: -Infinity }
}

/**
 * Raises the limit after an answer: by one for each answer until the first loss, as TCP does, then by one for each
 * `limit` answers.
 *
 * @param inFlight including the request that was answered
 */
export function raise(concurrency: Concurrency, inFlight: number): void {
  if (inFlight <= concurrency.limit * USED_TO_RISE) return
  concurrency.limit += concurrency.hasLost ? 1 / concurrency.limit : 1
}

/**
 * Lowers the limit after a refusal or a time-out. Requests that were sent before the last decrease do not lower it
 * again.
 */
export function lower(concurrency: Concurrency, nowMs: number, sentMs: number): void {
  concurrency.hasLost = true
  if (sentMs < concurrency.loweredAtMs) return
  concurrency.limit = Math.max(1, concurrency.limit * KEPT_AFTER_LOSS)
  concurrency.loweredAtMs = nowMs
}

/** Takes over the limit that other nodes have found, as long as this one has found none. */
export function startAt(concurrency: Concurrency, limit: number): void {
  if (concurrency.limit === FIRST_LIMIT && !concurrency.hasLost) concurrency.limit = Math.max(FIRST_LIMIT, limit)
}

/** Returns the limit; null as long as nothing was learned. */
export function learnedLimit({ limit, hasLost }: Concurrency): number | null {
  return limit === FIRST_LIMIT && !hasLost ? null : limit
}
