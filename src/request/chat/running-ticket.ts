import { type ChatJob, fitOf } from '../../base/domain/chat-job.ts'
import type { Receipt, Ticket } from '../../base/domain/handoff.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import type { AutoNote } from '../../base/domain/routing-note.ts'
import type { MeasureText } from '../../base/domain/text-length.ts'
import { hasClientLeft } from '../../base/domain/upstream-failure.ts'
import { droppedFields } from '../../wire/dialects/chat/upstream-request.ts'
import { nativeDroppedFields } from '../../wire/dialects/native-task.ts'
import { SHORT_TEXT_UNITS } from '../../wire/tokens/count-tokens.ts'
import { inputCostNanos } from '../relay/bill.ts'
import { faultReceipt, unservedReceipt } from '../relay/unserved-receipt.ts'
import type { Rank } from '../route/rank.ts'
import { type RankedPlan, type RouteView, routingNote } from '../route/route.ts'
import { type SettleDeps, settle } from '../settle/settle.ts'
import type { CompletionRequest } from './completion-request.ts'

export interface RunningTicketDeps {
  readonly route: Pick<RouteView, 'cloudCompetes' | 'priceLimits'>
  readonly settle: SettleDeps
  readonly measureText: MeasureText
  /**
   * Records that a client left before its first token. Returns true when its free departures are used up, so
   * that it pays for its input, worth `inputNanos`.
   */
  readonly noteEarlyDisconnect: (customerId: string, inputNanos: Nanos) => boolean
  /** Receives faults for the log: a stream that broke off, a failure that could not be settled. */
  readonly onFault: (requestId: string, fault: unknown) => void
  /** Returns the id of the trace of a request. Null: it has none. Absent: telemetry is off. */
  readonly traceIdOf?: (requestId: string) => string | null
}

/**
 * An admitted request until its settlement. The first of these methods to settle counts; later ones do
 * nothing.
 */
export class RunningTicket {
  readonly #deps: RunningTicketDeps
  readonly #request: CompletionRequest
  readonly #ticket: Ticket
  /** Null until the offers are ranked. */
  #ranks: readonly Rank[] | null = null
  #auto: AutoNote | null = null
  #stickyOfferId: string | null = null

  constructor(deps: RunningTicketDeps, request: CompletionRequest, ticket: Ticket) {
    this.#deps = deps
    this.#request = request
    this.#ticket = ticket
  }

  /** Records how the offers were ranked, for the receipt. */
  noteRanking({ ranks, auto }: Pick<RankedPlan, 'ranks' | 'auto'>, stickyOfferId: string | null): void {
    this.#ranks = ranks
    this.#auto = auto
    this.#stickyOfferId = stickyOfferId
  }

  /**
   * Settles the request and resolves with the charge once it is in the journal, or committed. Throws
   * `settlement_unavailable` when that takes too long.
   */
  settle(receipt: Receipt): Promise<Nanos> {
    const { cloudCompetes = false, priceLimits } = this.#deps.route
    const { job } = this.#request
    const droppedFields = receipt.offer === null ? job.droppedFields : unsentFields(job, receipt.offer)
    const fields = receipt.offer === null ? { droppedFields } : { droppedFields, ...fitted(job, receipt.offer) }
    const traceId = this.#deps.traceIdOf?.(this.#request.requestId) ?? null
    const view = {
      stickyOfferId: this.#stickyOfferId,
      cloudCompetes,
      auto: this.#auto,
      priceLimits,
      traceId,
      ...fields,
    }
    const note = routingNote(this.#ticket, job, this.#ranks, receipt.offer, view)
    return settle(this.#deps.settle, this.#ticket, receipt, note, this.#request)
  }

  /** Settles a request that got no answer, unless it is settled already. */
  async settleFailure(failure: unknown): Promise<void> {
    if (!this.#ticket.hold.isOpen) return
    const { job, signal } = this.#request
    try {
      const charge = (offer: Offer) => this.chargeEarlyDisconnect(offer)
      const ticket = hasClientLeft(signal) ? await this.#measuredTicket() : this.#ticket
      await this.settle(unservedReceipt(failure, ticket, job, signal, charge))
    } catch (fault) {
      this.reportFault(fault)
      await this.close()
    }
  }

  /**
   * Last resort: settles a ticket that is still open as a free internal error. The receipt is so simple that
   * it cannot be refused again.
   */
  async close(): Promise<void> {
    if (!this.#ticket.hold.isOpen) return
    await settle(this.#deps.settle, this.#ticket, faultReceipt, null, this.#request).catch(fault =>
      this.reportFault(fault),
    )
  }

  /**
   * Records that the client left before its first token. Returns true when it must pay for its input this
   * time.
   */
  chargeEarlyDisconnect(offer: Offer): boolean {
    const { caller, job } = this.#request
    return this.#deps.noteEarlyDisconnect(caller.customerId, inputCostNanos(job, offer, this.#ticket.promptLength))
  }

  /** Returns the ticket with the length of a long prompt, which may have to be billed. */
  async #measuredTicket(): Promise<Ticket> {
    const { job } = this.#request
    if (this.#ticket.promptLength !== undefined || job.promptTextBytes <= SHORT_TEXT_UNITS) return this.#ticket
    const promptLength = await this.#deps.measureText(job.promptText(), this.#ticket.caller.customerId)
    return promptLength === null ? this.#ticket : { ...this.#ticket, promptLength }
  }

  reportFault(fault: unknown): void {
    this.#deps.onFault(this.#request.requestId, fault)
  }
}

/** Returns the fields of a request, except the gateway's own, that the server of an offer does not get. */
export function unsentFields(job: ChatJob, offer: Offer): readonly string[] {
  return offer.speaks === undefined ? droppedFields(job, offer) : nativeDroppedFields(job, offer)
}

/** What a receipt says of the attempt that answered. */
function fitted(job: ChatJob, offer: Offer) {
  return { changedFields: changedFields(job, offer), schemaViolation: fitOf(job, offer)?.schemaViolation }
}

const noFields: readonly string[] = []

/** Returns the fields of a request that the server of an offer got with other values than those of the client. */
export function changedFields(job: ChatJob, offer: Offer): readonly string[] {
  const changed = fitOf(job, offer)?.changed
  return changed === undefined || changed.size === 0 ? noFields : [...changed]
}
