import type { Sql } from '../../base/db/pool.ts'
import {
  type AccountLimits,
  type Caller,
  type KeyAccess,
  type MemberLimit,
  plainAccess,
} from '../../base/domain/caller.ts'
import { routingOf } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { FindPrices, PriceGroup } from '../../base/domain/price-group.ts'
import { headerValues } from '../../base/runtime/header-list.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { hashApiKey, hasValidChecksum } from './api-key.ts'
import { KeyCache } from './key-cache.ts'
import { createKeyLookUp, type KeyRow, keysOfCustomers } from './look-up-keys.ts'

export interface Authenticator {
  /**
   * Returns the caller of a request: at once when its key is cached. Throws or rejects with ApiError:
   * `invalid_api_key`, `key_paused`, or `database_unavailable` when an unknown key cannot be looked up.
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
  readonly findPrices: FindPrices
  /** Calls back whenever keys or customers may have changed. Returns a function that unsubscribes. */
  readonly onAccessChange: (listener: () => void) => () => void
}

/** Finds callers by their keys, mostly in memory. */
export function createAuthenticator({
  sql,
  clock,
  limitsOf,
  findPrices,
  onAccessChange,
}: AuthenticatorDeps): Authenticator {
  const lookUpKey = createKeyLookUp(sql, keysOfCustomers)
  const cache = new KeyCache<Caller>({
    clock,
    onAccessChange,
    refusal: 'invalid_api_key',
    async lookUp(keyHash) {
      const row = await lookUpKey(keyHash)
      if (row === undefined) return undefined
      const { price_group: name, price_group_version: version } = row
      const prices = name === null || version === null ? null : await findPrices({ name, version })
      return {
        holder: callerOf(row, limitsOf(row.account_tier), prices),
        expiresAt: row.expires_at,
        isPaused: row.is_paused,
      }
    },
  })
  return {
    authenticate(rawHeaders) {
      const key = credentialOf(rawHeaders)
      return cache.find(hashApiKey(key), () => hasValidChecksum(key))
    },
    close: () => cache.close(),
  }
}

function callerOf(row: KeyRow, limits: AccountLimits, prices: PriceGroup | null): Caller {
  return Object.freeze({
    customerId: row.customer_id,
    keyId: row.key_id,
    access: accessOf(row),
    email: row.email,
    accountTier: row.account_tier,
    sharesRequests: row.shares_requests,
    prices,
    limits: Object.freeze({
      requestsPerMinute: row.requests_per_minute ?? limits.requestsPerMinute,
      requestsPerDay: row.requests_per_day ?? limits.requestsPerDay,
      dailySpendCapNanos: row.daily_spend_cap_nanos ?? limits.dailySpendCapNanos,
    }),
  })
}

function accessOf(row: KeyRow): KeyAccess {
  const { spend_limit_nanos, limit_reset, allowed_models, scopes, routing_defaults, label, records_content } = row
  const memberLimit = memberLimitOf(row)
  const isPlain =
    spend_limit_nanos === null && allowed_models === null && scopes.length === 0 && routing_defaults === null
  if (isPlain && memberLimit === null && label === null && !records_content) return plainAccess
  return {
    limit: spend_limit_nanos === null ? null : { limitNanos: spend_limit_nanos, reset: limit_reset },
    memberLimit,
    label,
    allowedModels: allowed_models === null ? null : new Set(allowed_models),
    mayManage: scopes.includes('manage'),
    defaults: routing_defaults === null ? null : routingOf(routing_defaults),
    recordsContent: records_content,
  }
}

function memberLimitOf(row: KeyRow): MemberLimit | null {
  const { member_limit_nanos, member_limit_reset, member_id, member_email } = row
  if (member_limit_nanos === null) return null
  return { personId: member_id, email: member_email, limitNanos: member_limit_nanos, reset: member_limit_reset }
}

/**
 * Reads the API key of a request: `Authorization: Bearer <key>`, or `x-api-key`, `api-key` or `x-goog-api-key` when
 * there is no Authorization. Throws the same `invalid_api_key` for every fault, so the answer to a guessed key reveals
 * nothing.
 *
 * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`; merged headers hide that one
 *   was sent twice
 */
export function credentialOf(rawHeaders: readonly string[]): string {
  const authorization = headerValues(rawHeaders, 'authorization')
  const key = authorization.length > 0 ? bearerToken(only(authorization)) : only(aliasValues(rawHeaders))
  if (key === undefined) throw new ApiError('invalid_api_key')
  return key
}

function aliasValues(rawHeaders: readonly string[]): string[] {
  return ['x-api-key', 'api-key', 'x-goog-api-key'].flatMap(name => headerValues(rawHeaders, name))
}

function only(values: readonly string[]): string | undefined {
  const [value] = values
  // `trim` would also remove other spaces, such as U+00A0, which HTTP does not allow around a value.
  return value !== undefined && values.length === 1 && /^[\t\x20-\x7e]*$/.test(value) ? value.trim() : undefined
}

function bearerToken(value: string | undefined): string | undefined {
  return /^bearer +(\S+)$/i.exec(value ?? '')?.[1]
}
