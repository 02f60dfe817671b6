import type { Endpoint } from '../../http/endpoint.ts'
import { alertEndpoints } from '../../http/endpoints/alerts.ts'
import { type AlertWatch, createAlertWatch } from '../../money/alerts/alert-watch.ts'
import { createAlerts } from '../../money/alerts/alerts.ts'
import type { DeliverDeps } from '../../money/alerts/deliver-alert.ts'
import { createMailer } from '../../money/alerts/mailer.ts'
import type { NoticeDeps } from '../../operator/alarms/alarm-notice.ts'
import { limitsOfTier } from '../config/config.ts'
import { clientTrace } from './client-trace.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Supply } from './supply.ts'

export interface Alerts {
  /** Finds new alerts; `startBackgroundWork` starts it. */
  readonly watch: AlertWatch
  /** The dependencies of the delivery job. */
  readonly delivery: DeliverDeps
  /** How notices of alarms reach operators. */
  readonly notices: NoticeDeps
  readonly endpoints: readonly Endpoint[]
}

export function createAlertParts(
  { config, masterKeys, clock, scheduler, timeouts, log }: ComposeContext,
  { general }: Database,
  { publicLookup }: Supply,
): Alerts {
  const { allowPrivateUrls } = config.alerts
  const { webhookUrl, webhookSecret } = config.alarms
  const mailer = createMailer(config.smtp, log)
  return {
    watch: createAlertWatch({
      pool: general,
      scheduler,
      caps: {
        get byTier() {
          const tiers = Object.entries(config.accountTiers)
          return new Map(tiers.map(([tier, limits]) => [tier, limits.dailySpendCapNanos]))
        },
        get fallback() {
          return limitsOfTier(config, 'free').dailySpendCapNanos
        },
      },
      log,
      ...(timeouts.alertIntervalMs !== undefined && { everyMs: timeouts.alertIntervalMs }),
    }),
    delivery: {
      sql: general,
      clock,
      masterKeys,
      mailer,
      webhooks: { allowPrivate: allowPrivateUrls, publicLookup },
    },
    notices: {
      clock,
      mailer,
      webhook: webhookUrl === null ? null : { url: webhookUrl, secret: webhookSecret },
      // The operator chose the address.
      webhooks: { allowPrivate: true, publicLookup },
    },
    endpoints: alertEndpoints({
      alerts: createAlerts({ pool: general, masterKeys, allowPrivateUrls }),
      addressOf: request => clientTrace(config, request).address,
      bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
    }),
  }
}
