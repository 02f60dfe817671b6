import { resolve } from 'node:path'
import type { ConfigReload } from '../../base/domain/config-reload.ts'
import { fixedKey } from '../../base/domain/sealing-keys.ts'
import { openSecret, sealSecret } from '../../base/secrets/sealed-secret.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { OperatorEndpointDeps } from '../../http/endpoints/operator/operator-endpoint.ts'
import { operatorEndpoints } from '../../http/endpoints/operator/operator-endpoints.ts'
import { reportSql } from '../../money/usage/report-sql.ts'
import { createAlarmWatch } from '../../operator/alarms/alarm-watch.ts'
import { createDataProtection, type DataProtection } from '../../operator/data-protection.ts'
import { createOperatorConfig } from '../../operator/operator-config.ts'
import { createOperatorConsole, type OperatorConsole } from '../../operator/operator-console.ts'
import { createOperatorKeys, type OperatorKeys } from '../../operator/operator-keys.ts'
import { createOperatorSettings } from '../../operator/operator-settings.ts'
import { createOverviewWatch } from '../../operator/overview-watch.ts'
import { createPaymentService } from '../../operator/payments.ts'
import { createPayoutService } from '../../operator/payouts.ts'
import { createOperatorPeople } from '../../operator/people.ts'
import { createOperatorPriceGroups } from '../../operator/price-groups.ts'
import { createOperatorProviders } from '../../operator/providers.ts'
import { createOperatorSetup } from '../../operator/setup.ts'
import { baseUrlOf } from '../config/base-url.ts'
import { limitsOfTier } from '../config/config.ts'
import { createSettingsRules } from '../config/managed-settings.ts'
import { readEndpoint } from '../config/read-endpoint.ts'
import type { Alerts } from './alerts.ts'
import type { Callers } from './callers.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Content } from './content.ts'
import type { Database } from './database.ts'
import type { Marketplace } from './marketplace.ts'
import { pageUrl } from './page-url.ts'
import type { PaymentParts } from './payments.ts'
import type { PayoutParts } from './payouts.ts'
import type { PeopleMailParts } from './people-mail.ts'
import type { Settings } from './settings.ts'
import { shownSettings } from './shown-settings.ts'
import type { Supply } from './supply.ts'
import type { Trust } from './trust.ts'
import { createTryOffer } from './try-offer.ts'
import { usageSchedules } from './usage-jobs.ts'

export interface Operator {
  readonly console: OperatorConsole
  readonly keys: OperatorKeys
  readonly dataProtection: DataProtection
  readonly endpoints: readonly Endpoint[]
}

interface OperatorParts {
  readonly settings: Settings
  readonly database: Database
  readonly content: Content
  readonly supply: Supply
  readonly callers: Callers
  readonly payments: PaymentParts
  readonly payouts: PayoutParts
  readonly trust: Trust
  readonly marketplace: Marketplace
  readonly peopleMail: PeopleMailParts
  readonly addressOf: OperatorEndpointDeps['addressOf']
}

/** Notifies operators of alarms, on one of the nodes. */
export function startAlarmWatch(
  { config, scheduler, timeouts, log, started }: ComposeContext,
  { general }: Database,
  { console: operator }: Operator,
  { notices }: Alerts,
): void {
  const watch = createAlarmWatch({
    pool: general,
    readAlarms: async () => (await operator.overview()).alarms,
    notices,
    get sendsMail() {
      return config.alarms.mail
    },
    baseUrl: () => baseUrlOf(config),
    scheduler,
    log,
    ...(timeouts.alertIntervalMs !== undefined && { everyMs: timeouts.alertIntervalMs }),
  })
  watch.start()
  started.defer(() => watch.stop())
}

/** Creates the endpoints under /console/api/operator. */
export function createOperator(
  context: ComposeContext,
  {
    settings,
    database: { general, desk: deskPool, deskLookups, personalData },
    content,
    supply,
    callers,
    payments: { drivers, sync },
    payouts,
    trust: { service: trust },
    marketplace: { invites: hosterInvites },
    peopleMail: { mail, invitations },
    addressOf,
  }: OperatorParts,
): Operator {
  const { config, clock, evidence, version, scheduler, timeouts, log, started } = context
  const { catalog } = supply
  const operator = createOperatorConsole({
    pool: general,
    deskPool,
    evidence,
    clock,
    offers: () => catalog.current().offers,
    tiers: { limitsOf: tier => limitsOfTier(config, tier), names: () => Object.keys(config.accountTiers) },
    signup: config.signup,
    alarmRules: {
      get promotionDayNanos() {
        return config.payouts.promotion.dayNanos
      },
      get backupHours() {
        return backupHoursOf(config)
      },
      schedules: usageSchedules(config),
      providers: drivers.flatMap(({ name, provider }) =>
        provider === null ? [] : [{ name, hasWebhook: provider.webhook !== null }],
      ),
    },
    version,
    settings: () => shownSettings(config),
    get showsServerNames() {
      return config.status.showsNames
    },
    openContent: content.open,
    invitations,
    usageArchives: () => resolve(config.usage.archiveDirectory),
  })
  const { overviewIntervalMs: everyMs } = timeouts
  const watch = createOverviewWatch({
    sql: general,
    read: operator.overview,
    scheduler,
    log,
    ...(everyMs !== undefined && { everyMs }),
  })
  started.defer(() => watch.stop())
  const paymentService = createPaymentService({ pool: general, deskPool, clock, drivers, sync, evidence })
  const payoutService = createPayoutService({ pool: general, deskPool, clock, ...payouts, rules: config.payouts })
  const keys = createOperatorKeys({
    desk: deskPool,
    lookups: deskLookups,
    clock,
    seal: (key, text, ownerId) => sealSecret(fixedKey(key), text, { ownerId, purpose: 'operator_answer' }),
    open: (key, sealed, ownerId) => openSecret(fixedKey(key), sealed, { ownerId, purpose: 'operator_answer' }),
  })
  const dataProtection = createDataProtection(personalData)
  const deps = {
    operator,
    keys,
    dataProtection,
    paymentService,
    payoutService,
    trust,
    people: createOperatorPeople(deskPool, invitations),
    prices: createOperatorPriceGroups({
      sql: reportSql(general),
      pool: deskPool,
      tiers: () => Object.keys(config.accountTiers),
      noticeChanges: () => callers.changes.poll(),
    }),
    providers: createOperatorProviders({
      sql: reportSql(general),
      pool: deskPool,
      masterKeys: context.masterKeys,
      readEndpoint,
      offers: () => catalog.current().offers,
      namesInFile: () =>
        new Set(
          catalog
            .current()
            .offers.filter(({ endpoint }) => endpoint.origin === 'file')
            .map(({ endpoint }) => endpoint.name),
        ),
      tryOffer: createTryOffer(context, supply),
      nowMs: () => clock.epochMs(),
      clock,
      log,
      noticeChanges: () => callers.changes.poll(),
    }),
    config: createOperatorConfig({ pool: deskPool, reloadConfig: context.reloadConfig ?? withoutFile }),
    settings: createOperatorSettings({
      sql: reportSql(general),
      pool: deskPool,
      rules: createSettingsRules(settings.file),
      noticeChanges: () => callers.changes.poll(),
    }),
    hosterInvites,
    setup: createOperatorSetup({
      sql: general,
      clock,
      mail,
      drivers,
      offers: () => catalog.current().offers,
      backupHours: () => backupHoursOf(config),
      configFile: config.configFile ?? resolve('switchyard.yaml'),
      baseUrl: () => baseUrlOf(config),
    }),
    urlFor: pageUrl(config.server.publicBaseUrl),
    watch,
    clock,
    addressOf,
    bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
  }
  return {
    console: operator,
    keys,
    dataProtection,
    endpoints: operatorEndpoints(deps),
  }
}

/**
 * How old the last backup may be before there is an alarm, hours; 0: any age. 0 with a PostgreSQL of the operator: the gateway cannot see
 * its backups.
 */
function backupHoursOf({ alarms, backup, databaseUrl }: ComposeContext['config']): number {
  if (databaseUrl !== null) return 0
  return backup?.alarmAfterHours ?? alarms.backupDays * 24
}

/** For a gateway inside another program. */
async function withoutFile(): Promise<ConfigReload> {
  return { problem: 'This gateway does not read a file.' }
}
