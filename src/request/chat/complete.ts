import { AUTO_MODEL, type ChatJob, fitOf } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Answer, Receipt, Ticket } from '../../base/domain/handoff.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { clampAt } from '../../base/domain/request-bounds.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import { type AdmitDeps, admit } from '../admit/admit.ts'
import { type DispatchDeps, dispatch } from '../dispatch/dispatch.ts'
import { relayStream, toClientError } from '../relay/relay-stream.ts'
import { type RelayContext, type RelayedAnswer, relayData, relayWhole } from '../relay/relay-whole.ts'
import type { Affinity } from '../route/affinity.ts'
import { type RankedPlan, type RouteView, route } from '../route/route.ts'
import type { CompletionRequest, EventSink, Served, ServedBy } from './completion-request.ts'
import { changedFields, RunningTicket, type RunningTicketDeps, unsentFields } from './running-ticket.ts'

export interface CompleteDeps extends RunningTicketDeps {
  readonly admit: AdmitDeps
  readonly route: Omit<RouteView, 'health' | 'stickyOfferId' | 'stickyModelId'>
  readonly affinity: Affinity
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly dispatch: DispatchDeps
  readonly onServed?: OnServed
}

/**
 * Notified of each answer that was delivered whole and is settled. Must not wait. It takes no object of its own, because
 * most requests need none.
 *
 * @param generated `text` returns all generated text: reasoning, content, and calls of tools; `parts` the same, apart
 */
export type OnServed = (
  request: CompletionRequest,
  ticket: Ticket,
  receipt: Receipt,
  generated: Pick<RelayedAnswer, 'text' | 'parts'>,
) => void

/**
 * The conductor: every step of a generation request, in order. Steps pass on immutable values and do not know
 * each other. From the ticket on, every path ends in exactly one settlement, whatever throws; after a crash
 * the reaper settles.
 *
 * Resolves when a whole answer is ready to be sent, or when a stream has ended. Throws ApiError, and whatever
 * `events` throws.
 */
export async function complete(deps: CompleteDeps, request: CompletionRequest, events: EventSink): Promise<Served> {
  const { caller, job, requestId, dialect, signal, memory } = request
  const ticket = await admit(deps.admit, caller, job, requestId, signal)
  const running = new RunningTicket(deps, request, ticket)
  let answer: Answer
  let context: RelayContext
  try {
    const plan = planFor(deps, ticket, job, running)
    answer = await dispatch(deps.dispatch, plan, job, { signal, memory })
    failpoint('dispatch-answered')
    const { offer } = answer
    if (plan.hasChoice) deps.affinity.remember(caller.customerId, job, offer.offerId)
    const { measureText } = deps
    context = {
      ticket,
      job,
      dialect,
      signal,
      memory,
      measureText,
      keepsParts: caller.access.recordsContent,
      chargeEarlyDisconnect: () => running.chargeEarlyDisconnect(offer),
    }
    if (answer.kind !== 'stream') {
      const relaying = answer.kind === 'data' ? relayData(context, answer) : relayWhole(context, answer)
      const relayed = relaying instanceof Promise ? await relaying : relaying
      const { receipt } = relayed
      const costNanos = await running.settle(receipt)
      if (receipt.outcome === 'served') notifyServed(deps, running, request, ticket, receipt, relayed)
      return { servedBy: servedBy(ticket, job, offer), whole: { body: relayed.body(costNanos), costNanos } }
    }
  } catch (failure) {
    await running.settleFailure(failure)
    throw failure
  }

  const encoder = dialect.stream.encoder(answer.envelope, job, memory)
  try {
    await events.open(servedBy(ticket, job, answer.offer))
    const relayed = await relayStream(context, answer, encoder, events.write)
    if (relayed.receipt.outcome === 'interrupted') running.reportFault(relayed.failure)
    // The last events are sent once the charge is in the journal, or committed.
    const last = await running.settle(relayed.receipt).then(relayed.lastEvents, fault => {
      if (!(fault instanceof ApiError)) running.reportFault(fault)
      return relayed.unsettledEvents(fault)
    })
    if (last !== '') await events.write(last)
    if (relayed.receipt.outcome === 'served') {
      notifyServed(deps, running, request, ticket, relayed.receipt, relayed)
    }
  } catch (fault) {
    running.reportFault(fault)
    await running.close()
    // The client may have the start of the answer, so the encoder that wrote it must end it.
    await events.write(encoder.fail(toClientError(fault, signal)))
  } finally {
    await running.close()
  }
  return { servedBy: servedBy(ticket, job, answer.offer), whole: null }
}

/** The answer is charged, so a listener that throws must not fail it. */
function notifyServed({ onServed }: CompleteDeps, running: RunningTicket, ...served: Parameters<OnServed>): void {
  try {
    onServed?.(...served)
  } catch (fault) {
    running.reportFault(fault)
  }
}

function planFor(
  deps: CompleteDeps,
  ticket: Ticket,
  job: ChatJob,
  running: RunningTicket,
): RankedPlan & { hasChoice: boolean } {
  const { customerId } = ticket.caller
  // Hashing a conversation costs as much as parsing it, and with one offer there is nothing to choose.
  const hasChoice = ticket.eligible.length > 1
  const stickyOfferId = hasChoice ? deps.affinity.find(customerId, job) : null
  const stickyModelId =
    hasChoice && ticket.models.includes(AUTO_MODEL) ? deps.affinity.findModel(customerId, job) : null
  const health = deps.admit.health.of(customerId)
  const plan = route(ticket, job, { ...deps.route, health, stickyOfferId, stickyModelId }, deps.random)
  running.noteRanking(plan, stickyOfferId)
  return { ...plan, hasChoice }
}

function servedBy(ticket: Ticket, job: ChatJob, offer: Offer): ServedBy {
  const { kind: provider, hosterId } = offer.endpoint
  const maxTokens = clampAt(ticket, job, offer)?.allowed ?? null
  const fields = { droppedFields: unsentFields(job, offer), changedFields: changedFields(job, offer) }
  const schemaViolation = fitOf(job, offer)?.schemaViolation
  return {
    modelId: offer.modelId,
    provider,
    hosterId,
    maxTokens,
    ...fields,
    ...(schemaViolation !== undefined && { schemaViolation }),
  }
}
