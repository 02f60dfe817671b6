import { randomUUIDv7 } from 'node:crypto'
import { type CompleteDeps, complete } from '../../chat/complete.ts'
import type { EventSink } from '../../chat/completion-request.ts'
import { chatDialect } from '../../dialects/chat/chat-dialect.ts'
import type { Caller } from '../../domain/caller.ts'
import { ApiError } from '../../domain/errors.ts'
import { uncounted } from '../../runtime/byte-budget.ts'
import { CancelSource } from '../../runtime/cancel-signal.ts'
import { createCustomerBreakers } from '../../supply/breakers/customer-breakers.ts'
import { createHealth } from '../../supply/breakers/health.ts'
import { buildCatalog } from '../../supply/catalog/catalog.ts'
import type { AskOffer } from '../../trust/audits/ask-offer.ts'
import type { AuditDeps } from '../../trust/audits/audit-hoster.ts'
import { houseCallers } from '../../trust/audits/house-customers.ts'
import { readAnswer } from '../../trust/audits/read-answer.ts'
import { createRelatedCustomers } from '../../trust/audits/related-customers.ts'
import type { RequestSamples } from '../../trust/audits/request-samples.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Supply } from './supply.ts'

/** How often the accounts that pay for audits are looked up and filled, ms. */
const HOUSE_EVERY_MS = 3_600_000

/** Creates what audits of hosters need; null where the configuration switches them off. */
export function createAudits(
  context: ComposeContext,
  { general, desk }: Database,
  { catalog }: Supply,
  chat: CompleteDeps,
  { shared, manners }: RequestSamples,
): (AuditDeps & { readonly meanPauseMs: number }) | null {
  const { config, clock, random } = context
  if (!config.trust.audits) return null
  return {
    pool: general,
    clock,
    random,
    offers: () => catalog.current().offers,
    ask: createAskOffer(context, desk, chat),
    references: config.trust.references,
    ownCanaries: config.trust.canaries,
    shared,
    manners,
    relatedCustomers: createRelatedCustomers(general, clock),
    meanPauseMs: config.trust.auditMinutes * 60_000,
  }
}

/**
 * Sends requests of the gateway through the conductor of all requests, with a catalog that has one offer. So the hoster sees what
 * it sees of customers, and is paid as usual.
 */
function createAskOffer(
  { clock, random, evidence, log, started }: ComposeContext,
  desk: Database['desk'],
  { onServed: _, ...chat }: CompleteDeps,
): AskOffer {
  // Audits have a health of their own, so they neither move latencies, breakers and the public uptime, nor wait for them.
  const health = createCustomerBreakers(createHealth({ clock, random }), createHealth({ clock, random }))
  const stopping = new CancelSource()
  started.defer(() => stopping.abort(new ApiError('server_shutdown')))
  let house: readonly Caller[] = []
  let houseUntilMs = -Infinity
  const callerOf = async () => {
    if (clock.monotonicMs() >= houseUntilMs) {
      house = await houseCallers(desk, evidence)
      houseUntilMs = clock.monotonicMs() + HOUSE_EVERY_MS
    }
    return house[Math.floor(random() * house.length)]!
  }
  return async (offer, body) => {
    const caller = await callerOf()
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
    try {
      const admit = { ...chat.admit, health, catalog: () => only }
      const dispatch = { ...chat.dispatch, health }
      const served = await complete({ ...chat, admit, dispatch }, request, sink)
      return readAnswer(served.whole?.body ?? events)
    } catch (error) {
      // A server that fails is not audited. A bug is not hidden: `complete` reports it.
      if (!(error instanceof ApiError)) throw error
      log.debug({ offerId: offer.offerId, code: error.code }, 'an audit got no answer')
      return null
    }
  }
}
