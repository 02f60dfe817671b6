import type { Acting } from '../domain/acting.ts'
import type { Sql } from './pool.ts'
import { queryRow } from './query-row.ts'

/** What people do that others may have to look up later. */
export type AuditAction =
  | 'person.welcomed'
  | 'person.signed_in'
  | 'person.signed_out'
  | 'person.password_changed'
  | 'person.blocked'
  | 'person.unblocked'
  | 'person.exported'
  | 'person.deleted'
  | 'role.changed'
  | 'role.rejected'
  | 'session.ended'
  | 'operator.link_made'
  | 'operator.invited'
  | 'operator.invite_revoked'
  | 'operator.joined'
  | 'member.invited'
  | 'member.joined'
  | 'member.role_changed'
  | 'member.limit_changed'
  | 'member.removed'
  | 'member.left'
  | 'invite.revoked'
  | 'person.signed_up'
  | 'person.password_reset'
  | 'person.name_changed'
  | 'person.email_changed'
  | 'factor.added'
  | 'factor.removed'
  | 'factor.renamed'
  | 'recovery_codes.made'
  | 'identity.linked'
  | 'identity.removed'
  | 'customer.viewed'
  | 'customer.created'
  | 'customer.changed'
  | 'customer.sharing_changed'
  | 'customer.deleted'
  | 'customer.exported'
  | 'key.issued'
  | 'key.changed'
  | 'key.paused'
  | 'key.resumed'
  | 'key.rotated'
  | 'key.revoked'
  | 'alert.added'
  | 'alert.removed'
  | 'auto_top_up.on'
  | 'auto_top_up.off'
  | 'payment_method.removed'
  | 'payment.started'
  | 'payment.cancelled'
  | 'payment.confirmed'
  | 'payment.refunded'
  | 'payment.disputed'
  | 'payment.reversal_returned'
  | 'payment.reconciled'
  | 'voucher.made'
  | 'voucher.revoked'
  | 'voucher.redeemed'
  | 'payout.settled'
  | 'usage.archived'
  | 'usage.exported'
  | 'cell.linked'
  | 'customer.moved'
  | 'customer.move_undone'
  | 'credit.requested'
  | 'credit.granted'
  | 'credit.rejected'
  | 'request.refunded'
  | 'request.content_viewed'
  | 'price.changed'
  | 'price_group.created'
  | 'price_group.changed'
  | 'price_group.removed'
  | 'price_group.assigned'
  | 'provider.created'
  | 'provider.changed'
  | 'provider.enabled'
  | 'provider.disabled'
  | 'provider.removed'
  | 'provider.models_proposed'
  | 'config.reloaded'
  | 'master_key.rotated'
  | 'master_key.adopted'
  | 'master_key.forgotten'
  | 'settings.changed'
  | 'hoster.changed'
  | 'hoster.viewed'
  | 'hoster.change_refused'
  | 'hoster.applied'
  | 'hoster.state_changed'
  | 'hoster.manifest_changed'
  | 'hoster.key_issued'
  | 'hoster.key_revoked'
  | 'hoster.member_changed'
  | 'hoster.member_invited'
  | 'hoster.invite_revoked'
  | 'hoster.appealed'
  | 'hoster.appeal_answered'
  | 'model.approved'
  | 'model.refused'

export interface AuditEntry {
  readonly action: AuditAction
  /** Null: a key, the command line, or the gateway itself. */
  readonly personId: string | null
  /** See `Acting`. The entry keeps it as `by_key_id` of its detail. */
  readonly keyId?: string | null
  /** What the action concerned: an e-mail address, the id of a key or of a session. */
  readonly subject: string
  readonly customerId?: string | null
  readonly detail?: Readonly<Record<string, unknown>>
  /** The address of the client; null for the command line. */
  readonly address: string | null
}

/**
 * Names a key in the entries that SQL functions write in this transaction: see acting_program in
 * sql/functions/operator/audit_log.sql.
 */
export async function nameActingKey(sql: Sql, { keyId }: Pick<Acting, 'keyId'>): Promise<void> {
  if (keyId !== null) await sql.query("SELECT set_config('switchyard.key_id', $1, true)", [keyId])
}

/**
 * Appends an entry to the audit log. Call it last in a transaction: entries queue for a lock until it commits. Each
 * entry contains the hash of the one before it.
 */
export async function noteAction(
  sql: Sql,
  { personId, keyId = null, action, subject, customerId = null, detail = {}, address }: AuditEntry,
): Promise<void> {
  await sql.query('SELECT add_audit_entry($1, $2, $3, $4, $5, $6)', [
    personId,
    action,
    subject,
    customerId,
    JSON.stringify(keyId === null ? detail : { ...detail, by_key_id: keyId }),
    address,
  ])
}

/**
 * Takes the addresses of clients out of entries of before `before`, in steps, and of those of more than 30 days ago only. The
 * chain of hashes stays whole. Returns the number of entries.
 */
export async function forgetAddresses(sql: Sql, before: Date): Promise<number> {
  let total = 0
  for (;;) {
    const { count } = await queryRow<{ count: bigint }>(sql, 'SELECT forget_audit_addresses($1) AS count', [before])
    if (count === 0n) return total
    total += Number(count)
  }
}
