import { HOUR_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import type { TokenPrice } from '../../base/domain/money.ts'
import type { FileSettings } from './schema.ts'

/** The part of the configuration that can change while the gateway runs. See managed-settings.ts for its keys. */
export type RunTimeSettings = ReturnType<typeof runTimeSettings>

export function runTimeSettings(settings: FileSettings) {
  const { accounts, payments, payouts, routing, hosters } = settings
  return {
    limits: { creditWaitMs: settings.limits.wait_for_credit_ms },
    accountTiers: Object.fromEntries(
      Object.entries(settings.account_tiers).map(([name, tier]) => [
        name,
        {
          requestsPerMinute: tier.requests_per_minute,
          requestsPerDay: tier.requests_per_day,
          dailySpendCapNanos: tier.daily_spend_cap_usd,
        },
      ]),
    ),
    signup: { creditNanos: settings.signup.credit_usd, tier: settings.signup.tier },
    accounts: {
      creditsPerNetworkPerDay: accounts.credits_per_network_per_day,
      creditsPerRegionPercent: accounts.credits_per_region_percent,
      creditsPerDay: accounts.credits_per_day,
    },
    payments: { topUpMinNanos: payments.min_usd, topUpMaxNanos: payments.max_usd },
    payouts: {
      holdDays: payouts.hold_days,
      minNanos: payouts.min_usd,
      promotion: {
        holdDays: payouts.promotion_hold_days,
        hosterDayNanos: payouts.promotion_hoster_day_usd,
        needsPayers: payouts.promotion_needs_payers,
        dayNanos: payouts.promotion_day_usd,
      },
      accountWaitHours: payouts.account_wait_hours,
    },
    platform: { hosterShareBps: 10_000 - settings.platform.fee_percent },
    models: { defaultMaxTokens: settings.models.default_max_tokens },
    routing: {
      cloudCompetes: routing.cloud_competes,
      priceLimits: {
        balancedPercent: routing.balanced_price_percent,
        fastestPercent: routing.fastest_price_percent,
        localPercent: routing.local_price_percent,
      },
      attemptsMax: routing.attempts_max,
      newcomers: {
        successes: routing.newcomers.successes,
        payers: routing.newcomers.payers,
        inFlight: routing.newcomers.in_flight,
        nanosPerDay: routing.newcomers.usd_per_day,
      },
    },
    hosters: {
      applications: hosters.applications,
      approval: hosters.approval,
      priceRules: {
        max: priceOf(hosters.max_price_per_million_usd),
        changeIntervalMs: hosters.price_change_minutes * MINUTE_MS,
        risePercent: hosters.price_rise_percent,
        riseNoticeMs: hosters.price_rise_notice_hours * HOUR_MS,
      },
    },
    alarms: { mail: settings.alarms.mail, backupDays: settings.alarms.backup_days },
    status: { isPublic: settings.status.public, showsNames: settings.status.server_names },
  }
}

export function priceOf(prices: { input: bigint; output: bigint }): TokenPrice {
  return { inputPicoPerToken: prices.input, outputPicoPerToken: prices.output }
}
