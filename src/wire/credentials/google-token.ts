import { sign } from 'node:crypto'
import type { GoogleServiceAccount } from '../../base/domain/cloud-credential.ts'
import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { type JsonAnswer, postForm } from '../egress/get-json.ts'

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
/** How long the assertion is valid. Google accepts at most an hour. */
const ASSERTION_S = 3_600
const TIMEOUT_MS = 10_000
/** A token is renewed this long before its end, while requests still use it. */
const RENEW_BEFORE_MS = 300_000
/** A token is not used this long before its end, because a request needs time to arrive. */
const UNUSED_BEFORE_MS = 10_000
/** After a failure, requests get that failure for this long instead of asking again. */
const RETRY_AFTER_MS = 5_000
/** A younger token is not replaced when a server refuses it: another one would be refused too. */
const REPLACE_AGE_MS = 60_000
/** A larger difference between the clocks can be the reason of a refusal. */
const CLOCK_SKEW_MAX_MS = 30_000
const tokenPattern = /^[\x21-\x7e]{1,8192}$/

interface Token {
  readonly text: string
  /** On the monotonic clock, like the others. */
  readonly issuedMs: number
  readonly renewMs: number
  readonly endMs: number
}

/**
 * The access token of one service account (RFC 7523): fetched when the first request needs it, renewed before it ends.
 * All requests that wait share one renewal. Its lifetime is counted on the monotonic clock.
 */
export class GoogleToken {
  readonly #account: GoogleServiceAccount
  readonly #clock: Clock
  #token: Token | null = null
  #renewal: Promise<string> | null = null
  #failure: UpstreamFailure | null = null
  /** Until then, no renewal begins. */
  #retryMs = Number.NEGATIVE_INFINITY

  constructor(account: GoogleServiceAccount, clock: Clock) {
    this.#account = account
    this.#clock = clock
  }

  /** Returns the token, at once if it is valid. Throws or rejects with UpstreamFailure if there is none. */
  get(): string | Promise<string> {
    const nowMs = this.#clock.monotonicMs()
    const token = this.#token
    if (token !== null && nowMs < token.endMs) {
      // The current token still serves if this fails.
      if (nowMs >= token.renewMs && nowMs >= this.#retryMs) this.#renew().catch(() => {})
      return token.text
    }
    if (this.#failure !== null && nowMs < this.#retryMs) throw this.#failure
    return this.#renew()
  }

  /** Call it when a server refused a token. Returns whether `get` gives another one. */
  replace(text: string): boolean {
    const token = this.#token
    if (token === null || token.text !== text) return true
    if (this.#clock.monotonicMs() < token.issuedMs + REPLACE_AGE_MS) return false
    this.#token = null
    return true
  }

  #renew(): Promise<string> {
    this.#renewal ??= this.#fetch().finally(() => {
      this.#renewal = null
    })
    return this.#renewal
  }

  async #fetch(): Promise<string> {
    const issuedMs = this.#clock.monotonicMs()
    try {
      const { text, lifetimeMs } = readToken(await this.#ask())
      this.#token = {
        text,
        issuedMs,
        renewMs: issuedMs + lifetimeMs - Math.min(RENEW_BEFORE_MS, lifetimeMs / 4),
        endMs: issuedMs + lifetimeMs - Math.min(UNUSED_BEFORE_MS, lifetimeMs / 8),
      }
      this.#failure = null
      return text
    } catch (error) {
      this.#failure = error as UpstreamFailure
      this.#retryMs = this.#clock.monotonicMs() + RETRY_AFTER_MS
      throw error
    }
  }

  /** Google refuses assertions from another time. If this machine's clock is wrong, Google's own is used. */
  async #ask(): Promise<JsonAnswer> {
    const nowMs = this.#clock.epochMs()
    const answer = await this.#send(nowMs)
    const { status, dateEpochMs } = answer
    const isSkewed = dateEpochMs !== null && Math.abs(dateEpochMs - nowMs) > CLOCK_SKEW_MAX_MS
    return status >= 400 && status < 500 && isSkewed ? this.#send(dateEpochMs) : answer
  }

  async #send(epochMs: number): Promise<JsonAnswer> {
    const form = { grant_type: GRANT_TYPE, assertion: signAssertion(this.#account, Math.floor(epochMs / 1_000)) }
    try {
      return await postForm(this.#account.tokenUri, form, { timeoutMs: TIMEOUT_MS, bytesMax: 64 * 1024 })
    } catch (error) {
      throw new UpstreamFailure('connect_failed', `the token endpoint gave no answer: ${(error as Error).message}`)
    }
  }
}

/** Returns the signed JWT that a service account exchanges for a token. */
function signAssertion(
  { clientEmail, privateKeyId, privateKey, tokenUri }: GoogleServiceAccount,
  nowS: number,
): string {
  const header = { alg: 'RS256', typ: 'JWT', ...(privateKeyId !== null && { kid: privateKeyId }) }
  const claims = { iss: clientEmail, scope: SCOPE, aud: tokenUri, iat: nowS, exp: nowS + ASSERTION_S }
  const input = `${base64url(header)}.${base64url(claims)}`
  return `${input}.${sign('RSA-SHA256', Buffer.from(input), privateKey).toString('base64url')}`
}

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

function readToken({ status, body }: JsonAnswer): { text: string; lifetimeMs: number } {
  const { access_token: text, expires_in: seconds, error } = isJsonObject(body) ? body : {}
  if (status !== 200) {
    const reason = typeof error === 'string' && /^\w{1,64}$/.test(error) ? ` ${error}` : ''
    const outcome = status === 429 ? 'busy' : status >= 400 && status < 500 ? 'credential_rejected' : 'server_error'
    throw new UpstreamFailure(outcome, `the token endpoint answered ${status}${reason}`)
  }
  if (typeof text !== 'string' || !tokenPattern.test(text) || typeof seconds !== 'number' || !(seconds > 0)) {
    throw new UpstreamFailure('malformed', 'the token endpoint answered 200 without a token')
  }
  return { text, lifetimeMs: seconds * 1_000 }
}
