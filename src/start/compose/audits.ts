import { randomUUIDv7 } from 'node:crypto'
import { type CompleteDeps, complete } from '../../chat/complete.ts'
import type { EventSink } from '../../chat/completion-request.ts'
import { unsentFields } from '../../chat/running-ticket.ts'
import { chatDialect } from '../../dialects/chat/chat-dialect.ts'
import type { Caller } from '../../domain/caller.ts'
import type { ChatJob } from '../../domain/chat-job.ts'
import { ApiError } from '../../domain/errors.ts'
import type { Offer } from '../../domain/offer.ts'
import { uncounted } from '../../runtime/byte-budget.ts'
import { CancelSource } from '../../runtime/cancel-signal.ts'
import { createCustomerBreakers } from '../../supply/breakers/customer-breakers.ts'
import { createHealth } from '../../supply/breakers/health.ts'
import { buildCatalog } from '../../supply/catalog/catalog.ts'
import type { AskedAnswer, AskOffer } from '../../trust/audits/ask-offer.ts'
import { type AuditDeps, peersOf } from '../../trust/audits/audit-hoster.ts'
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
): (AuditDeps & { readonly meanPauseMs: number }) | null {
  const { config, clock, random, log, started } = context
  if (!config.trust.audits) return null
  const stopping = new CancelSource()
  const send = createSender(context, desk, chat, stopping)
  const peers = { offers: () => catalog.current().offers, references: config.trust.references }
  const relatedCustomers = createRelatedCustomers(general, clock)
  const shadow = createShadow({
    ...{ pool: general, clock, random, log, relatedCustomers, isAskedAlike },
    pauseMs: config.trust.shadowSeconds * 1_000,
    referenceOf: offer => peersOf(peers, offer).reference,
    ask: (offer, body) => send(offer, body, callers => callers.slice(0, SHADOW_ACCOUNTS)),
  })
  if (config.trust.shadowSeconds > 0) samples.listen(shadow.onServed)
  started.defer(async () => {
    stopping.abort(new ApiError('server_shutdown'))
    await shadow.stop()
  })
  return {
    pool: general,
    clock,
    random,
    ...peers,
    ask: createAskOffer(context, send),
    ownCanaries: config.trust.canaries,
    shared: samples.shared,
    manners: samples.manners,
    relatedCustomers,
    meanPauseMs: config.trust.auditMinutes * 60_000,
  }
}

/** Whether both servers get the same of what the answer depends on. */
function isAskedAlike(job: ChatJob, offer: Offer, reference: Offer): boolean {
  const unsent = new Set(unsentFields(job, offer))
  return unsentFields(job, reference).every(field => unsent.has(field) || !isMeaningful(field))
}

function createAskOffer({ log }: ComposeContext, send: Sender): AskOffer {
  return async (offer, body) => {
    try {
      return await send(offer, body, callers => callers.slice(SHADOW_ACCOUNTS))
    } catch (error) {
      // A server that fails is not audited. A bug is not hidden: `complete` reports it.
      if (!(error instanceof ApiError)) throw error
      log.debug({ offerId: offer.offerId, code: error.code }, 'an audit got no answer')
      return null
    }
  }
}

/** Sends a chat request to one offer. Rejects with ApiError. */
type Sender = (
  offer: Offer,
  body: object,
  payers: (house: readonly Caller[]) => readonly Caller[],
) => Promise<AskedAnswer>

/**
 * Sends requests of the gateway through the conductor of all requests, with a catalog that has one offer. So the hoster sees what
 * it sees of customers, and is paid as usual.
 */
function createSender(
  { clock, random, evidence }: ComposeContext,
  desk: Database['desk'],
  { onServed: _, ...chat }: CompleteDeps,
  stopping: CancelSource,
): Sender {
  // Audits have a health of their own, so they neither move latencies, breakers and the public uptime, nor wait for them.
  const health = createCustomerBreakers(createHealth({ clock, random }), createHealth({ clock, random }))
  let house: readonly Caller[] = []
  let houseUntilMs = -Infinity
  const houseNow = async () => {
    if (clock.monotonicMs() >= houseUntilMs) {
      house = await houseCallers(desk, evidence)
      houseUntilMs = clock.monotonicMs() + HOUSE_EVERY_MS
    }
    return house
  }
  return async (offer, body, payers) => {
    const callers = payers(await houseNow())
    const caller = callers[Math.floor(random() * callers.length)]!
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
    const admit = { ...chat.admit, health, catalog: () => only }
    const dispatch = { ...chat.dispatch, health }
    const served = await complete({ ...chat, admit, dispatch }, request, sink)
    return readAnswer(served.whole?.body ?? events)
  }
}
