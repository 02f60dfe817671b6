import { randomUUIDv7 } from 'node:crypto'
import type { Caller } from '../../base/domain/caller.ts'
import { type ChatJob, expectedInputTokens } from '../../base/domain/chat-job.ts'
import { HOUR_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { billedCost, type Nanos } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { outputCap } from '../../base/domain/request-bounds.ts'
import { CancelSource } from '../../base/runtime/cancel-signal.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { TaskDeps } from '../../jobs/create-tasks.ts'
import { buildCatalog } from '../../market/supply/catalog/catalog.ts'
import type { AskedAnswer, BeginVisit } from '../../market/trust/audits/ask-offer.ts'
import { createAuditor, isReference, peersOf } from '../../market/trust/audits/audit-hoster.ts'
import { BackgroundAudits } from '../../market/trust/audits/background-audits.ts'
import { type CustomerShares, createCustomerShares, type NoteCost } from '../../market/trust/audits/customer-shares.ts'
import { drawGapMs } from '../../market/trust/audits/draw-manners.ts'
import { DAY_NANOS, HOUSE_CUSTOMERS, houseCallers } from '../../market/trust/audits/house-customers.ts'
import { readAnswer } from '../../market/trust/audits/read-answer.ts'
import { createRelatedCustomers } from '../../market/trust/audits/related-customers.ts'
import { createShadow } from '../../market/trust/audits/shadow.ts'
import { isMeaningful } from '../../market/trust/audits/shared-body.ts'
import { createRelatedHosters } from '../../market/trust/related-hosters.ts'
import { type CompleteDeps, complete } from '../../request/chat/complete.ts'
import type { EventSink } from '../../request/chat/completion-request.ts'
import { unsentFields } from '../../request/chat/running-ticket.ts'
import type { Pseudonymise } from '../../request/dispatch/pseudonyms.ts'
import { chatDialect } from '../../wire/dialects/chat/chat-dialect.ts'
import { tokenizer } from '../../wire/tokens/tokenizer.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { StartedSamples } from './request-samples.ts'
import type { Supply } from './supply.ts'

/** How often the accounts that pay for audits are looked up and filled, ms. */
const HOUSE_EVERY_MS = HOUR_MS
/** So many of the accounts pay for comparisons with answers to customers: those never use up what other audits need. */
const SHADOW_ACCOUNTS = 3

/** Creates what audits of hosters need; null where the configuration switches them off. */
export function createAudits(
  context: ComposeContext,
  { general, desk }: Database,
  { catalog, health }: Supply,
  chat: CompleteDeps,
  samples: StartedSamples,
): TaskDeps['audits'] {
  const { config, clock, random, scheduler, timeouts, log, started } = context
  const { trust } = config
  if (!trust.audits) return null
  const stopping = new CancelSource()
  const house = createHouse(context, desk)
  const estimateNanos = createEstimate(chat.admit.defaultMaxTokens)
  const paid = { pool: general, clock }
  const shadowNanos = BigInt(SHADOW_ACCOUNTS) * DAY_NANOS
  const shadowShares = createCustomerShares({
    ...paid,
    purpose: 'shadow',
    dayNanos: shadowNanos,
    togetherNanos: shadowNanos,
  })
  const replayNanos = BigInt(HOUSE_CUSTOMERS - SHADOW_ACCOUNTS) * DAY_NANOS
  const shares = createCustomerShares({
    ...paid,
    purpose: 'replay',
    dayNanos: replayNanos,
    // The rest is for prompts of the gateway.
    togetherNanos: replayNanos / 2n,
  })
  const send = createSender(chat, stopping)
  const peers = {
    offers: () => catalog.current().offers,
    references: trust.references,
    isAway: ({ offerId }: Offer) => health.shared.state(offerId) === 'ejected',
  }
  const mannersDeps = { manners: samples.manners, random }
  const relatedCustomers = createRelatedCustomers(general, clock)
  const shadow = createShadow({
    pool: general,
    clock,
    random,
    log,
    relatedCustomers,
    isAskedAlike,
    pauseMs: trust.shadowSeconds * 1_000,
    referenceOf: offer => peersOf(peers, offer).reference,
    ask: (customerId, offer, body) =>
      shadowShares.pay(customerId, estimateNanos(offer, body), async noteCost => {
        const callers = (await house()).slice(0, SHADOW_ACCOUNTS)
        const first = Math.floor(random() * callers.length)
        const inTurn = [...callers.slice(first), ...callers.slice(0, first)]
        return withCredit(inTurn, caller => send(caller, offer, body, { pseudonymsOf: null, noteCost }))
      }),
  })
  if (trust.shadowSeconds > 0) samples.listen(shadow.onServed)
  const auditor = createAuditor({
    pool: general,
    clock,
    ...peers,
    ...mannersDeps,
    relatedCustomers,
    relatedHosters: createRelatedHosters(general),
    estimateNanos,
    shares,
    seen: samples.seen,
    beginVisit: createVisits(context, { house, send, shares, estimateNanos }),
    ownCanaries: trust.canaries,
    shared: samples.shared,
    corpus: trust.corpus,
    drawWords: count => tokenizer().drawWords(count, random),
  })
  const { auditPauseMsMax: pauseMsMax = Infinity } = timeouts
  const background = new BackgroundAudits(auditor, { after: scheduler.after, pauseMsMax, log })
  started.defer(async () => {
    stopping.abort(new ApiError('server_shutdown'))
    await Promise.all([shadow.stop(), background.stop()])
  })
  const referenceModels = () => {
    const references = catalog.current().offers.filter(offer => isReference(offer, trust.references))
    return [...new Set(references.map(({ modelId }) => modelId))]
  }
  return {
    start: endpointId => background.start(endpointId),
    schedule: () => ({
      nowMs: clock.epochMs(),
      meanPauseMs: trust.auditMinutes * MINUTE_MS,
      random,
      drawGapMs: () => drawGapMs(mannersDeps),
      referenceModels: referenceModels(),
    }),
  }
}

/** Whether both servers get the same of what the answer depends on. */
function isAskedAlike(job: ChatJob, offer: Offer, reference: Offer): boolean {
  const unsent = (to: Offer) => unsentFields(job, to).filter(isMeaningful).sort().join()
  return unsent(offer) === unsent(reference)
}

function createHouse({ clock, evidence }: ComposeContext, desk: Database['desk']): () => Promise<readonly Caller[]> {
  let house: readonly Caller[] = []
  let houseUntilMs = -Infinity
  return async () => {
    if (clock.monotonicMs() >= houseUntilMs) {
      house = await houseCallers(desk, evidence)
      houseUntilMs = clock.monotonicMs() + HOUSE_EVERY_MS
    }
    return house
  }
}

/** Sends on the first account that has the credit. One account that is used up must not end what the others can pay. */
async function withCredit<Answer>(
  callers: readonly Caller[],
  send: (caller: Caller) => Promise<Answer>,
): Promise<Answer> {
  for (const [index, caller] of callers.entries()) {
    try {
      return await send(caller)
    } catch (error) {
      const isWithoutCredit = error instanceof ApiError && error.row.status === 402
      if (!isWithoutCredit || index === callers.length - 1) throw error
    }
  }
  throw new ApiError('insufficient_credits')
}

/** Estimates what a chat request costs at most, by the likely length of its prompt. */
function createEstimate(defaultMaxTokens: number): (offer: Offer, body: object) => Nanos {
  return (offer, body) => {
    const job = chatJobOf(offer, body)
    const outputTokens = outputCap(offer, job, job.maxTokens ?? defaultMaxTokens)
    return billedCost(offer.price, expectedInputTokens(job), outputTokens, null).nanos
  }
}

function chatJobOf(offer: Offer, body: object): ChatJob {
  return chatDialect.parseRequest(Buffer.from(JSON.stringify({ model: offer.modelId, ...body })))
}

interface VisitDeps {
  readonly house: () => Promise<readonly Caller[]>
  readonly send: Sender
  readonly shares: CustomerShares
  readonly estimateNanos: (offer: Offer, body: object) => Nanos
}

function createVisits({ log }: ComposeContext, { house, send, shares, estimateNanos }: VisitDeps): BeginVisit {
  let visits = 0
  const nextCaller = async () => {
    const callers = (await house()).slice(SHADOW_ACCOUNTS)
    // In turns: a connection is kept for a minute, and requests of two visits must not meet on it.
    return elementAt(callers, visits++ % callers.length)
  }
  return sharedBy => {
    let caller: Promise<Caller> | undefined
    return async (offer, body) => {
      caller ??= nextCaller()
      try {
        const visitor = await caller
        if (sharedBy === null) return await send(visitor, offer, body, { pseudonymsOf: null })
        return await shares.pay(sharedBy, estimateNanos(offer, body), noteCost =>
          send(visitor, offer, body, { pseudonymsOf: sharedBy, noteCost }),
        )
      } catch (error) {
        // A server that fails is not audited. A bug is not hidden: `complete` reports it.
        if (!(error instanceof ApiError)) throw error
        log.debug({ offerId: offer.offerId, code: error.code }, 'an audit got no answer')
        return null
      }
    }
  }
}

interface SendOptions {
  /** The customer whose pseudonyms a hoster sees; null: those of the caller. */
  readonly pseudonymsOf: string | null
  readonly noteCost?: NoteCost
}

/** Sends a chat request to one offer. Rejects with ApiError. */
type Sender = (caller: Caller, offer: Offer, body: object, options: SendOptions) => Promise<AskedAnswer>

/**
 * Sends requests of the gateway through the conductor of all requests, with a catalog that has one offer. So the hoster
 * sees what it sees of customers, and is paid as usual.
 */
function createSender({ onServed: _, ...chat }: CompleteDeps, stopping: CancelSource): Sender {
  return async (caller, offer, body, { pseudonymsOf, noteCost }) => {
    const job = chatJobOf(offer, body)
    const only = buildCatalog([offer], () => 0)
    let events = ''
    const sink: EventSink = {
      open: async () => {},
      write(text) {
        events += text
      },
    }
    const request = {
      caller,
      job,
      requestId: randomUUIDv7(),
      dialect: chatDialect,
      signal: stopping,
      memory: uncounted,
      ...(noteCost && {
        watch: {
          onSettled: ({ costNanos }: { costNanos: Nanos }) => noteCost(costNanos),
          onOutcomeUnknown: () => noteCost(null),
        },
      }),
    }
    const pseudonymise: Pseudonymise = (of, hosterId, customerId) =>
      chat.dispatch.pseudonymise(of, hosterId, pseudonymsOf ?? customerId)
    // With the health of all requests: a hoster sees how many run, their latency and their counts, and one that moves
    // none would be an audit.
    const admit = { ...chat.admit, catalog: () => only }
    const dispatch = { ...chat.dispatch, pseudonymise }
    const served = await complete({ ...chat, admit, dispatch }, request, sink)
    return readAnswer(served.whole?.body ?? events)
  }
}
