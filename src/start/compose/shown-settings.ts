import { placeName } from '../../base/domain/backup-plan.ts'
import { usdText } from '../../base/domain/money.ts'
import { paymentProviderNames, payoutProviderNames } from '../../base/domain/money-drivers.ts'
import type { OperatorSystem } from '../../wire/api/operator/system.ts'
import type { Config } from '../config/config.ts'
import type { FileSettings } from '../config/schema.ts'

/**
 * Returns the settings that operators may see in a browser, by name. A new setting is a type error until it is shown
 * here or hidden below, so that no password, key or URL with a password is ever shown by mistake.
 */
export function shownSettings(config: Config): OperatorSystem['settings'] {
  // A type error names the settings that are neither shown nor hidden.
  const undecided: Undecided = {}
  return Object.entries({ ...undecided, ...valuesOf(config) }).map(([key, value]) => ({ key, value: textOf(value) }))
}

function valuesOf(config: Config) {
  const { backup, server, smtp, signup } = config
  return {
    configuration: config.configFile ?? 'none; the defaults apply',
    data: config.dataDir,
    database: config.databaseUrl === null ? 'embedded' : 'PostgreSQL of DATABASE_URL',
    'log.level': config.log.level,
    'log.format': config.log.format,
    'server.host': server.host,
    'server.port': server.port,
    'server.public_base_url': server.publicBaseUrl,
    'server.allowed_hosts': server.allowedHosts,
    'server.workers': server.workers,
    'server.drain_delay_seconds': server.drainDelaySeconds,
    'server.drain_seconds': server.drainSeconds,
    'server.max_in_flight': server.maxInFlight,
    'server.body_limit_bytes': server.bodyLimitBytes,
    'limits.wait_for_credit_ms': config.limits.creditWaitMs,
    account_tiers: Object.keys(config.accountTiers),
    'accounts.sign_up': config.accounts.signUp,
    'signup.tier': signup.tier,
    'signup.credit_usd': usdText(signup.creditNanos),
    'payments.min_usd': usdText(config.payments.topUpMinNanos),
    'payments.max_usd': usdText(config.payments.topUpMaxNanos),
    'payments.manual': config.payments.instructions === null ? 'off' : 'on',
    ...modesOf('payments', paymentProviderNames, config.payments),
    'payouts.hold_days': config.payouts.holdDays,
    'payouts.promotion_hold_days': config.payouts.promotion.holdDays,
    'payouts.promotion_hoster_day_usd': usdText(config.payouts.promotion.hosterDayNanos),
    'payouts.promotion_day_usd': usdText(config.payouts.promotion.dayNanos),
    'payouts.promotion_needs_payers': config.payouts.promotion.needsPayers ? 'on' : 'off',
    'payouts.account_wait_hours': config.payouts.accountWaitHours,
    'payouts.min_usd': usdText(config.payouts.minNanos),
    ...modesOf('payouts', payoutProviderNames, config.payouts),
    'platform.fee_percent': (10_000 - config.platform.hosterShareBps) / 100,
    'models.default_max_tokens': config.models.defaultMaxTokens,
    'demo.enabled': config.demo.enabled,
    'detect.enabled': config.detect.enabled,
    'detect.cloud': config.detect.cloud,
    'routing.cloud_competes': config.routing.cloudCompetes,
    'routing.balanced_price_percent': config.routing.priceLimits.balancedPercent,
    'routing.fastest_price_percent': config.routing.priceLimits.fastestPercent,
    'routing.local_price_percent': config.routing.priceLimits.localPercent,
    'routing.attempts_max': config.routing.attemptsMax,
    'routing.auto.models': config.routing.auto.quality.size,
    'routing.auto.model_file': config.routing.auto.table === null ? 'off' : 'on',
    'routing.newcomers.successes': config.routing.newcomers.successes,
    'routing.newcomers.payers': config.routing.newcomers.payers,
    'routing.newcomers.in_flight': config.routing.newcomers.inFlight,
    'routing.newcomers.usd_per_day': usdText(config.routing.newcomers.nanosPerDay),
    'hosters.allow_private_urls': config.hosters.allowPrivateUrls,
    'hosters.applications': config.hosters.applications,
    'hosters.approval': config.hosters.approval,
    'trust.audits': config.trust.audits,
    'alerts.allow_private_urls': config.alerts.allowPrivateUrls,
    'audit.keep_addresses_days': config.audit.keepAddressesDays,
    'alarms.mail': config.alarms.mail,
    'alarms.webhook_url': config.alarms.webhookUrl === null ? 'off' : 'on',
    'alarms.backup_days': config.alarms.backupDays,
    'backup.to': backup === null ? null : placeName(backup.place),
    'backup.every_hours': backup?.everyHours ?? null,
    'backup.alarm_after_hours': backup?.alarmAfterHours ?? null,
    'backup.test_restore_days': backup?.testDays ?? null,
    'backup.include_secrets': backup?.includesSecrets ?? null,
    'usage.keep_months': config.usage.keepMonths,
    'usage.archive_directory': config.usage.archiveDirectory,
    'usage.export_to': config.usage.export === null ? null : placeName(config.usage.export.place),
    'usage.export_format': config.usage.export?.format ?? null,
    'security.contact': config.security.contact,
    'status.public': config.status.isPublic,
    'status.server_names': config.status.showsNames,
    'smtp.host': smtp.host,
    'smtp.port': smtp.port,
    'smtp.security': smtp.security,
    'smtp.from': smtp.from,
    'metrics.enabled': config.metrics.enabled,
    'access_log.format': config.accessLog.format,
    'access_log.sample_percent': config.accessLog.samplePercent,
    'content.allow_recording': config.content.isAllowed,
    'content.retention_days': config.content.retentionDays,
    'telemetry.endpoint': config.telemetry.endpoint,
    'telemetry.service_name': config.telemetry.serviceName,
    'telemetry.traces': config.telemetry.traces,
    'telemetry.metrics': config.telemetry.metrics,
    'telemetry.sample_percent': config.telemetry.sampleRatio * 100,
    'postgres.money_connections': config.postgres.moneyConnections,
    'postgres.general_connections': config.postgres.generalConnections,
    'cells.name': config.cells?.name ?? null,
    'cells.peers': config.cells?.peers.map(({ name }) => name) ?? [],
    settlement: config.settlement,
    'journal.fsync': config.journal.fsync,
  }
}

/** The settings that are not shown: secrets, lists that are too long for a line, and what only tunes. */
const hidden = [
  'alarms.webhook_secret',
  'backup.at',
  'backup.keep_days',
  'backup.keep_weeks',
  'backup.s3.access_key_id',
  'backup.s3.endpoint',
  'backup.s3.path_style',
  'backup.s3.region',
  'backup.s3.secret_access_key',
  'backup.test_directory',
  'smtp.user',
  'smtp.password',
  'accounts.oidc',
  'endpoints',
  'cells.secret',
  'chat.forward_fields.cloud',
  'chat.forward_fields.hoster',
  'chat.forward_fields.local',
  'demo.first_token_ms',
  'demo.price_per_million_usd.input',
  'demo.price_per_million_usd.output',
  'demo.tokens_per_second',
  'detect.local_price_per_million_usd.input',
  'detect.local_price_per_million_usd.output',
  'detect.ports',
  'detect.repeat_seconds',
  'accounts.credits_per_day',
  'accounts.credits_per_network_per_day',
  'accounts.credits_per_region_percent',
  'hosters.max_price_per_million_usd.input',
  'hosters.max_price_per_million_usd.output',
  'hosters.price_change_minutes',
  'hosters.price_rise_notice_hours',
  'hosters.price_rise_percent',
  'journal.max_bytes',
  'metrics.host',
  'metrics.port',
  'access_log.file',
  'telemetry.follow_parent',
  'telemetry.headers',
  'telemetry.metrics_seconds',
  'reports.requests_per_minute',
  'routing.auto.cost_weight_percent',
  'routing.auto.explore_percent',
  'routing.auto.quality_floor_percent',
  'server.max_connections',
  'server.memory_budget_bytes',
  'server.ping_seconds',
  'server.trusted_proxies',
  'trust.audit_minutes',
  'trust.canaries_file',
  'trust.corpus_file',
  'trust.evidence_delay_minutes',
  'trust.references',
  'trust.shadow_seconds',
] as const satisfies readonly SettingName[]

/** The settings of the configuration file. A list, or a record with keys of the operator, is one of them. */
type SettingName = NamesOf<FileSettings>
type NamesOf<Section> = {
  [Key in keyof Section & string]: IsSection<NonNullable<Section[Key]>> extends true
    ? `${Key}.${NamesOf<NonNullable<Section[Key]>>}`
    : Key
}[keyof Section & string]
type IsSection<Value> = Value extends string | number | bigint | boolean | readonly unknown[]
  ? false
  : string extends keyof Value
    ? false
    : true

type Decided = keyof ReturnType<typeof valuesOf> | (typeof hidden)[number]
type Undecided = { readonly [Name in Exclude<SettingName, Decided | `${Decided}.${string}`>]: never }

/** Whether each provider is set up, and with real money. Its keys are not shown. */
function modesOf<Section extends string, Name extends string>(
  section: Section,
  names: readonly Name[],
  providers: { readonly [Each in Name]: { readonly isLive: boolean } | null },
) {
  const modes = names.map(name => {
    const settings = providers[name]
    return [`${section}.${name}`, settings === null ? 'off' : settings.isLive ? 'live' : 'test mode']
  })
  return Object.fromEntries(modes) as Readonly<Record<`${Section}.${Name}`, string>>
}

function textOf(value: unknown): string {
  if (value === null) return '-'
  return Array.isArray(value) ? value.join(', ') : String(value)
}
