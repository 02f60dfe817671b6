import { randomInt, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { count, refuseExhausted } from '../admit/admit.ts'
import { createAlertWatch } from '../alerts/alert-watch.ts'
import { createAlerts } from '../alerts/alerts.ts'
import { createMailer } from '../alerts/mailer.ts'
import { createAuthenticator } from '../auth/authenticator.ts'
import { createKeyRing } from '../auth/key-ring.ts'
import { type CompleteDeps, complete } from '../chat/complete.ts'
import { completeOnce, type OnceRequest, type SettlementWatch } from '../chat/complete-once.ts'
import { createClaims } from '../chat/idempotency/claims.ts'
import { createPostgresClaimStore } from '../chat/idempotency/postgres-claim-store.ts'
import { quote } from '../chat/quote.ts'
import { type Config, limitsOfTier } from '../config/config.ts'
import { watchControlVersions } from '../db/control-version.ts'
import type { Connection } from '../db/embedded.ts'
import { createPool, type Pool, withQueryTimeout } from '../db/pool.ts'
import { standardTimeouts } from '../domain/endpoint-defaults.ts'
import type { Offer } from '../domain/offer.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { createPinnedLookup } from '../egress/pinned-lookup.ts'
import type { Endpoint } from '../http/endpoint.ts'
import { alertEndpoints } from '../http/endpoints/alerts.ts'
import { chatCompletions } from '../http/endpoints/chat-completions.ts'
import { creditTransactions } from '../http/endpoints/credit-transactions.ts'
import { credits } from '../http/endpoints/credits.ts'
import { docs } from '../http/endpoints/docs.ts'
import { healthz, metricsText, readyz } from '../http/endpoints/health.ts'
import { keyShow } from '../http/endpoints/key.ts'
import { keyCreate, keyDelete, keysList } from '../http/endpoints/keys.ts'
import { modelShow, modelsList } from '../http/endpoints/models.ts'
import { openapi } from '../http/endpoints/openapi.ts'
import { usageBreakdown } from '../http/endpoints/usage-breakdown.ts'
import { usageExport } from '../http/endpoints/usage-export.ts'
import { usageReceipt } from '../http/endpoints/usage-receipt.ts'
import { usageRequests } from '../http/endpoints/usage-requests.ts'
import { usageSummary } from '../http/endpoints/usage-summary.ts'
import { usageTokens } from '../http/endpoints/usage-tokens.ts'
import { createGuard } from '../http/guard.ts'
import { createInFlight } from '../http/in-flight.ts'
import { createMetrics } from '../http/metrics.ts'
import { createServer } from '../http/server.ts'
import { startJobs } from '../jobs/start-jobs.ts'
import { startNode } from '../jobs/start-node.ts'
import { listTransactions } from '../ledger/accounts/list-transactions.ts'
import { readBalance } from '../ledger/accounts/read-balance.ts'
import { readCredits } from '../ledger/accounts/read-credits.ts'
import { readLastAudit } from '../ledger/audit/last-audit.ts'
import { createLastAuditView } from '../ledger/audit/last-audit-view.ts'
import { openJournals } from '../ledger/journal/open-journals.ts'
import { createLedger } from '../ledger/ledger.ts'
import { createPostgresStore } from '../ledger/postgres-store.ts'
import { createEarlyLeaves } from '../limits/early-leaves.ts'
import { createReportLimiter } from '../limits/report-limiter.ts'
import { createWindowView, windowCounts } from '../limits/window-view.ts'
import { createAffinity } from '../route/affinity.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { failpoint } from '../runtime/failpoint.ts'
import { type Scheduler, systemScheduler } from '../runtime/scheduler.ts'
import { createOverReports } from '../settle/over-reports.ts'
import { createCustomerBreakers, ofKey } from '../supply/breakers/customer-breakers.ts'
import { createHealth } from '../supply/breakers/health.ts'
import { createCatalogSource } from '../supply/catalog/catalog-source.ts'
import { UpstreamClient } from '../upstreams/upstream-client.ts'
import { createActivity } from '../usage/activity.ts'
import { createCreditReports } from '../usage/credit-reports.ts'
import { createReports } from '../usage/reports.ts'

export interface App {
  readonly server: FastifyInstance
  /** The metrics of this node. */
  readonly metrics: Registry
  /** Sees changes of keys, customers, hosters and prices at once instead of within a second. */
  readonly noticeChanges: () => Promise<void>
  /**
   * Refuses new chats, lets running ones finish for `drainMs`, then ends them with an error chunk; flushes settlements, gives
   * the node's leases back and closes everything. `signal` cuts the drain short. What `onDrained` returns is waited for before the port and its
   * connections are closed.
   */
  close(options: { drainMs: number; signal?: AbortSignal; onDrained?: () => Promise<void> }): Promise<void>
}

export interface ComposeInput {
  readonly config: Config
  readonly connection: Connection
  readonly masterKey: Buffer
  /** Local and cloud offers: configured, detected and the demo. */
  readonly offers: readonly Offer[]
  readonly log: FastifyBaseLogger
  /** Of this package, told to upstreams. */
  readonly version: string
  /** The server lock proves that no other node lives, so leases of former ones can be given back at once. */
  readonly isOnlyNode: boolean
  readonly clock?: Clock
  /** Uniform in [0, 1). */
  readonly random?: () => number
  readonly timeouts?: Partial<NodeTimeouts>
  /** The text of GET /metrics when this node is one of several behind a port; without it, its own metrics. */
  readonly metricsOfAll?: () => Promise<string>
}

export interface NodeTimeouts {
  /** How long the end of an answer waits for its charge to be in the journal, or committed where there is none, before the answer is void and free, ms. */
  readonly commitMs: number
  /** How long a reader may take nothing before it counts as gone, ms. */
  readonly slowReaderMs: number
  /** How long the connections that are left are still answered after a drain, ms. */
  readonly closingGraceMs: number
  /** How often the books are looked at for alerts, ms. */
  readonly alertLookMs: number
}

/** How long clients wait for what is looked up before or after an answer: as long as for a hold. */
const LOOKUP_PATIENCE_MS = 2_000

/** Builds every module once, by hand, and wires them. The only file that knows them all. */
export async function compose(input: ComposeInput): Promise<App> {
  const { config, log, clock = systemClock, random = Math.random } = input
  // What was started last is stopped first, every one of them, also when the others fail or this function does.
  await using started = new AsyncDisposableStack()
  const pools = openPools(input)
  for (const pool of Object.values(pools)) started.defer(() => pool.end())
  const lookups = withQueryTimeout(pools.general, LOOKUP_PATIENCE_MS)
  const scheduler: Scheduler = { ...systemScheduler, ...clock }

  // -- money and limits
  const store = createPostgresStore({ money: pools.money, heartbeat: pools.heartbeat })
  const journals = await openJournals({ root: join(config.dataDir, 'journal'), scheduler, log, ...config.journal })
  const nodeShard = randomInt(32_768)
  const node = await startNode({ store, scheduler, newId: randomUUID, onNewId: journals.addNode, nodeShard, log })
  const ledger = createLedger({
    store,
    node,
    nodeShard,
    scheduler,
    newId: randomUUID,
    journal: config.settlement === 'journal' ? journals.own : null,
    ...(input.timeouts?.commitMs !== undefined && { commitWaitMs: input.timeouts.commitMs }),
    log,
  })
  started.defer(async () => {
    const unsettled = await ledger.drain(10_000)
    failpoint('drain-flushed')
    ledger.stop()
    await node.stop()
    failpoint('drain-before-retire')
    // What is left in the journal is settled by the next start: until then its leases have to stand.
    const retired = unsettled === 0 && (await node.retire())
    if (unsettled > 0)
      log.error({ unsettled, settlement: config.settlement }, 'charges could not be committed before the end')
    failpoint('drain-retired')
    await journals.close({ retired })
  })
  node.listen({ onFenced: ledger.fenced, onRecalled: ledger.recall })
  const replayed = await ledger.replay(journals.recovered)
  // How many were open is not known: a record stays in its file for a while after its charge was committed.
  if (replayed > 0)
    log.info(
      { replayed },
      'made sure that the charges in the journal of an earlier process are committed; perhaps all of them were before',
    )
  failpoint('replay-settled')
  await node.bury(input.isOnlyNode ? 'all' : journals.deadNodes)
  failpoint('replay-buried')
  await journals.settled()
  const readAccount = (customerId: string) => readBalance(lookups, customerId)
  const windows = createWindowView({
    clock,
    read: async (customerId, atMs) => windowCounts(await readAccount(customerId), atMs),
  })
  const earlyLeaves = createEarlyLeaves({ freePerDay: 20, freeSpendBps: 200n, clock })

  // -- supply
  const health = createCustomerBreakers(
    createHealth({ clock, random, onEvent: event => log.info(event, 'the health of an offer changed') }),
    createHealth({
      clock,
      random,
      onEvent: event =>
        log.info({ ...event, ...ofKey(event.offerId) }, 'the health of an offer changed for one customer alone'),
    }),
  )
  const catalog = createCatalogSource({
    configured: input.offers,
    sql: pools.general,
    masterKey: input.masterKey,
    allowPrivateHosters: config.hosters.allowPrivateUrls,
    clock,
    onProblem: problem => log.error(problem),
  })
  await catalog.refresh()
  const publicLookup = createPinnedLookup()
  const upstream = new UpstreamClient({ version: input.version, publicLookup })
  started.defer(() => upstream.close())

  // -- callers
  const changes = watchControlVersions(lookups, {
    onError: error => log.warn({ err: error }, 'changes could not be read; trying again'),
  })
  started.defer(() => changes.stop())
  changes.onChange('supply', () => catalog.refresh())
  const authenticator = createAuthenticator({
    sql: lookups,
    clock,
    limitsOf: tier => limitsOfTier(config, tier),
    onAccessChange: listener => changes.onChange('access', listener),
  })
  started.defer(() => authenticator.close())

  // -- the chat
  const inFlight = createInFlight({ max: config.server.maxInFlight })
  const metrics = createMetrics({
    inFlight: () => inFlight.count,
    settleQueueLength: () => ledger.pending.settlements,
    lastAudit: createLastAuditView({ read: () => readLastAudit(pools.general), scheduler }),
  })
  const noticeOverReport = createOverReports({ clock, log, onOverReport: metrics.overReport })
  const chat: CompleteDeps = {
    admit: {
      catalog: catalog.current,
      health,
      ledger,
      windows,
      clock,
      defaultMaxTokens: config.models.defaultMaxTokens,
    },
    route: { cloudCompetes: config.routing.cloudCompetes },
    affinity: createAffinity({ clock }),
    random,
    dispatch: { upstream, health, clock, attemptsMax: config.routing.attemptsMax },
    settle: {
      ledger,
      clock,
      onSettled: settlement => {
        for (const { provider, outcome } of settlement.attempts) metrics.attempt(provider, outcome)
        if (settlement.provider === 'none') return
        metrics.charge(settlement.provider, settlement)
        noticeOverReport(settlement)
        earlyLeaves.noteCharge(settlement.customerId, settlement.costNanos)
        if (settlement.firstTokenMs !== null) metrics.firstToken(settlement.provider, settlement.firstTokenMs)
      },
    },
    onFault: (requestId, fault) => {
      log.warn({ requestId, err: fault }, 'a request broke after it was admitted')
      if (fault instanceof UpstreamFailure && fault.upstreamMessage !== undefined) {
        log.debug({ requestId, upstreamMessages: [fault.upstreamMessage] }, 'what the servers said')
      }
    },
    isEarlyLeaveCharged: (customerId, inputNanos) => earlyLeaves.isCharged(customerId, inputNanos),
  }

  const claims = createClaims({
    // Those of hosters are the standard ones.
    store: createPostgresClaimStore(
      lookups,
      // A reader may hold each up for as long again.
      2 * Math.max(standardTimeouts.totalMs, ...input.offers.map(offer => offer.endpoint.timeouts.totalMs)),
    ),
    ledgerStore: store,
    nodeShard,
    node,
    scheduler,
    masterKey: input.masterKey,
  })
  started.defer(() => claims.stop())
  const chatOnce = (request: OnceRequest, signal: CancelSignal) => {
    const { caller, job, requestId } = request
    return completeOnce(
      {
        claims,
        complete: watch => complete(withWatch(chat, watch), caller, job, requestId, signal),
        refuseExhausted: () => refuseExhausted(chat.admit, caller, job, requestId),
        count: () => count(chat.admit, caller, job, requestId),
        onFault: chat.onFault,
      },
      request,
    )
  }

  // -- alerts
  const alertWatch = createAlertWatch({
    pool: pools.general,
    scheduler,
    caps: {
      byTier: new Map(Object.entries(config.accountTiers).map(([tier, limits]) => [tier, limits.dailySpendCapNanos])),
      fallback: limitsOfTier(config, 'free').dailySpendCapNanos,
    },
    log,
    ...(input.timeouts?.alertLookMs !== undefined && { everyMs: input.timeouts.alertLookMs }),
  })

  // -- the addresses
  const reports = createReports({
    sql: pools.general,
    clock,
    readBalance: async customerId => (await readAccount(customerId))?.postedNanos ?? 0n,
    readWindows: async (customerId, atMs) => windowCounts(await readAccount(customerId), atMs),
  })
  const creditReports = createCreditReports({
    readCredits: customerId => readCredits(pools.general, customerId),
    listTransactions: (customerId, page) => listTransactions(pools.general, customerId, page),
  })
  const activity = createActivity({ sql: pools.general })
  const keys = createKeyRing(pools.general)
  const endpoints: Endpoint[] = [
    chatCompletions({
      complete: (caller, job, requestId, signal) => complete(chat, caller, job, requestId, signal),
      completeOnce: chatOnce,
      quote: (caller, job, requestId) => quote(chat, caller, job, requestId),
      authenticate: authenticator.authenticate,
      windows,
      onRefused: alertWatch.noteRefusal,
      inFlight,
      bodyLimitBytes: config.server.bodyLimitBytes,
      log,
      clock,
      pingMs: config.server.pingSeconds * 1000,
    }),
    usageSummary({ reports }),
    usageTokens({ reports }),
    usageBreakdown({ reports }),
    usageExport({ reports }),
    credits({ reports: creditReports }),
    creditTransactions({ reports: creditReports }),
    usageRequests({ activity }),
    usageReceipt({ activity }),
    keyShow({ reports }),
    keysList({ keys }),
    keyCreate({ keys, clock, bodyLimitBytes: config.server.bodyLimitBytes }),
    keyDelete({ keys }),
    modelsList({ models: () => catalog.current().models }),
    modelShow({ models: () => catalog.current().models }),
    ...alertEndpoints({
      alerts: createAlerts({
        pool: pools.general,
        masterKey: input.masterKey,
        allowPrivateUrls: config.alerts.allowPrivateUrls,
      }),
      bodyLimitBytes: config.server.bodyLimitBytes,
    }),
    healthz(),
    readyz({ isDraining: () => inFlight.isClosed, pingDatabase: () => lookups.query('SELECT 1') }),
    metricsText({
      contentType: metrics.registry.contentType,
      text: input.metricsOfAll ?? (() => metrics.registry.metrics()),
    }),
    openapi({ endpoints: () => endpoints }),
    ...docs(),
  ]
  const server = createServer({
    endpoints,
    guard: createGuard({
      authenticator,
      reportLimiter: createReportLimiter({ requestsPerMinute: config.reports.requestsPerMinute, clock }),
    }),
    log,
    slowReaderMs: input.timeouts?.slowReaderMs ?? 30_000,
    closingGraceMs: input.timeouts?.closingGraceMs ?? 1_000,
    onResponse: metrics.request,
  })
  const jobs = await startJobs({
    pool: pools.general,
    queuePool: pools.queue,
    auditPool: pools.audit,
    clock,
    alerts: {
      sql: pools.general,
      clock,
      masterKey: input.masterKey,
      mailer: createMailer(config.smtp, log),
      webhooks: { allowPrivate: config.alerts.allowPrivateUrls, publicLookup },
    },
    log,
  })
  started.defer(() => jobs.stop())
  alertWatch.start()
  started.defer(() => alertWatch.stop())
  started.defer(() => server.close())

  const running = started.move()
  return {
    server,
    metrics: metrics.registry,
    noticeChanges: () => changes.poll(),
    async close({ drainMs, signal, onDrained }) {
      inFlight.close()
      await inFlight.idleWithin(drainMs, signal)
      inFlight.abortAll()
      await inFlight.idleWithin(5_000)
      failpoint('drain-idle')
      await onDrained?.()
      await running.disposeAsync()
    },
  }
}

/**
 * Money has its own connections, so that no report makes an admission wait; the heartbeat too, so that a full pool kills no node (and one
 * more for reaping); the audit, because its statements may take minutes.
 */
function openPools({
  config,
  connection,
  log,
}: ComposeInput): Record<'money' | 'general' | 'queue' | 'heartbeat' | 'audit', Pool> {
  const onIdleError = (error: Error) => log.warn({ err: error }, 'a database connection broke')
  const { moneyConnections, generalConnections } = config.postgres
  return {
    money: createPool(connection, { max: moneyConnections, applicationName: 'switchyard money', onIdleError }),
    general: createPool(connection, {
      max: generalConnections,
      applicationName: 'switchyard',
      statementTimeoutMs: 30_000,
      onIdleError,
    }),
    // One listens for new jobs; two take them and put them away.
    queue: createPool(connection, { max: 3, applicationName: 'switchyard jobs', forQueue: true, onIdleError }),
    heartbeat: createPool(connection, { max: 2, applicationName: 'switchyard heartbeat', onIdleError }),
    audit: createPool(connection, { max: 2, applicationName: 'switchyard audit', statementTimeoutMs: 0, onIdleError }),
  }
}

/** The same chat, of which somebody else hears too what a request came to. */
function withWatch(chat: CompleteDeps, watch: SettlementWatch): CompleteDeps {
  return {
    ...chat,
    settle: {
      ...chat.settle,
      onSettled: settlement => {
        chat.settle.onSettled?.(settlement)
        watch.onSettled(settlement)
      },
      onOutcomeUnknown: watch.onOutcomeUnknown,
    },
  }
}
