import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import type { Offer } from '../../base/domain/offer.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Telemetry } from '../../http/telemetry/telemetry.ts'
import { TokenCounter } from '../../wire/tokens/token-counter.ts'
import { tokenizer } from '../../wire/tokens/tokenizer.ts'
import type { Config } from '../config/config.ts'
import { createAgentServer } from './agents.ts'
import { createAlertParts } from './alerts.ts'
import { createAudits } from './audits.ts'
import { startBackgroundWork } from './background-work.ts'
import { startCallers } from './callers.ts'
import { createCells } from './cells.ts'
import { clientTrace } from './client-trace.ts'
import { type ComposeContext, type ComposeInput, createComposeContext } from './compose-context.ts'
import { createConsole } from './console.ts'
import { createContent } from './content.ts'
import { createDatabase } from './database.ts'
import { startGeneration } from './generation.ts'
import { createHttpServer } from './http-server.ts'
import { createLimits } from './limits.ts'
import { startMarketplace } from './marketplace.ts'
import { followKeyRing } from './master-keys.ts'
import { startMoney } from './money.ts'
import { createOperator, startAlarmWatch } from './operator.ts'
import { createPaymentParts } from './payments.ts'
import { createPayoutParts } from './payouts.ts'
import { createPeopleMailParts } from './people-mail.ts'
import { startRequestSamples } from './request-samples.ts'
import { startLearned, startServerReports } from './server-reports.ts'
import { createService } from './service.ts'
import { startSettings } from './settings.ts'
import { startSupply } from './supply.ts'
import { createTrust } from './trust.ts'
import { createUsage } from './usage.ts'

export interface App {
  readonly server: FastifyInstance
  /** The metrics of this node. */
  readonly metrics: Registry
  /** Loads what the first request would otherwise wait for: the tokenizer, here and in its thread. Takes 0.2 s. */
  readonly warmUp: () => void
  /** Replaces the local and cloud offers. Running requests keep those that they began with. */
  readonly setOffers: (offers: readonly Offer[]) => void
  /** Uses the settings of another file as far as they can change while the node runs. */
  readonly setFile: (file: Pick<Config, 'written'>) => void
  /** Reads changes to keys, customers, hosters and prices now, instead of within a second. */
  readonly noticeChanges: () => Promise<void>
  /** From now on `/readyz` answers 503, so that load balancers choose another node. Requests are still served. */
  readonly announceClose: () => void
  /**
   * Refuses chats on new connections, lets running ones finish for `drainMs`, then ends them with an error chunk. After
   * that it commits pending settlements, returns the leases of the node and closes everything. `signal` cuts the
   * drain short. The port and its connections stay open until the promise of `onDrained` resolves.
   */
  close(options: { drainMs: number; signal?: AbortSignal; onDrained?: () => Promise<void> }): Promise<void>
}

/**
 * Builds one node by hand. Each part has its own file, and each feature returns its endpoints: add a feature
 * with a new file, a line that creates it and its name in `features`. Parts stop in the reverse order of their
 * start, even when another part fails to start or to stop.
 */
export async function compose(input: ComposeInput): Promise<App> {
  await using started = new AsyncDisposableStack()
  // Stops last: the last charges end the last spans, and a collector that does not answer must not hold them up.
  let telemetry: Telemetry | null = null
  started.defer(() => telemetry?.close())
  const context = createComposeContext(input, started)
  const database = createDatabase(context)
  const readKeyRing = await followKeyRing(context, database)
  const settings = await startSettings(context, database)
  const money = await startMoney(context, database)
  const limits = createLimits(context, database, money)
  const supply = await startSupply(context, database, money)
  await startLearned(context, database, money, supply)
  const callers = startCallers(context, database, supply, settings)
  callers.changes.onChange('master_key', readKeyRing)
  const addressOf = (request: FastifyRequest) => clientTrace(context.config, request).address
  const peopleMail = createPeopleMailParts(context, database)
  const marketplace = startMarketplace(context, { database, supply, callers, peopleMail, addressOf })
  const alerts = createAlertParts(context, database, supply)
  const service = await createService(context, database, money, supply)
  telemetry = service.telemetry
  const content = createContent(context, database, service)
  const tokens = createTokenCounter(context)
  const samples = startRequestSamples(context, database, callers)
  const generationParts = { database, money, limits, supply, callers, alerts, service, tokens, samples, content }
  const generation = startGeneration(context, generationParts)
  const usage = createUsage(context, { database, money, limits, supply, content })
  const payouts = createPayoutParts(context, database, peopleMail, addressOf)
  const payments = createPaymentParts(context, database, payouts, addressOf)
  const audits = createAudits(context, database, supply, generation.chat, samples)
  await startBackgroundWork(context, { database, alerts, payments, payouts, marketplace, audits, service })
  const trust = createTrust(context, database, supply, addressOf)
  const operator = createOperator(context, {
    settings,
    database,
    content,
    supply,
    callers,
    payments,
    payouts,
    trust,
    marketplace,
    peopleMail,
    addressOf,
  })
  startAlarmWatch(context, database, operator, alerts)
  const consoleParts = createConsole(context, database, callers, operator, peopleMail)
  const features = [
    generation,
    usage,
    callers,
    supply,
    alerts,
    service,
    operator,
    payments,
    payouts,
    marketplace,
    trust,
  ]
  const agentServer = createAgentServer(context, { database, money, supply, callers, marketplace, service })
  startServerReports(context, database, money, supply, agentServer)
  const server = createHttpServer(context, {
    money,
    callers,
    marketplace,
    operator,
    service,
    consoleParts,
    features,
    agentServer,
    responseSockets: generation.responseSockets,
    cellRelay: createCells(context, database, callers, service),
  })

  const { inFlight, metrics } = service
  const running = started.move()
  return {
    server,
    metrics: metrics.registry,
    warmUp() {
      tokens.start()
      tokenizer()
    },
    setOffers: supply.catalog.setConfigured,
    setFile: settings.setFile,
    noticeChanges: () => callers.changes.poll(),
    announceClose: () => inFlight.announceClose(),
    async close({ drainMs, signal, onDrained }) {
      inFlight.close()
      generation.responseSockets.drain()
      const drainedMs = performance.now() + drainMs
      await inFlight.idleWithin(drainMs, signal)
      failpoint('drain-idle')
      await onDrained?.()
      // Proxies and clients may still use connections that they have kept idle.
      if (signal?.aborted !== true) await server.lastCall()
      await inFlight.idleWithin(drainedMs - performance.now(), signal)
      inFlight.abortAll()
      // Not before: the last chats may need an agent.
      agentServer.drain()
      await inFlight.idleWithin(5_000)
      await running.disposeAsync()
    },
  }
}

/** Creates the counter of long texts. Its thread starts with the first of them. */
function createTokenCounter({ timeouts, started }: ComposeContext): TokenCounter {
  const counter = new TokenCounter({ timeoutMs: timeouts.measureTextMs })
  started.defer(() => counter.close())
  return counter
}
