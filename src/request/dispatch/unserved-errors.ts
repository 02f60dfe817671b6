import { ApiError, CONNECTIONS_USED_UP, type ErrorFacts, MEMORY_USED_UP } from '../../base/domain/errors.ts'
import type { Attempt } from '../../base/domain/handoff.ts'
import { type Offer, splitOfferId } from '../../base/domain/offer.ts'
import { type Cancelled, Unserved, type UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { AttemptLog, NotTriedReason } from './attempt-log.ts'

// The errors with which dispatch ends without an answer.

/** How long to wait for busy servers that do not say how long. */
const BUSY_RETRY_AFTER_S = 1
/** A plan can have hundreds of offers. */
const NOT_TRIED_MAX = 16

export function cancelledError({ reason }: Cancelled, signal: CancelSignal, attempts: readonly Attempt[]): Unserved {
  if (reason === 'memory_used_up') return new Unserved('overloaded', attempts, { message: MEMORY_USED_UP })
  if (reason === 'connections_used_up') return new Unserved('overloaded', attempts, { message: CONNECTIONS_USED_UP })
  return abortedError(signal, attempts)
}

/**
 * Returns the error of an aborted request. A client that left does not see it; a gateway that is shutting down
 * reports the shutdown.
 */
export function abortedError({ reason }: CancelSignal, attempts: readonly Attempt[]): Unserved {
  if (!(reason instanceof ApiError)) return new Unserved('upstream_unavailable', attempts)
  return new Unserved(reason.code, attempts, { retryAfterS: reason.retryAfterS })
}

export function rejectedError({ rejection }: UpstreamFailure, attempts: readonly Attempt[]): Unserved {
  const code = rejection?.code === 'context_length_exceeded' ? 'context_length_exceeded' : 'upstream_rejected'
  const reason = rejection?.message
  const message = reason ? `The model server refused the request: ${reason}` : undefined
  return new Unserved(code, attempts, { message, param: rejection?.param ?? undefined })
}

/** Returns the error of a request for which no offer is left, or no time: a rejection of the last one says more. */
export function failedError(offers: readonly Offer[], log: AttemptLog): Unserved {
  const { attempts, failures } = log
  const last = failures.at(-1)
  if (last?.outcome === 'request_rejected') return rejectedError(last, attempts)
  if (attempts.length === 0) return new Unserved('upstream_unavailable', attempts)
  const tried = new Set(attempts.map(({ offerId }) => offerId))
  const notTried = offers
    .filter(({ offerId }) => !tried.has(offerId))
    .map(offer => ({ offer, reason: log.obstacle(offer) ?? 'no_time_left' }))
  const allBusy = failures.every(failure => failure.outcome === 'busy')
  return new Unserved('all_hosters_failed', attempts, {
    message: messageOf(attempts, notTried),
    facts: factsOf(offers, attempts, notTried),
    ...(allBusy && { shouldRetry: true, retryAfterS: busyForS(failures) }),
    reasons: failures.map(({ message }) => message),
    upstreamMessages: failures.flatMap(({ upstreamMessage }) => upstreamMessage ?? []),
  })
}

interface NotTried {
  readonly offer: Offer
  readonly reason: NotTriedReason
}

function messageOf(attempts: readonly Attempt[], notTried: readonly NotTried[]): string {
  const tried = countServers(attempts, ({ offerId }) => splitOfferId(offerId).modelId)
  const left = countServers(notTried, ({ offer, reason }) => `${offer.modelId}, ${reasonTexts[reason]}`)
  return [
    `Every server that was tried failed; you were not charged. Tried: ${tried}.`,
    ...(left === '' ? [] : [`Not tried: ${left}.`]),
    'Retry later, or relax the constraints of the request.',
  ].join(' ')
}

const reasonTexts: Record<NotTriedReason, string> = {
  context_too_small: 'without a larger context',
  endpoint_failed: 'at an endpoint that had failed',
  endpoint_unreachable: 'at an endpoint without a connection',
  attempts_max: 'beyond the allowed number of attempts',
  retry_budget: 'beyond the allowed share of retries',
  no_time_left: 'for lack of time',
}

/** Returns a text such as `a (3 servers), b (1 server)`. */
function countServers<Item>(items: readonly Item[], nameOf: (item: Item) => string): string {
  return Object.entries(Object.groupBy(items, nameOf))
    .map(([name, { length } = []]) => `${name} (${length} ${length === 1 ? 'server' : 'servers'})`)
    .join('; ')
}

function factsOf(offers: readonly Offer[], attempts: readonly Attempt[], notTried: readonly NotTried[]): ErrorFacts {
  const serverOf = ({ modelId, endpoint }: Offer) => ({
    model: modelId,
    provider: endpoint.kind,
    endpoint: endpoint.endpointId,
    hoster_id: endpoint.hosterId,
  })
  return {
    tried: attempts.map(({ offerId, outcome }) => ({
      ...serverOf(offers.find(offer => offer.offerId === offerId)!),
      outcome,
    })),
    not_tried: notTried.slice(0, NOT_TRIED_MAX).map(({ offer, reason }) => ({ ...serverOf(offer), reason })),
  }
}

function busyForS(failures: readonly UpstreamFailure[]): number {
  const waitsS = failures.flatMap(failure => failure.retryAfterS ?? [])
  return waitsS.length === 0 ? BUSY_RETRY_AFTER_S : Math.max(1, Math.min(...waitsS))
}
