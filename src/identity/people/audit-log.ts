import type { Sql } from '../../base/db/pool.ts'

/** What people do that others may have to look up later. */
export type AuditAction =
  | 'person.welcomed'
  | 'person.signed_in'
  | 'person.signed_out'
  | 'person.password_changed'
  | 'person.blocked'
  | 'person.unblocked'
  | 'role.changed'
  | 'session.ended'
  | 'operator.link_made'
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
  | 'recovery_codes.made'
  | 'identity.linked'
  | 'identity.removed'
  | 'customer.viewed'
  | 'customer.created'
  | 'customer.changed'
  | 'customer.sharing_changed'
  | 'key.revoked'
  | 'credit.requested'
  | 'credit.granted'
  | 'credit.rejected'
  | 'request.refunded'
  | 'price.changed'
  | 'provider.created'
  | 'provider.changed'
  | 'provider.enabled'
  | 'provider.disabled'
  | 'provider.removed'
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
  /** Null: the command line. */
  readonly personId: string | null
  /** What the action concerned: an e-mail address, the id of a key or of a session. */
  readonly subject: string
  readonly customerId?: string | null
  readonly detail?: Readonly<Record<string, unknown>>
  /** The address of the client; null for the command line. */
  readonly address: string | null
}

/**
 * Appends an entry to the audit log. Call it last in a transaction: entries queue for a lock until it commits. Each
 * entry contains the hash of the one before it.
 */
export async function noteAction(
  sql: Sql,
  { personId, action, subject, customerId = null, detail = {}, address }: AuditEntry,
): Promise<void> {
  await sql.query('SELECT add_audit_entry($1, $2, $3, $4, $5, $6)', [
    personId,
    action,
    subject,
    customerId,
    JSON.stringify(detail),
    address,
  ])
}
