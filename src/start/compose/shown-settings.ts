import { usdText } from '../../base/domain/money.ts'
import type { OperatorSystem } from '../../wire/api/operator/system.ts'
import type { Config } from '../config/config.ts'

/**
 * Returns the settings that operators may see in a browser, by name. A new setting is shown only if it is added here, so that no
 * password, key or URL with a password is ever shown by mistake.
 */
export function shownSettings(config: Config): OperatorSystem['settings'] {
  const { server, smtp, signup } = config
  const shown: Readonly<Record<string, unknown>> = {
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
    'signup.tier': signup.tier,
    'payments.min_usd': usdText(config.payments.topUpMinNanos),
    'payments.max_usd': usdText(config.payments.topUpMaxNanos),
    'payments.manual': config.payments.instructions === null ? 'off' : 'on',
    'payments.stripe': config.payments.stripe === null ? 'off' : config.payments.stripe.isLive ? 'live' : 'test mode',
    'payments.paddle': config.payments.paddle === null ? 'off' : config.payments.paddle.isLive ? 'live' : 'test mode',
    'payouts.hold_days': config.payouts.holdDays,
    'payouts.promotion_hold_days': config.payouts.promotion.holdDays,
    'payouts.promotion_hoster_day_usd': usdText(config.payouts.promotion.hosterDayNanos),
    'payouts.promotion_day_usd': usdText(config.payouts.promotion.dayNanos),
    'payouts.promotion_needs_payers': config.payouts.promotion.needsPayers ? 'on' : 'off',
    'payouts.account_wait_hours': config.payouts.accountWaitHours,
    'payouts.min_usd': usdText(config.payouts.minNanos),
    'payouts.stripe': config.payouts.stripe === null ? 'off' : config.payouts.stripe.isLive ? 'live' : 'test mode',
    'platform.hoster_share_bps': config.platform.hosterShareBps,
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
    'alerts.allow_private_urls': config.alerts.allowPrivateUrls,
    'security.contact': config.security.contact,
    'status.public': config.status.isPublic,
    'status.server_names': config.status.showsNames,
    'smtp.host': smtp.host,
    'smtp.port': smtp.port,
    'smtp.security': smtp.security,
    'smtp.from': smtp.from,
    'metrics.enabled': config.metrics.enabled,
    'postgres.money_connections': config.postgres.moneyConnections,
    'postgres.general_connections': config.postgres.generalConnections,
    settlement: config.settlement,
    'journal.fsync': config.journal.fsync,
  }
  return Object.entries(shown).map(([key, value]) => ({ key, value: textOf(value) }))
}

function textOf(value: unknown): string {
  if (value === null) return '-'
  return Array.isArray(value) ? value.join(', ') : String(value)
}
