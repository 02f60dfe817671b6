import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { MasterKeys } from '../../base/secrets/master-keys.ts'
import { openSecret, type SecretOwner, sealSecret } from '../../base/secrets/sealed-secret.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { geminiTokenCount } from '../../http/endpoints/gemini-token-count.ts'
import { type GenerationDeps, generationEndpoint } from '../../http/endpoints/generation-endpoint.ts'
import { responseSocket } from '../../http/endpoints/response-socket.ts'
import { type TokenCountsDeps, tokenCounts } from '../../http/endpoints/token-counts.ts'
import { type BodyTurns, createBodyTurns } from '../../http/request-body.ts'
import type { ResponseSocketServer } from '../../http/response-sockets/response-socket-server.ts'
import { type CompleteDeps, complete, type OnServed } from '../../request/chat/complete.ts'
import { quote } from '../../request/chat/quote.ts'
import { createRetryBudget } from '../../request/dispatch/attempt-log.ts'
import { createPseudonyms } from '../../request/dispatch/pseudonyms.ts'
import { createInvalidRequests } from '../../request/limits/request-limits.ts'
import { createAffinity } from '../../request/route/affinity.ts'
import { createModelChoice } from '../../request/route/auto/choose-models.ts'
import type { ChooseModels } from '../../request/route/route.ts'
import { createExpensiveTiers, createOverReports } from '../../request/settle/log-anomalies.ts'
import { ownCost, type SettleDeps } from '../../request/settle/settle.ts'
import { chatDialectWith } from '../../wire/dialects/chat/chat-dialect.ts'
import { addEndpointFields, extraFieldRules } from '../../wire/dialects/chat/upstream-request.ts'
import { completionsDialectWith } from '../../wire/dialects/completions/completions-dialect.ts'
import { embeddingsDialectWith } from '../../wire/dialects/embeddings/embeddings-dialect.ts'
import { embeddingsExtraFields } from '../../wire/dialects/embeddings/embeddings-request.ts'
import { CheckTime } from '../../wire/dialects/fit/check-time.ts'
import { geminiDialectsWith } from '../../wire/dialects/gemini/gemini-dialect.ts'
import { geminiEmbeddingsDialects } from '../../wire/dialects/gemini/gemini-embeddings-dialect.ts'
import { messagesDialectWith } from '../../wire/dialects/messages/messages-dialect.ts'
import { rerankDialectWith } from '../../wire/dialects/rerank/rerank-dialect.ts'
import { rerankExtraFields } from '../../wire/dialects/rerank/rerank-request.ts'
import { compactDialectWith } from '../../wire/dialects/responses/compact-dialect.ts'
import { CompactionSeal } from '../../wire/dialects/responses/compaction-seal.ts'
import { responsesDialectWith } from '../../wire/dialects/responses/responses-dialect.ts'
import { countPromptTokens } from '../../wire/tokens/count-tokens.ts'
import type { TokenCounter } from '../../wire/tokens/token-counter.ts'
import type { Alerts } from './alerts.ts'
import type { Callers } from './callers.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Content } from './content.ts'
import type { Database } from './database.ts'
import { startIdempotency } from './idempotency.ts'
import type { Limits } from './limits.ts'
import type { Money } from './money.ts'
import type { StartedSamples } from './request-samples.ts'
import { createResponseSockets } from './response-sockets.ts'
import type { Service } from './service.ts'
import type { Supply } from './supply.ts'

/** The parts that serve a generation request. */
interface GenerationParts {
  readonly database: Database
  readonly money: Money
  readonly limits: Limits
  readonly supply: Supply
  readonly callers: Callers
  readonly alerts: Alerts
  readonly service: Service
  readonly tokens: TokenCounter
  readonly samples: StartedSamples
  readonly content: Content
}

/** Creates the generation endpoints. They serve requests with and without an Idempotency-Key. */
export function startGeneration(
  context: ComposeContext,
  parts: GenerationParts,
): {
  readonly endpoints: readonly Endpoint[]
  readonly chat: CompleteDeps
  readonly responseSockets: ResponseSocketServer
} {
  const { config, clock, log } = context
  const bodyTurns = createBodyTurns(context.scheduler)
  const chat = createChat(context, parts, bodyTurns)
  const deps: GenerationDeps = {
    complete: (request, events) => complete(chat, request, events),
    completeOnce: startIdempotency(context, {
      chat,
      database: parts.database,
      money: parts.money,
      supply: parts.supply,
    }),
    quote: (caller, job, requestId) => quote(chat, caller, job, requestId),
    authenticate: parts.callers.authenticator.authenticate,
    windows: parts.limits.windows,
    onRefused: parts.alerts.watch.noteRefusal,
    onError: parts.service.metrics.refusal,
    accessLog: parts.service.accessLog,
    telemetry: parts.service.telemetry,
    allowedHosts: parts.service.allowedHosts,
    inFlight: parts.service.inFlight,
    bodyTurns,
    invalidRequests: createInvalidRequests({ clock }),
    bodyLimitBytes: config.server.bodyLimitBytes,
    log,
    clock,
    pingMs: config.server.pingSeconds * 1000,
  }
  // A provider that is added while the gateway runs may name more fields.
  const rulesWith = (selfHosted?: readonly string[]) => {
    const rules = extraFieldRules(config.chat.forwardFields, selfHosted)
    parts.supply.catalog.onOwnOffers(offers => {
      for (const { endpoint } of offers) addEndpointFields(rules, endpoint.dialect.forwardFields)
    })
    return rules
  }
  const compactions = createCompactionSeal(context.masterKeys)
  const counts: TokenCountsDeps = {
    count: async (facts, customerId) =>
      countPromptTokens(facts, (await parts.tokens.measure(facts.promptText(), customerId)) ?? undefined),
    inFlight: parts.service.inFlight,
    bodyTurns,
    hasModel: id => parts.supply.catalog.current().models.has(id),
    bodyLimitBytes: config.server.bodyLimitBytes,
    compactions,
  }
  const responsesDialect = responsesDialectWith(rulesWith(), compactions)
  return {
    chat,
    responseSockets: createResponseSockets(context, parts, deps, responsesDialect),
    endpoints: [
      ...[
        chatDialectWith(rulesWith()),
        responsesDialect,
        compactDialectWith(rulesWith(), compactions),
        messagesDialectWith({ rules: rulesWith(), countInput: job => countPromptTokens(job, job.promptLength) }),
        completionsDialectWith(rulesWith()),
        embeddingsDialectWith(rulesWith(embeddingsExtraFields)),
        ...geminiDialectsWith(rulesWith()),
        ...geminiEmbeddingsDialects,
        rerankDialectWith(rulesWith(rerankExtraFields)),
      ].map(dialect => generationEndpoint(deps, dialect)),
      responseSocket(),
      ...tokenCounts(counts),
      geminiTokenCount(counts),
    ],
  }
}

function createCompactionSeal(masterKeys: MasterKeys): CompactionSeal {
  const keys = masterKeys.derived('compacted conversations')
  const owner: SecretOwner = { ownerId: 'client', purpose: 'compaction' }
  return new CompactionSeal({
    seal: text => sealSecret(keys, text, owner),
    open: sealed => openSecret(keys, sealed, owner),
  })
}

function createChat(context: ComposeContext, parts: GenerationParts, { noteWork }: BodyTurns): CompleteDeps {
  const { config, clock, random, log, masterKeys } = context
  const { ledger } = parts.money
  const { catalog, breakers: health, upstream, newcomers } = parts.supply
  const { windows, earlyDisconnects } = parts.limits
  const measureText = parts.tokens.measure
  const { telemetry } = parts.service
  return {
    admit: {
      catalog: catalog.current,
      health,
      ledger,
      windows,
      clock,
      measureText,
      get defaultMaxTokens() {
        return config.models.defaultMaxTokens
      },
      get creditWaitMs() {
        return config.limits.creditWaitMs
      },
    },
    measureText,
    route: {
      get cloudCompetes() {
        return config.routing.cloudCompetes
      },
      priceLimits: config.routing.priceLimits,
      newcomer: newcomers.standing,
      auto: createAutoChoice(context),
    },
    affinity: createAffinity({ clock }),
    random,
    dispatch: {
      upstream,
      health,
      clock,
      get attemptsMax() {
        return config.routing.attemptsMax
      },
      retryBudget: createRetryBudget({ clock }),
      pseudonymise: createPseudonyms(masterKeys.derived('pseudonyms for hosters')),
      noteWork,
      checkTime: new CheckTime(clock),
      ...(telemetry !== null && { traces: telemetry }),
      ...(config.trust.audits && { noteShared: parts.samples.onSent }),
    },
    ...(telemetry !== null && { traceIdOf: telemetry.traceIdOf }),
    settle: { ledger, clock, onSettled: createSettlementListener(context, parts) },
    onFault: (requestId, fault) => {
      const traceId = telemetry?.traceIdOf(requestId) ?? undefined
      log.warn({ requestId, traceId, err: fault }, 'a request failed after it was admitted')
      if (fault instanceof UpstreamFailure && fault.upstreamMessage !== undefined) {
        log.debug({ requestId, upstreamMessages: [fault.upstreamMessage] }, 'upstream error messages')
      }
    },
    ...onServedOf(config.trust.audits ? parts.samples.onServed : null, parts.content.onServed),
    noteEarlyDisconnect: (customerId, inputNanos) => earlyDisconnects.noteDisconnect(customerId, inputNanos),
  }
}

/** Most gateways have one listener or none, and most requests need no object for it. */
function onServedOf(first: OnServed | null, second: OnServed | null): Pick<CompleteDeps, 'onServed'> {
  if (first === null || second === null) {
    const only = first ?? second
    return only === null ? {} : { onServed: only }
  }
  return {
    onServed(request, ticket, receipt, generated) {
      first(request, ticket, receipt, generated)
      second(request, ticket, receipt, generated)
    },
  }
}

/** Without figures, the models of `auto` form one pool. */
function createAutoChoice({ config, log, clock }: ComposeContext): ChooseModels | undefined {
  let loggedAtMs = -Infinity
  return createModelChoice(config.routing.auto, fault => {
    const nowMs = clock.monotonicMs()
    if (nowMs < loggedAtMs + FAULTS_LOGGED_EVERY_MS) return
    loggedAtMs = nowMs
    log.error({ err: fault }, 'the choice of a model failed: its servers are ranked as without it')
  })
}

const FAULTS_LOGGED_EVERY_MS = 60_000

/** Passes each settlement to the metrics, the charges of offers, the checks of reports and tiers, and the early-disconnect allowance. */
function createSettlementListener(
  { clock, log }: ComposeContext,
  { service: { metrics, accessLog, telemetry }, limits: { earlyDisconnects }, supply: { charges } }: GenerationParts,
): NonNullable<SettleDeps['onSettled']> {
  const noticeOverReport = createOverReports({ clock, log, onOverReport: metrics.overReport })
  const noticeExpensiveTier = createExpensiveTiers({ clock, log })
  return (settlement, receipt, job) => {
    metrics.settled(settlement, receipt)
    accessLog?.settled(settlement)
    telemetry?.settled(settlement, receipt, job)
    if (settlement.provider === 'none') return
    if (receipt.offer !== null)
      charges.add(receipt.offer.offerId, { costNanos: settlement.costNanos, ownCostNanos: ownCost(receipt) })
    if (settlement.hosterId !== null) noticeOverReport(settlement)
    if (settlement.provider === 'cloud') noticeExpensiveTier(settlement, receipt)
    earlyDisconnects.noteCharge(settlement.customerId, settlement.costNanos)
  }
}
