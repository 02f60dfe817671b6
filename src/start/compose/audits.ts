import { randomUUIDv7 } from 'node:crypto'
import { type CompleteDeps, complete } from '../../chat/complete.ts'
import type { EventSink } from '../../chat/completion-request.ts'
import { unsentFields } from '../../chat/running-ticket.ts'
import { chatDialect } from '../../dialects/chat/chat-dialect.ts'
import type { Pseudonymise } from '../../dispatch/pseudonyms.ts'
import type { Caller } from '../../domain/caller.ts'
import type { ChatJob } from '../../domain/chat-job.ts'
import { ApiError } from '../../domain/errors.ts'
import type { Offer } from '../../domain/offer.ts'
import type { TaskDeps } from '../../jobs/create-tasks.ts'
import { uncounted } from '../../runtime/byte-budget.ts'
import { CancelSource } from '../../runtime/cancel-signal.ts'
import { buildCatalog } from '../../supply/catalog/catalog.ts'
import { tokenizer } from '../../tokens/tokenizer.ts'
import type { AskedAnswer, BeginVisit } from '../../trust/audits/ask-offer.ts'
import { createAuditor, isReference, peersOf } from '../../trust/audits/audit-hoster.ts'
import { BackgroundAudits } from '../../trust/audits/background-audits.ts'
import { drawGapMs } from '../../trust/audits/draw-manners.ts'
import { houseCallers } from '../../trust/audits/house-customers.ts'
import { readAnswer } from '../../trust/audits/read-answer.ts'
import { createRelatedCustomers } from '../../trust/audits/related-customers.ts'
import type { RequestSamples } from '../../trust/audits/request-samples.ts'
import { createShadow } from '../../trust/audits/shadow.ts'
import { isMeaningful } from '../../trust/audits/shared-body.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Supply } from './supply.ts'

/** How often the accounts that pay for audits are looked up and filled, ms. */
const HOUSE_EVERY_MS = 3_600_000
/** So many of the accounts pay for comparisons with answers to customers: those never use up what other audits need. */
const SHADOW_ACCOUNTS = 3

/** Creates what audits of hosters need; null where the configuration switches them off. */
export function createAudits(
  context: ComposeContext,
  { general, desk }: Database,
  { catalog }: Supply,
  chat: CompleteDeps,
  samples: RequestSamples,
): TaskDeps['audits'] {
  const { config, clock, random, scheduler, timeouts, log, started } = context
  const { trust } = config
  if (!trust.audits) return null
  const stopping = new CancelSource()
  const house = createHouse(context, desk)
  const send = createSender(chat, stopping)
  const peers = { offers: () => catalog.current().offers, references: trust.references }
  const mannersDeps = { manners: samples.manners, random }
  const relatedCustomers = createRelatedCustomers(general, clock)
  const shadow = createShadow({
    ...{ pool: general, clock, random, log, relatedCustomers, isAskedAlike },
    pauseMs: trust.shadowSeconds * 1_000,
    referenceOf: offer => peersOf(peers, offer).reference,
    async ask(offer, body) {
      const callers = (await house()).slice(0, SHADOW_ACCOUNTS)
      return send(callers[Math.floor(random() * callers.length)]!, offer, body, null)
    },
  })
  if (trust.shadowSeconds > 0) samples.listen(shadow.onServed)
  const auditor = createAuditor({
    ...{ pool: general, clock, ...peers, ...mannersDeps, relatedCustomers },
    beginVisit: createVisits(context, house, send),
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
      ...{ nowMs: clock.epochMs(), meanPauseMs: trust.auditMinutes * 60_000, random },
      ...{ drawGapMs: () => drawGapMs(mannersDeps), referenceModels: referenceModels() },
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

function createVisits({ log }: ComposeContext, house: () => Promise<readonly Caller[]>, send: Sender): BeginVisit {
  let visits = 0
  const nextCaller = async () => {
    const callers = (await house()).slice(SHADOW_ACCOUNTS)
    // In turns: a connection is kept for a minute, and requests of two visits must not meet on it.
    return callers[visits++ % callers.length]!
  }
  return pseudonymsOf => {
    let caller: Promise<Caller> | undefined
    return async (offer, body) => {
      caller ??= nextCaller()
      try {
        return await send(await caller, offer, body, pseudonymsOf)
      } catch (error) {
        // A server that fails is not audited. A bug is not hidden: `complete` reports it.
        if (!(error instanceof ApiError)) throw error
        log.debug({ offerId: offer.offerId, code: error.code }, 'an audit got no answer')
        return null
      }
    }
  }
}

/**
 * Sends a chat request to one offer. Rejects with ApiError.
 *
 * @param pseudonymsOf the customer whose pseudonyms a hoster sees; null: those of the caller
 */
type Sender = (caller: Caller, offer: Offer, body: object, pseudonymsOf: string | null) => Promise<AskedAnswer>

/**
 * Sends requests of the gateway through the conductor of all requests, with a catalog that has one offer. So the hoster sees what
 * it sees of customers, and is paid as usual.
 */
function createSender({ onServed: _, ...chat }: CompleteDeps, stopping: CancelSource): Sender {
  return async (caller, offer, body, pseudonymsOf) => {
    const job = chatDialect.parseRequest(Buffer.from(JSON.stringify({ model: offer.modelId, ...body })))
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
    }
    const pseudonymise: Pseudonymise = (of, endpoint, customerId) =>
      chat.dispatch.pseudonymise(of, endpoint, pseudonymsOf ?? customerId)
    // With the health of all requests: a hoster sees how many run, their latency and their counts, and one that moves none would be an audit.
    const admit = { ...chat.admit, catalog: () => only }
    const dispatch = { ...chat.dispatch, pseudonymise }
    const served = await complete({ ...chat, admit, dispatch }, request, sink)
    return readAnswer(served.whole?.body ?? events)
  }
}
