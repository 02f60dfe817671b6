import { type AdmitDeps, admit } from '../admit/admit.ts'
import { type DispatchDeps, dispatch } from '../dispatch/dispatch.ts'
import type { Caller } from '../domain/caller.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { Receipt, Ticket } from '../domain/handoff.ts'
import type { Nanos } from '../domain/money.ts'
import type { Offer } from '../domain/offer.ts'
import { inputCostNanos } from '../relay/bill.ts'
import { type Delivery, relay } from '../relay/relay.ts'
import { faultReceipt, unservedReceipt } from '../relay/unserved-receipt.ts'
import type { Affinity } from '../route/affinity.ts'
import { type RankedPlan, type RouteView, route } from '../route/route.ts'
import { routingNote } from '../route/routing-note.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import { failpoint } from '../runtime/failpoint.ts'
import { type SettleDeps, settle } from '../settle/settle.ts'

export interface CompleteDeps {
  readonly admit: AdmitDeps
  readonly route: Omit<RouteView, 'health' | 'stickyOfferId'>
  readonly affinity: Affinity
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly dispatch: DispatchDeps
  readonly settle: SettleDeps
  /** Notes that a client left before its first token; true when it has used up its free departures and pays its input, worth `inputNanos`. */
  readonly isEarlyLeaveCharged: (customerId: string, inputNanos: Nanos) => boolean
  /** Told what broke where the caller hears only that something did: a stream in its middle, a settlement of a failure. */
  readonly onFault: (requestId: string, fault: unknown) => void
}

/** Under what ticket who served it, and what goes to the client. */
export interface Completed {
  readonly ticket: Ticket
  readonly offer: Offer
  readonly delivery: Delivery
}

/**
 * The conductor: every step of a chat completion, in order. Steps hand on immutable values and know nothing of each other.
 * From the ticket on every path ends in exactly one settlement, whatever throws, and a crash ends in the reaper.
 */
export async function complete(
  deps: CompleteDeps,
  caller: Caller,
  job: ChatJob,
  requestId: string,
  signal: CancelSignal,
): Promise<Completed> {
  const ticket = await admit(deps.admit, caller, job, requestId)
  let plan: RankedPlan | null = null
  let stickyOfferId: string | null = null
  const settleTicket = (receipt: Receipt) => {
    const view = { stickyOfferId, cloudCompetes: deps.route.cloudCompetes ?? false }
    return settle(deps.settle, ticket, receipt, routingNote(ticket, job, plan?.ranks ?? null, view))
  }
  const onFault = (fault: unknown) => deps.onFault(requestId, fault)
  /** The last word, of what broke before it was settled: free. It says so little that what has just been refused is not in it. */
  const giveBack = async () => {
    if (ticket.hold.isOpen) await settle(deps.settle, ticket, faultReceipt, null).catch(onFault)
  }
  const chargeEarlyLeave = (offer: Offer) => deps.isEarlyLeaveCharged(caller.customerId, inputCostNanos(job, offer))
  try {
    // Hashing a conversation costs as much as parsing it, and where there is one offer nothing is to be chosen.
    const hasChoice = ticket.eligible.length > 1
    if (hasChoice) stickyOfferId = deps.affinity.find(caller.customerId, job)
    const health = deps.admit.health.of(caller.customerId)
    plan = route(ticket, job, { ...deps.route, health, stickyOfferId }, deps.random)
    const answer = await dispatch(deps.dispatch, plan, job, signal)
    failpoint('dispatch-answered')
    if (hasChoice) deps.affinity.remember(caller.customerId, job, answer.offer.offerId)
    const context = { ticket, job, settle: settleTicket, signal, onFault }
    const delivery = await relay({ ...context, chargeEarlyLeave: () => chargeEarlyLeave(answer.offer) }, answer)
    return {
      ticket,
      offer: answer.offer,
      delivery: delivery.kind === 'stream' ? withFinally(delivery, giveBack) : delivery,
    }
  } catch (failure) {
    // Settled already, or that is under way: only the first settlement counts.
    if (!ticket.hold.isOpen) throw failure
    try {
      await settleTicket(unservedReceipt(failure, ticket, job, signal, chargeEarlyLeave))
    } catch (fault) {
      onFault(fault)
      await giveBack()
    }
    throw failure
  }
}

/** The same stream, after which `done` is called however it ends: what breaks in it happens when nobody is left here to catch it. */
function withFinally(delivery: Extract<Delivery, { kind: 'stream' }>, done: () => Promise<void>): Delivery {
  return {
    kind: 'stream',
    async sendTo(write) {
      try {
        await delivery.sendTo(write)
      } finally {
        await done()
      }
    },
  }
}
