import { durabilitySentences } from '../src/base/db/durability-sentences.ts'
import { errorTable } from '../src/base/domain/errors.ts'
import { fieldSentences, ruleSentences } from '../src/base/domain/field-sentences.ts'
import { hosterSentences } from '../src/base/domain/hoster-sentences.ts'
import { hosterStates } from '../src/base/domain/hoster-state.ts'
import { installationRoles, memberRoles } from '../src/base/domain/member-role.ts'
import { paymentDriverNames } from '../src/base/domain/money-drivers.ts'
import { operatorScopes } from '../src/base/domain/operator-scope.ts'
import { refusals } from '../src/base/domain/refusals.ts'
import type { Sentences } from '../src/base/domain/said.ts'
import { serverStates } from '../src/base/domain/server-state.ts'
import { standings } from '../src/market/trust/trust-score.ts'
import { trustSentences } from '../src/market/trust/trust-sentences.ts'
import { alarmSentences } from '../src/operator/alarms/alarm-sentences.ts'
import { setupSentences } from '../src/operator/setup-sentences.ts'
import { systemSentences } from '../src/operator/system-sentences.ts'
import { settingSentences } from '../src/start/config/setting-sentences.ts'

/** Codes of the API that the console shows in words. In English the words are those of the code. */
const words = [
  ...[...memberRoles, ...installationRoles, 'hoster'],
  ...[...hosterStates, ...serverStates, ...standings],
  // States of keys, customers, payments, payouts, grants, agents and nodes.
  ...['deleted', 'revoked', 'waiting', 'granted', 'rejected', 'done', 'refused', 'open', 'closed'],
  ...['draining', 'probing', 'alive', 'silent', 'dead', 'ready', 'prepared', 'approved'],
  ...['sending', 'paid', 'failed', 'returned', 'settled', 'processing', 'expired', 'unused'],
  ...['redeemed', 'released', 'withheld', 'ok', 'warning'],
  // Parts of the trust score.
  ...['reliability', 'honesty', 'conformance'],
  // Service tiers.
  ...['cheapest', 'balanced', 'fastest'],
  // What relates a hoster and a customer.
  ...['member', 'network', 'device', 'payment_method', 'earnings', 'circular', 'timing'],
  // Features of models.
  ...['chat', 'tools', 'images', 'audio', 'completions', 'embeddings', 'rerank', 'json_schema', 'reasoning'],
  ...['dimensions'],
  // Scopes of operator keys, and how payments are made.
  ...[...operatorScopes, ...paymentDriverNames],
  // Kinds of tokens.
  ...['input', 'output', 'cached_input', 'cache_write', 'input_image', 'input_audio', 'output_image'],
  ...['output_audio'],
  // Checks of the page System.
  ...['durability', 'gateway role', 'clock', 'jobs', 'backups', 'usage archives', 'usage exports'],
]

/** The tasks of the job queue. */
export const jobs = [
  ...['audit_ledger', 'add_usage_partitions', 'keep_content', 'delete_expired_claims', 'delete_old_sessions'],
  ...['fold_hoster_days', 'forget_addresses', 'free_abandoned_jobs', 'prune_alerts', 'prune_server_reports'],
  ...['end_group_roles'],
  ...['snapshot_learned', 'start_auto_top_ups', 'reconcile_payments', 'reconcile_payouts', 'apply_payout_changes'],
  ...['close_promotion_days', 'apply_hoster_prices', 'sum_platform_days', 'sum_platform_month'],
  ...['plan_hoster_audits', 'score_hosters', 'write_trust_days', 'refresh_models', 'reseal_secrets'],
  ...['back_up', 'archive_usage', 'export_usage'],
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
    'usage.exported',
    'cell.linked',
    'customer.moved',
    'customer.move_undone',
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

/** What functions of SQL note in the audit log by themselves. */
export const actionsOfSql = [
  ...['hoster.clawback_returned', 'hoster.clawed_back', 'hoster.customer', 'hoster.earnings_moved'],
  ...['hoster.payout_account', 'hoster.payout_change_requested', 'hoster.payout_change_stopped'],
  ...['hoster.payouts_frozen', 'hoster.payouts_released', 'operator_key.issued', 'operator_key.revoked'],
  ...['payment.difference_accepted', 'payment.first_confirmation', 'payout.approved', 'payout.cancelled'],
  ...['payout.failed', 'payout.paid', 'payout.prepared', 'payout.promotion_released', 'payout.promotion_withheld'],
  ...['role.requested'],
]

/** Errors that say in each case what their row of the table says. In English the API's own words are shown. */
const errors = [
  ...['not_signed_in', 'wrong_credentials', 'wrong_code', 'wrong_passkey', 'sign_in_refused'],
  ...['role_not_allowed', 'confirmation_required', 'second_factor_required', 'sign_up_closed'],
  ...['no_account_here', 'payment_not_found', 'voucher_not_valid', 'link_expired', 'last_owner'],
  ...['last_operator', 'has_role', 'last_way_in', 'identity_in_use', 'changed_meanwhile'],
  ...['too_many_passkeys', 'passkeys_unavailable', 'mail_not_configured', 'too_many_attempts'],
  ...['rate_limit_exceeded', 'sign_in_provider_unavailable', 'payment_provider_unavailable'],
  ...['database_unavailable', 'server_shutdown', 'customer_not_found', 'hoster_not_found', 'request_not_found'],
  ...['earnings_frozen', 'key_paused', 'daily_spend_cap_reached', 'key_spend_limit_reached'],
  ...['member_spend_limit_reached', 'account_in_debt', 'daily_limit_exceeded', 'internal_error'],
  ...['all_hosters_failed', 'no_eligible_offer', 'upstream_unavailable', 'stream_interrupted', 'overloaded'],
  ...['settlement_unavailable', 'request_too_large', 'request_timeout', 'idempotency_key_in_use'],
  ...['too_many_concurrent_requests', 'model_not_found', 'model_not_allowed', 'agent_connected'],
] as const satisfies readonly (keyof typeof errorTable)[]

type DetailedError = Exclude<keyof typeof errorTable, (typeof errors)[number] | UnseenError>

/** What the console never gets: errors of keys, of the connection of a program, and of addresses that no page asks for. */
type UnseenError =
  | 'invalid_header'
  | 'previous_response_not_found'
  | 'websocket_connection_limit_reached'
  | 'invalid_api_key'
  | 'invalid_hoster_key'
  | 'invalid_operator_key'
  | 'cross_site_request'
  | 'method_not_allowed'
  | 'upgrade_required'
  | 'already_completed'
  | 'idempotency_key_reused'
  | 'unsupported_media_type'
  | 'headers_too_large'

/** What the other errors have in common. What the API says in English follows, unless it says it by codes. */
const detailedErrors: Readonly<Record<DetailedError, string>> = {
  invalid_json: 'The gateway could not read the request:',
  invalid_value: 'A value is not possible:',
  missing_parameter: 'A value is missing:',
  context_length_exceeded: 'The talk is longer than the model can read:',
  feature_not_supported: 'No server of this model can do that:',
  upstream_rejected: 'The model server refused the request:',
  max_cost_too_low: 'The highest cost of the request is too low:',
  insufficient_credits: 'The balance does not cover this request:',
  in_flight_budget: 'Running requests hold the rest of the budget:',
  insufficient_scope: 'The key may not do this:',
  not_found: 'It does not exist, or does not any more:',
  role_not_possible: 'This person cannot get the role yet:',
  hoster_state_refused: 'The state of the hoster does not allow this:',
  price_change_too_soon: 'The prices changed a short time ago:',
}

/** Sentences of the API, which sends them with their codes. */
export const sentences: Sentences = {
  ...alarmSentences,
  ...setupSentences,
  ...systemSentences,
  ...durabilitySentences,
  ...settingSentences,
  ...trustSentences,
  ...refusals,
  ...hosterSentences,
  ...fieldSentences,
  ...ruleSentences,
}

/** The English text of each code. Only the files of other languages have them: see code-text.ts. */
export const textsOfCodes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [...words, ...actions, ...actionsOfSql, ...jobs].map(code => [code, code.replaceAll(/[._]/g, ' ')]),
  ),
  ...Object.fromEntries(errors.map(code => [`error ${code}`, errorTable[code].message])),
  ...Object.fromEntries(Object.entries(detailedErrors).map(([code, text]) => [`detail ${code}`, text])),
}
