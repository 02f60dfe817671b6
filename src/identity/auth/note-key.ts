import { type AuditAction, noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { usdText } from '../../base/domain/money.ts'
import type { KeyListing } from './keys.ts'

// Entries of the audit log about keys of customers. Call each of them last in a transaction: see `noteAction`.

export async function noteKeyIssued(sql: Sql, by: Acting, key: KeyListing): Promise<void> {
  const { name: _, ...detail } = detailOf(key)
  await note(sql, by, 'key.issued', key, { ...detail, ...(key.isPlayground && { is_playground: true }) })
}

/** Notes which fields have changed, and whether the key was paused or resumed. Nothing when nothing has changed. */
export async function noteKeyChanged(sql: Sql, by: Acting, before: KeyListing, after: KeyListing): Promise<void> {
  if (
    (before.pausedAt === null) !== (after.pausedAt === null) ||
    before.isPausedByOperator !== after.isPausedByOperator
  )
    await note(sql, by, after.pausedAt === null ? 'key.resumed' : 'key.paused', before, {})
  const was: Record<string, unknown> = { ...detailOf(before), former_hint: before.formerHint }
  const is: Record<string, unknown> = { ...detailOf(after), former_hint: after.formerHint }
  const changed = Object.keys(was).filter(name => JSON.stringify(was[name]) !== JSON.stringify(is[name]))
  if (changed.length === 0) return
  const only = (detail: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(changed.map(name => [name, detail[name]]))
  await note(sql, by, 'key.changed', before, { before: only(was), after: only(is) })
}

export async function noteKeyRotated(sql: Sql, by: Acting, before: KeyListing, after: KeyListing): Promise<void> {
  const formerExpiresAt = after.formerExpiresAt?.toISOString() ?? null
  const isResumed = before.pausedAt !== null && after.pausedAt === null
  await note(sql, by, 'key.rotated', after, {
    ...{ former_hint: before.hint, former_expires_at: formerExpiresAt },
    ...(isResumed && { paused: false }),
  })
}

export async function noteKeyRevoked(
  sql: Sql,
  by: Acting,
  key: Pick<KeyListing, 'keyId' | 'customerId' | 'name' | 'hint'>,
): Promise<void> {
  await note(sql, by, 'key.revoked', key, {})
}

async function note(
  sql: Sql,
  { personId, keyId, address }: Acting,
  action: Extract<AuditAction, `key.${string}`>,
  key: Pick<KeyListing, 'keyId' | 'customerId' | 'name' | 'hint'>,
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { customerId, name, hint } = key
  await noteAction(sql, {
    ...{ action, personId, keyId, address, customerId },
    subject: key.keyId,
    detail: { name, hint, ...detail },
  })
}

/** With the names and units of the API. */
function detailOf(key: KeyListing): Record<string, unknown> {
  return {
    name: key.name,
    limit_usd: key.limitNanos === null ? null : usdText(key.limitNanos),
    limit_reset: key.limitReset,
    allowed_models: key.allowedModels,
    scopes: key.scopes,
    label: key.label,
    defaults: key.defaults,
    record_content: key.recordsContent,
    expires_at: key.expiresAt?.toISOString() ?? null,
  }
}
