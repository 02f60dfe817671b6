import type { KeyDefaults } from '../base/domain/chat-job.ts'
import { usdText } from '../base/domain/money.ts'
import { noSpend, type Spend } from '../base/domain/spend.ts'
import type { KeyListing } from '../identity/auth/keys.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { keyDefaultNames } from '../wire/api/key-defaults.ts'
import { spendJson } from './customer-figures.ts'
import { DELETED, type Json, timeText } from './output.ts'
import { table } from './table.ts'

/** A key for programs. */
export function keyJson(key: KeyListing, spend: Spend = noSpend): Record<string, Json> {
  return {
    key_id: key.keyId,
    hint: key.hint,
    name: key.name,
    customer_id: key.customerId,
    email: emailOrNull(key.customerEmail),
    state: keyState(key),
    limit_usd: key.limitNanos === null ? null : usdText(key.limitNanos),
    limit_reset: key.limitReset,
    allowed_models: key.allowedModels === null ? null : [...key.allowedModels],
    scopes: [...key.scopes],
    label: key.label,
    defaults: { ...key.defaults } as Record<string, Json>,
    spend: spendJson(spend),
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    paused_at: key.pausedAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  }
}

/** @param spend by key id */
export function keyTable(keys: readonly KeyListing[], spend: ReadonlyMap<string, Spend>, emptyText: string): string {
  return table(
    [
      ...['id', 'key', 'name', 'customer', 'limit', 'models', 'scope', 'label', 'defaults'],
      ...['month USD', 'total USD', 'created (UTC)', 'expires (UTC)', 'state'],
    ],
    keys.map(key => {
      const { monthNanos, totalNanos } = spend.get(key.keyId) ?? noSpend
      return [
        key.keyId,
        key.hint,
        key.name,
        emailOrNull(key.customerEmail) ?? DELETED,
        limitText(key),
        key.allowedModels === null ? 'all' : key.allowedModels.join(', '),
        key.scopes.join(', '),
        key.label ?? '',
        defaultsText(key.defaults),
        usdText(monthNanos),
        usdText(totalNanos),
        timeText(key.createdAt),
        timeText(key.expiresAt),
        keyState(key),
      ]
    }),
    emptyText,
  )
}

function limitText({ limitNanos, limitReset }: KeyListing): string {
  if (limitNanos === null) return 'none'
  return limitReset === 'none' ? `${usdText(limitNanos)} USD` : `${usdText(limitNanos)} USD ${limitReset}`
}

/** As in `--default`. */
function defaultsText(defaults: KeyDefaults | null): string {
  if (defaults === null) return ''
  return keyDefaultNames
    .filter(field => defaults[field] !== undefined)
    .map(field => `${field}=${defaults[field]}`)
    .join(' ')
}

function keyState({ revokedAt, pausedAt, expiresAt, customerDisabledAt }: KeyListing): string {
  if (revokedAt !== null) return 'revoked'
  if (pausedAt !== null) return 'paused'
  if (customerDisabledAt !== null) return 'disabled'
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? 'expired' : 'active'
}
