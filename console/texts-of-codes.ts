import { errorTable } from '../src/base/domain/errors.ts'

/** Codes of the API that the console shows in words. In English the words are those of the code. */
const words = [
  // Roles of people.
  ...['owner', 'developer', 'billing', 'viewer', 'operator', 'auditor', 'hoster'],
  // States.
  ...['active', 'paused', 'deleted', 'revoked', 'applied', 'pending', 'verified', 'suspended', 'unverified'],
  ...['contract', 'retired', 'waiting', 'granted', 'rejected', 'done', 'refused', 'open', 'closed'],
  ...['draining', 'probing', 'ejected', 'alive', 'silent', 'dead', 'ready', 'prepared', 'approved'],
  ...['sending', 'paid', 'failed', 'returned', 'cancelled', 'settled', 'processing', 'expired', 'unused'],
  ...['redeemed', 'released', 'withheld', 'ok', 'warning'],
  // How an attempt ended; `AttemptOutcome`.
  ...['answered', 'connect_failed', 'server_error', 'first_token_timeout', 'malformed', 'empty', 'busy'],
  ...['credential_rejected', 'request_rejected', 'not_sent'],
  // Why a server was left out or came later; `ExclusionReason`, `LowerRankReason`.
  ...['context_too_small', 'feature_missing', 'budget_spent', 'endpoint_ejected', 'later_model'],
  ...['other_model', 'newcomer', 'shorter_output', 'cloud_comes_last', 'recent_failures', 'held_back'],
  ...['prompt_cache_elsewhere', 'more_expensive', 'slower', 'slower_or_busier', 'drawn_later'],
  // How a request ended.
  ...['served', 'client_gone', 'refused_upstream', 'unserved', 'interrupted', 'shutdown', 'internal_error'],
  ...['node_died', 'superseded'],
  // Parts of the trust score.
  ...['reliability', 'honesty', 'conformance'],
  // Service tiers.
  ...['cheapest', 'balanced', 'fastest'],
  // What relates a hoster and a customer.
  ...['member', 'network', 'device', 'payment_method', 'earnings', 'circular', 'timing'],
  // Features of models.
  ...['chat', 'tools', 'images', 'audio', 'completions', 'embeddings', 'rerank', 'json_schema', 'reasoning'],
  ...['dimensions'],
  // Kinds of tokens.
  ...['input', 'output', 'cached_input', 'cache_write', 'input_image', 'input_audio', 'output_image'],
  ...['output_audio'],
]

/** What entries of the audit log note: `AuditAction`. */
export const actions = [
  ...['person.welcomed', 'person.signed_in', 'person.signed_out', 'person.password_changed'],
  ...['person.blocked', 'person.unblocked', 'role.changed', 'role.rejected', 'session.ended'],
  ...['master_key.rotated', 'master_key.forgotten', 'master_key.adopted'],
  ...['person.exported', 'person.deleted', 'customer.exported'],
  ...['operator.invited', 'operator.invite_revoked', 'operator.joined'],
  ...['operator.link_made', 'member.invited', 'member.joined', 'member.role_changed', 'member.limit_changed'],
  ...['member.removed', 'member.left', 'invite.revoked', 'person.signed_up', 'person.password_reset'],
  ...['person.name_changed', 'person.email_changed', 'factor.added', 'factor.removed', 'factor.renamed'],
  ...['recovery_codes.made', 'identity.linked', 'identity.removed', 'customer.viewed', 'customer.created'],
  ...['customer.changed', 'customer.sharing_changed', 'customer.deleted', 'key.issued', 'key.changed'],
  ...['key.paused', 'key.resumed', 'key.rotated', 'key.revoked', 'alert.added', 'alert.removed'],
  ...['auto_top_up.on', 'auto_top_up.off', 'payment_method.removed', 'payment.started', 'payment.cancelled'],
  ...['payment.confirmed', 'payment.refunded', 'payment.disputed', 'payment.reversal_returned'],
  ...['payment.reconciled', 'voucher.made', 'voucher.revoked', 'voucher.redeemed', 'payout.settled'],
  ...[
    'usage.archived',
    'credit.requested',
    'credit.granted',
    'credit.rejected',
    'request.refunded',
    'request.content_viewed',
  ],
  ...['price.changed', 'price_group.created', 'price_group.changed', 'price_group.removed'],
  ...['price_group.assigned', 'provider.created', 'provider.changed', 'provider.enabled'],
  ...['provider.disabled', 'provider.removed', 'provider.models_proposed', 'config.reloaded'],
  ...['settings.changed', 'hoster.changed', 'hoster.viewed', 'hoster.change_refused', 'hoster.applied'],
  ...['hoster.state_changed', 'hoster.manifest_changed', 'hoster.key_issued', 'hoster.key_revoked'],
  ...['hoster.member_changed', 'hoster.member_invited', 'hoster.invite_revoked', 'hoster.appealed'],
  ...['hoster.appeal_answered', 'model.approved', 'model.refused'],
]

/** Errors whose text has no details, so that a translation says as much. In English the API's own words are shown. */
const errors = [
  ...['not_signed_in', 'wrong_credentials', 'wrong_code', 'wrong_passkey', 'sign_in_refused'],
  ...['role_not_allowed', 'confirmation_required', 'second_factor_required', 'sign_up_closed'],
  ...['no_account_here', 'payment_not_found', 'voucher_not_valid', 'link_expired', 'last_owner'],
  ...['last_operator', 'has_role', 'last_way_in', 'identity_in_use', 'changed_meanwhile'],
  ...['too_many_passkeys', 'passkeys_unavailable', 'mail_not_configured', 'too_many_attempts'],
  ...['rate_limit_exceeded', 'sign_in_provider_unavailable', 'payment_provider_unavailable'],
  ...['database_unavailable', 'server_shutdown'],
] as const satisfies readonly (keyof typeof errorTable)[]

/** The English text of each code. Only the files of other languages have them: see code-text.ts. */
export const textsOfCodes: Readonly<Record<string, string>> = {
  ...Object.fromEntries([...words, ...actions].map(code => [code, code.replaceAll(/[._]/g, ' ')])),
  ...Object.fromEntries(errors.map(code => [`error ${code}`, errorTable[code].message])),
}
