import { type AuditAction, noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { PriceRules, WrittenModelPrice } from '../../base/domain/price-group.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Said } from '../../base/domain/said.ts'
import {
  isPriceGroupUsed,
  lockPriceGroup,
  type StoredPriceGroup,
  setCustomerPriceGroup,
  setTierPriceGroup,
  writePriceGroup,
} from './price-groups.ts'

/** A new version of a price group. */
export interface PriceGroupOrder {
  readonly name: string
  /** Null removes the group. */
  readonly rules: PriceRules | null
  readonly reason: string
  /** The version that is changed; 0: a new group. Undefined: any. */
  readonly version: number | undefined
}

/**
 * Writes a version of a price group and an entry of the audit log with the difference, in the transaction of `sql`. Throws ApiError
 * `changed_meanwhile` unless the version is the current one, and `invalid_value` for a removal while customers or tiers have it.
 */
export async function changePriceGroup(
  sql: Sql,
  acting: Acting,
  { name, rules, reason, version: expected }: PriceGroupOrder,
): Promise<{ name: string; version: number }> {
  const before = await lockPriceGroup(sql, name)
  requireVersion(before, expected, rules)
  if (rules === null && (await isPriceGroupUsed(sql, name)))
    throw refusal(sayRefusal('refusal.price_group_used', { name }))
  const version = await writePriceGroup(sql, { name, rules, reason, isNew: before === undefined })
  await note(sql, acting, actionOf(before?.rules ?? null, rules), name, {
    ...{ reason, version, changes: differences(before?.rules ?? null, rules) },
  })
  return { name, version }
}

function requireVersion(before: StoredPriceGroup | undefined, expected: number | undefined, rules: PriceRules | null) {
  const exists = before != null && before.rules !== null
  if (!exists && (rules === null || (expected ?? 0) > 0))
    throw new ApiError('not_found', { message: sayRefusal('refusal.no_price_group') })
  if (exists && expected === 0) throw refusal(sayRefusal('refusal.price_group_exists', { name: before.name }))
  if (exists && expected !== undefined && expected !== before.version) throw new ApiError('changed_meanwhile')
}

function actionOf(before: PriceRules | null, after: PriceRules | null): AuditAction {
  if (after === null) return 'price_group.removed'
  return before === null ? 'price_group.created' : 'price_group.changed'
}

interface RuleDifference {
  /** A model id, or `percent`. */
  readonly of: string
  readonly before: string | WrittenModelPrice | null
  readonly after: string | WrittenModelPrice | null
}

const DIFFERENCES_MAX = 50

function differences(before: PriceRules | null, after: PriceRules | null): RuleDifference[] {
  const models = new Set([...Object.keys(after?.models ?? {}), ...Object.keys(before?.models ?? {})])
  const pairs = [
    { of: 'percent', before: before?.percent ?? null, after: after?.percent ?? null },
    ...[...models].map(id => ({ of: id, before: before?.models[id] ?? null, after: after?.models[id] ?? null })),
  ]
  return pairs.filter(pair => JSON.stringify(pair.before) !== JSON.stringify(pair.after)).slice(0, DIFFERENCES_MAX)
}

/** Gives a customer a price group; null: that of its tier. Throws `customer_not_found`, and `invalid_value` for an unknown group. */
export async function assignToCustomer(
  sql: Sql,
  acting: Acting,
  { customerId, name, reason }: { readonly customerId: string; readonly name: string | null; readonly reason: string },
): Promise<void> {
  await requireGroup(sql, name)
  const changed = await setCustomerPriceGroup(sql, customerId, name)
  if (changed === undefined) throw new ApiError('customer_not_found')
  await note(sql, acting, 'price_group.assigned', customerId, { reason, before: changed.before, after: name })
}

/** Gives an account tier a price group; null: none. Throws `invalid_value` for an unknown group. */
export async function assignToTier(
  sql: Sql,
  acting: Acting,
  { tier, name, reason }: { readonly tier: string; readonly name: string | null; readonly reason: string },
): Promise<void> {
  await requireGroup(sql, name)
  const before = await setTierPriceGroup(sql, tier, name)
  await note(sql, acting, 'price_group.assigned', tier, { reason, before, after: name, tier })
}

/** Locks the group, so that it is not removed meanwhile. */
async function requireGroup(sql: Sql, name: string | null): Promise<void> {
  if (name === null) return
  const group = await lockPriceGroup(sql, name)
  if (group === undefined || group.rules === null) throw refusal(sayRefusal('refusal.no_price_group_named', { name }))
}

function note(
  sql: Sql,
  { personId, keyId, address }: Acting,
  action: AuditAction,
  subject: string,
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  return noteAction(sql, { action, personId, keyId, subject, detail, address })
}

const refusal = (message: Said) => new ApiError('invalid_value', { message, param: 'name' })
