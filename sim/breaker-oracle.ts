import type { Attempt } from '../src/base/domain/handoff.ts'
import type { CustomerBreakers, Health, OfferState } from '../src/base/domain/health.ts'
import type { Offer } from '../src/base/domain/offer.ts'
import { createCustomerBreakers, customerOfferKey } from '../src/market/supply/breakers/customer-breakers.ts'
import { createHealth } from '../src/market/supply/breakers/health.ts'
import type { HealthEvent } from '../src/market/supply/breakers/offer-report.ts'
import type { Eligibility } from '../src/request/admit/eligible.ts'
import type { RankedPlan } from '../src/request/route/route.ts'
import { healthWith } from './health-with.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/**
 * Wraps the breakers of one process, the shared one and those of single customers, and checks every call. The oracle keeps its own model
 * of each offer, built from the table in docs/routing.md. A breaker that behaves differently from the model breaks a rule.
 */
export interface BreakerOracle {
  /** The breakers of the product, with every call checked. */
  readonly health: CustomerBreakers
  /** Checks that ejected offers are left out, except as a last resort. */
  checkEligible(offers: readonly Offer[], choice: Eligibility, customerId: string): void
  /** Checks the order of the offers. */
  checkPlan(plan: RankedPlan): void
  checkAttempts(attempts: readonly Attempt[]): void
  /** Offers that are closed to all customers, with the remaining time of each. */
  trippedOffers(): { readonly offerId: string; readonly restsMs: number }[]
  /** Checks that no attempt is counted as in flight once all work has finished. */
  checkIdle(): void
}

const FAULTS_IN_ROW = 5
const FAILED_CONNECTIONS_IN_ROW = 3
const TRIAL_SUCCESSES = 3
const FIRST_EJECTION_MS = 5_000
const EJECTION_MS_MAX = 300_000
const CREDENTIAL_REJECTED_MS = 300_000
const FORGIVEN_EVERY_MS = 10_000
const FIRST_PAUSE_MS = 1_000
const PAUSE_MS_MAX = 300_000
const RATE_REQUESTS_MIN = 20
/** The product keeps the last minute in slices of ten seconds, so its window may start anywhere between these two ages. */
const RATE_WINDOWS_MS = [50_000, 60_000] as const
export const ATTEMPTS_MAX = 3

/** What the oracle expects of one offer. */
interface OfferModel {
  inFlight: number
  isTripped: boolean
  trippedAtMs: number
  restsUntilMs: number
  /** Separate from ejections: a busy server is not failing. */
  pausedUntilMs: number
  pausedAtMs: number
  /** Upper bound of a pause that a longer ejection hides: the length that the product drew at random is not visible yet. */
  hiddenPauseUntilMs: number
  hasTrial: boolean
  successesLeft: number
  ejections: number
  restoredAtMs: number
  faultsInRow: number
  failedConnectionsInRow: number
  pausesInRow: number
  results: { readonly atMs: number; readonly isGood: boolean }[]
}

export function createBreakerOracle(
  world: World,
  process: Process,
  random: () => number,
  onEjected: () => void,
): BreakerOracle {
  const shared = watchBreaker(world, process, random, onEjected, { hasAllAttempts: true })
  const perCustomer = watchBreaker(world, process, random, onEjected, { hasAllAttempts: false })
  const product = createCustomerBreakers(shared.health, perCustomer.health)
  /** The customers that met a fault of each offer since its last success. Null stands for a failed connection, which belongs to no customer. */
  const metBy = new Map<string, Set<string | null>>()
  const fail = (rule: string, offerId: string, why: string) => world.fail(rule, `${process.name}, ${offerId}: ${why}`)
  const isEjected = (offerId: string, customerId: string) =>
    shared.stateOf(offerId) === 'ejected' || perCustomer.stateOf(customerOfferKey(customerId, offerId)) === 'ejected'

  return {
    health: {
      of(customerId) {
        const health = product.of(customerId)
        return healthWith(health, {
          recordSuccess(offerId, sample, sentMs) {
            metBy.delete(offerId)
            health.recordSuccess(offerId, sample, sentMs)
          },
          recordFailure(offerId, outcome, retryAfterS, sentMs) {
            const wasTripped = shared.isTripped(offerId)
            const met = metBy.get(offerId) ?? new Set()
            if (faults.has(outcome)) metBy.set(offerId, met.add(outcome === 'connect_failed' ? null : customerId))
            health.recordFailure(offerId, outcome, retryAfterS, sentMs)
            if (outcome === 'credential_rejected' || wasTripped || !shared.isTripped(offerId)) return
            if (met.size === 1 && met.has(customerId) && !shared.mayFailOften(offerId))
              fail('one_customer_ejects_only_for_itself', offerId, `only ${customerId} met faults`)
          },
        })
      },
    },
    checkEligible(candidates, { eligible }, customerId) {
      const ejected = candidates.filter(({ offerId }) => isEjected(offerId, customerId))
      const dropped = candidates.filter(offer => !eligible.includes(offer))
      const droppedMost = Math.floor(candidates.length / 2)
      for (const { offerId } of dropped)
        if (!ejected.some(offer => offer.offerId === offerId))
          fail('healthy_offers_are_eligible', offerId, 'left out although it is healthy')
      if (dropped.length > droppedMost)
        fail('at_most_half_are_left_out', 'all offers', `${dropped.length} of ${candidates.length}`)
      if (dropped.length < Math.min(ejected.length, droppedMost))
        fail('ejected_offers_are_left_out', 'all offers', `only ${dropped.length} of ${ejected.length} ejected offers`)
    },
    checkPlan({ ticket, ranks }) {
      if (ranks.length !== ticket.eligible.length) fail('all_eligible_are_planned', 'all offers', `${ranks.length}`)
      let lastMs = 0
      const { customerId } = ticket.caller
      for (const { offer } of ranks) {
        const { offerId } = offer
        const isOut = isEjected(offerId, customerId)
        if (!isOut && lastMs > 0) fail('ejected_offers_come_last', offerId, 'ranked after an ejected offer')
        if (!isOut) continue
        const restsMs = product.of(customerId).ejectedForMs(offerId)
        if (restsMs < lastMs) fail('least_bad_offers_come_first', offerId, `${restsMs} ms ranked after ${lastMs} ms`)
        lastMs = restsMs
      }
    },
    checkAttempts(attempts) {
      const endpoints = new Set(attempts.map(({ endpointId }) => endpointId))
      if (attempts.length > ATTEMPTS_MAX || endpoints.size < attempts.length)
        fail('attempts_are_few_and_different', attempts[0]!.offerId, `${attempts.length} at ${endpoints.size}`)
      const rejected = attempts.findIndex(({ outcome }) => outcome === 'request_rejected')
      if (rejected >= 0 && rejected < attempts.length - 1)
        fail('rejected_requests_end', attempts[rejected]!.offerId, 'sent to another server after a rejection')
    },
    trippedOffers: shared.trippedOffers,
    checkIdle: shared.checkIdle,
  }
}

const faults: ReadonlySet<string> = new Set([
  'connect_failed',
  'server_error',
  'first_token_timeout',
  'malformed',
  'empty',
])

/**
 * One breaker and its model. `hasAllAttempts`: the breaker sees every attempt from its start. The breakers of single customers see only the
 * attempts that follow a fault.
 */
function watchBreaker(
  world: World,
  process: Process,
  random: () => number,
  onEjected: () => void,
  { hasAllAttempts }: { hasAllAttempts: boolean },
) {
  const offers = new Map<string, OfferModel>()
  let events: HealthEvent[] = []
  const health = createHealth({
    clock: process.scheduler,
    random,
    onEvent: event => {
      events.push(event)
      if (event.event !== 'restored') onEjected()
      world.note(process.name, event.event, event.offerId, event.forMs)
    },
  })
  const now = () => process.scheduler.monotonicMs()
  const fail = (rule: string, offerId: string, why: string) => world.fail(rule, `${process.name}, ${offerId}: ${why}`)

  const watched: Health = {
    state(offerId) {
      const state = health.state(offerId)
      checkState(offerId, state)
      return state
    },
    ejectedForMs: offerId => health.ejectedForMs(offerId),
    predictMs: (offerId, request) => health.predictMs(offerId, request),
    firstTokenP95Ms: (offerId, inputTokens) => health.firstTokenP95Ms(offerId, inputTokens),
    read(offerId, request, limits) {
      const reading = health.read(offerId, request, limits)
      checkState(offerId, reading.state)
      checkInFlight(offerId)
      return reading
    },
    inFlight(offerId) {
      checkInFlight(offerId)
      return health.inFlight(offerId)
    },
    beginRequest(offerId) {
      const model = modelOf(offerId)
      if (stateOf(model) === 'probing') model.hasTrial = true
      model.inFlight++
      health.beginRequest(offerId)
      checkInFlight(offerId)
    },
    noteContent: offerId => health.noteContent(offerId),
    endRequest(offerId, hadContent) {
      const model = modelOf(offerId)
      // The product does not remember which request was the trial: any request that ends makes room for the next trial.
      model.hasTrial = false
      model.inFlight--
      if (model.inFlight < 0 && hasAllAttempts) fail('attempts_end_once', offerId, 'more ends than starts')
      health.endRequest(offerId, hadContent)
      checkInFlight(offerId)
    },
    recordSuccess(offerId, sample, sentMs = now()) {
      events = []
      health.recordSuccess(offerId, sample, sentMs)
      succeeded(offerId, sentMs)
    },
    recordFailure(offerId, outcome, retryAfterS, sentMs = now()) {
      events = []
      const restedMs = health.ejectedForMs(offerId)
      health.recordFailure(offerId, outcome, retryAfterS, sentMs)
      switch (outcome) {
        case 'request_rejected':
        case 'not_sent':
        case 'cancelled':
          expectEvent(offerId, undefined, 'caller_errors_do_not_count')
          return
        case 'busy':
          if (!retryAfterS && sentMs < modelOf(offerId).pausedAtMs) refusedBeforePause(offerId, restedMs)
          // A Retry-After of zero counts as none.
          else paused(offerId, retryAfterS || undefined, sentMs)
          return
        case 'credential_rejected':
          credentialRejected(offerId)
          return
        default:
          failed(offerId, outcome === 'connect_failed', sentMs)
      }
    },
  }

  return {
    health: watched,
    stateOf: (offerId: string) => stateOf(modelOf(offerId)),
    isTripped: (offerId: string) => modelOf(offerId).isTripped,
    /** True for either start of the window of the last minute. */
    mayFailOften: (offerId: string) => RATE_WINDOWS_MS.some(windowMs => isFailingOften(modelOf(offerId), windowMs)),
    trippedOffers() {
      const tripped: { offerId: string; restsMs: number }[] = []
      for (const [offerId, { isTripped, restsUntilMs, pausedUntilMs }] of offers) {
        const restsMs = Math.max(restsUntilMs, pausedUntilMs) - now()
        if (isTripped || restsMs > 0) tripped.push({ offerId, restsMs: Math.max(restsMs, 0) })
      }
      return tripped
    },
    checkIdle() {
      for (const [offerId, { inFlight }] of offers)
        if (inFlight !== 0) fail('all_attempts_end', offerId, `${inFlight} stay in flight`)
    },
  }

  // ---------------------------------------------------------------- results of requests

  function succeeded(offerId: string, sentMs: number): void {
    const model = modelOf(offerId)
    model.hasTrial = false
    model.faultsInRow = 0
    model.failedConnectionsInRow = 0
    model.pausesInRow = 0
    model.results.push({ atMs: now(), isGood: true })
    if (model.isTripped && sentMs < model.trippedAtMs) {
      expectEvent(offerId, undefined, 'trials_begin_after_the_ejection')
      return
    }
    if (!model.isTripped || --model.successesLeft > 0) {
      expectEvent(offerId, undefined, 'trials_take_three_successes')
      return
    }
    expectEvent(offerId, 'restored', 'trials_take_three_successes')
    model.isTripped = false
    model.restsUntilMs = 0
    model.restoredAtMs = now()
    model.results = []
    // A pause that the server asked for may be longer than the ejection.
    if (model.hiddenPauseUntilMs > now()) {
      const hiddenMs = Math.min(health.ejectedForMs(offerId), model.hiddenPauseUntilMs - now())
      model.pausedUntilMs = Math.max(model.pausedUntilMs, now() + hiddenMs)
    }
  }

  /** A refusal of a request that was sent before the last pause began: it belongs to that pause. */
  function refusedBeforePause(offerId: string, restedMs: number): void {
    expectEvent(offerId, undefined, 'busy_offers_are_not_ejected')
    modelOf(offerId).hasTrial = false
    const restsMs = health.ejectedForMs(offerId)
    if (restsMs > restedMs + ROUNDING_MS)
      fail('busy_offers_rest_as_requested', offerId, `${restsMs} ms after a refusal that changes nothing`)
  }

  function paused(offerId: string, retryAfterS: number | undefined, sentMs: number): void {
    const model = modelOf(offerId)
    expectEvent(offerId, undefined, 'busy_offers_are_not_ejected')
    model.hasTrial = false
    const typicalMs = FIRST_PAUSE_MS * 2 ** model.pausesInRow
    if (sentMs >= model.pausedAtMs) {
      model.pausesInRow++
      model.pausedAtMs = now()
    }
    const [leastMs, mostMs] =
      retryAfterS === undefined ? [typicalMs / 2, typicalMs * 1.5] : [retryAfterS * 1_000, retryAfterS * 1_000]
    const restsMs = health.ejectedForMs(offerId)
    const restedMs = Math.max(model.restsUntilMs, model.pausedUntilMs) - now()
    const isInBounds = (bound: number, isLeast: boolean) => {
      const wholeMs = Math.max(Math.min(bound, PAUSE_MS_MAX), restedMs, 0)
      return isLeast ? restsMs >= wholeMs - ROUNDING_MS : restsMs <= Math.max(wholeMs, 1) + ROUNDING_MS
    }
    if (!isInBounds(leastMs, true) || !isInBounds(mostMs, false))
      fail('busy_offers_rest_as_requested', offerId, `${restsMs} ms, not ${leastMs} to ${mostMs}`)
    const pauseMs = retryAfterS === undefined ? restsMs : Math.min(retryAfterS * 1_000, PAUSE_MS_MAX)
    const isHidden = retryAfterS === undefined && model.restsUntilMs > now() && restsMs <= restedMs + ROUNDING_MS
    // A shorter pause does not end a longer one.
    if (isHidden) model.hiddenPauseUntilMs = Math.max(model.hiddenPauseUntilMs, now() + Math.min(mostMs, PAUSE_MS_MAX))
    else model.pausedUntilMs = Math.max(model.pausedUntilMs, now() + pauseMs)
  }

  function credentialRejected(offerId: string): void {
    const event = expectEvent(offerId, 'credential_rejected', 'rejected_credentials_eject')
    if (event !== undefined && event.forMs !== CREDENTIAL_REJECTED_MS)
      fail('rejected_credentials_eject', offerId, `${event.forMs} ms`)
    trip(offerId, CREDENTIAL_REJECTED_MS)
  }

  function failed(offerId: string, isConnection: boolean, sentMs: number): void {
    const model = modelOf(offerId)
    model.hasTrial = false
    model.faultsInRow++
    model.failedConnectionsInRow = isConnection ? model.failedConnectionsInRow + 1 : 0
    model.results.push({ atMs: now(), isGood: false })
    if (model.isTripped && sentMs < model.trippedAtMs) {
      expectEvent(offerId, undefined, 'trials_begin_after_the_ejection')
      return
    }
    model.successesLeft = TRIAL_SUCCESSES
    if (model.restsUntilMs > now()) {
      // The offer was used as a last resort.
      expectEvent(offerId, undefined, 'an_ejection_counts_once')
      return
    }
    const mustBeEjected =
      model.isTripped || model.faultsInRow >= FAULTS_IN_ROW || model.failedConnectionsInRow >= FAILED_CONNECTIONS_IN_ROW
    const rates = RATE_WINDOWS_MS.map(windowMs => isFailingOften(model, windowMs))
    // The two possible windows of the last minute disagree: either outcome is right.
    const isOpen = !mustBeEjected && !rates.every(isFailing => isFailing === rates[0])
    const mustEject = mustBeEjected || rates[0] === true
    const event = events[0]
    if (!isOpen) expectEvent(offerId, mustEject ? 'ejected' : undefined, 'faults_eject')
    if (event?.event !== 'ejected') return
    const healthyMs = now() - model.restoredAtMs
    if (!model.isTripped) model.ejections = Math.max(0, model.ejections - Math.floor(healthyMs / FORGIVEN_EVERY_MS))
    const typicalMs = Math.min(FIRST_EJECTION_MS * 2 ** model.ejections++, EJECTION_MS_MAX)
    if (event.forMs < typicalMs / 2 || event.forMs > typicalMs * 1.5)
      fail('ejections_double', offerId, `${event.forMs} ms, not about ${typicalMs}`)
    trip(offerId, event.forMs)
  }

  function trip(offerId: string, forMs: number): void {
    const model = modelOf(offerId)
    model.isTripped = true
    model.trippedAtMs = now()
    model.hasTrial = false
    model.successesLeft = TRIAL_SUCCESSES
    model.restsUntilMs = now() + forMs
  }

  function isFailingOften({ results }: OfferModel, windowMs: number): boolean {
    let failures = 0
    let all = 0
    for (const { atMs, isGood } of results) {
      if (atMs < now() - windowMs) continue
      all++
      if (!isGood) failures++
    }
    return all >= RATE_REQUESTS_MIN && failures * 2 >= all
  }

  // ---------------------------------------------------------------- answers of the breaker

  function stateOf({ isTripped, restsUntilMs, pausedUntilMs, hasTrial }: OfferModel): OfferState {
    if (Math.max(restsUntilMs, pausedUntilMs) > now()) return 'ejected'
    if (!isTripped) return 'open'
    return hasTrial ? 'ejected' : 'probing'
  }

  function checkState(offerId: string, state: OfferState): void {
    const model = modelOf(offerId)
    const expected = stateOf(model)
    if (state === expected) return
    const restsMs = Math.max(model.restsUntilMs, model.pausedUntilMs) - now()
    // Reading back the length of a pause has a rounding error.
    if (Math.abs(restsMs) < ROUNDING_MS) return
    const rule =
      restsMs > 0
        ? 'ejected_offers_rest'
        : expected === 'ejected'
          ? 'trials_are_one_at_a_time'
          : expected === 'open'
            ? 'healthy_offers_are_eligible'
            : 'ejections_end_in_a_trial'
    fail(rule, offerId, `${state}, not ${expected}`)
  }

  function checkInFlight(offerId: string): void {
    const { inFlight } = modelOf(offerId)
    if (health.inFlight(offerId) !== inFlight && hasAllAttempts)
      fail('attempts_in_flight_are_counted', offerId, `${health.inFlight(offerId)}, not ${inFlight}`)
  }

  function expectEvent(offerId: string, expected: HealthEvent['event'] | undefined, rule: string) {
    const [event] = events
    if (event?.event !== expected || events.length > 1)
      fail(rule, offerId, `${event?.event ?? 'nothing'}, not ${expected ?? 'nothing'}`)
    return event
  }

  function modelOf(offerId: string): OfferModel {
    let model = offers.get(offerId)
    if (model === undefined) {
      model = {
        inFlight: 0,
        isTripped: false,
        trippedAtMs: 0,
        restsUntilMs: 0,
        pausedUntilMs: 0,
        pausedAtMs: -Infinity,
        hiddenPauseUntilMs: 0,
        hasTrial: false,
        successesLeft: TRIAL_SUCCESSES,
        ejections: 0,
        restoredAtMs: now(),
        faultsInRow: 0,
        failedConnectionsInRow: 0,
        pausesInRow: 0,
        results: [],
      }
      offers.set(offerId, model)
    }
    return model
  }
}

const ROUNDING_MS = 1e-3
