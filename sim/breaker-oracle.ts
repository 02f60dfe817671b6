import type { Eligibility } from '../src/admit/eligible.ts'
import type { Attempt } from '../src/domain/handoff.ts'
import type { CustomerBreakers, Health, OfferState } from '../src/domain/health.ts'
import type { Offer } from '../src/domain/offer.ts'
import type { RankedPlan } from '../src/route/route.ts'
import { createCustomerBreakers, keyOf } from '../src/supply/breakers/customer-breakers.ts'
import { createHealth, type HealthEvent } from '../src/supply/breakers/health.ts'
import { healthWith } from './health-with.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/**
 * The breakers of one process, everybody's and those of single customers, watched at every call: it keeps its own books of what happened to each offer,
 * by the table of docs/routing.md, and whatever a breaker says or does otherwise breaks a rule.
 */
export interface BreakerOracle {
  /** The product's own, watched. */
  readonly health: CustomerBreakers
  /** Who may be asked: the ejected are left out, but for the last resort. */
  sawEligible(offers: readonly Offer[], choice: Eligibility, customerId: string): void
  /** In which order. */
  sawPlan(plan: RankedPlan): void
  sawAttempts(attempts: readonly Attempt[]): void
  /** Offers that are not open to anybody, and how long each has to rest. */
  trippedOffers(): { readonly offerId: string; readonly restsMs: number }[]
  /** Nothing is under way any more. */
  checkIdle(): void
}

const FAULTS_IN_ROW = 5
const FAILED_CONNECTIONS_IN_ROW = 3
const TRIAL_SUCCESSES = 3
const FIRST_EJECTION_MS = 5_000
const EJECTION_MS_MAX = 300_000
const OUR_FAULT_MS = 300_000
const FORGIVEN_EVERY_MS = 10_000
const FIRST_PAUSE_MS = 1_000
const PAUSE_MS_MAX = 300_000
const RATE_REQUESTS_MIN = 20
/** The last minute is kept in slices of ten seconds, so it may be counted from anywhere in between. */
const RATE_WINDOWS_MS = [50_000, 60_000] as const
export const ATTEMPTS_MAX = 3

interface Books {
  inFlight: number
  isTripped: boolean
  trippedAtMs: number
  restsUntilMs: number
  /** Apart from the breaker: a busy server is not ill. */
  pausedUntilMs: number
  pausedAtMs: number
  /** At most so long: nobody can see yet how long the product drew it, behind an ejection that is longer. */
  hiddenPauseUntilMs: number
  isTried: boolean
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
  const everybody = watchBreaker(world, process, random, onEjected, { hasAllAttempts: true })
  const ofOne = watchBreaker(world, process, random, onEjected, { hasAllAttempts: false })
  const product = createCustomerBreakers(everybody.health, ofOne.health)
  /** Of each offer who has met a fault since its last success; null stands for a failed connection, which is nobody's. */
  const metBy = new Map<string, Set<string | null>>()
  const fail = (rule: string, offerId: string, why: string) => world.fail(rule, `${process.name}, ${offerId}: ${why}`)
  const isEjected = (offerId: string, customerId: string) =>
    everybody.stateOf(offerId) === 'ejected' || ofOne.stateOf(keyOf(customerId, offerId)) === 'ejected'

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
            const wasTripped = everybody.isTripped(offerId)
            const met = metBy.get(offerId) ?? new Set()
            if (faults.has(outcome)) metBy.set(offerId, met.add(outcome === 'connect_failed' ? null : customerId))
            health.recordFailure(offerId, outcome, retryAfterS, sentMs)
            if (outcome === 'credential_rejected' || wasTripped || !everybody.isTripped(offerId)) return
            if (met.size === 1 && met.has(customerId) && !everybody.mayFailOften(offerId))
              fail('nobody_ejects_for_others', offerId, `${customerId} alone has met faults`)
          },
        })
      },
    },
    sawEligible(candidates, { eligible }, customerId) {
      const ejected = candidates.filter(({ offerId }) => isEjected(offerId, customerId))
      const dropped = candidates.filter(offer => !eligible.includes(offer))
      const droppedMost = Math.floor(candidates.length / 2)
      for (const { offerId } of dropped)
        if (!ejected.some(offer => offer.offerId === offerId))
          fail('the_healthy_are_asked', offerId, 'left out, though nothing is wrong with it')
      if (dropped.length > droppedMost)
        fail('at_most_half_are_left_out', 'all offers', `${dropped.length} of ${candidates.length}`)
      if (dropped.length < Math.min(ejected.length, droppedMost))
        fail('the_ejected_are_left_out', 'all offers', `${dropped.length} of ${ejected.length} ejected ones`)
    },
    sawPlan({ ticket, ranks }) {
      if (ranks.length !== ticket.eligible.length) fail('all_eligible_are_planned', 'all offers', `${ranks.length}`)
      let lastMs = 0
      const { customerId } = ticket.caller
      for (const { offer } of ranks) {
        const { offerId } = offer
        const isAway = isEjected(offerId, customerId)
        if (!isAway && lastMs > 0) fail('the_ejected_come_last', offerId, 'behind an ejected one')
        if (!isAway) continue
        const restsMs = product.of(customerId).ejectedForMs(offerId)
        if (restsMs < lastMs) fail('the_least_bad_come_first', offerId, `${restsMs} ms behind ${lastMs} ms`)
        lastMs = restsMs
      }
    },
    sawAttempts(attempts) {
      const endpoints = new Set(attempts.map(({ endpointId }) => endpointId))
      if (attempts.length > ATTEMPTS_MAX || endpoints.size < attempts.length)
        fail('attempts_are_few_and_different', attempts[0]!.offerId, `${attempts.length} at ${endpoints.size}`)
      const rejected = attempts.findIndex(({ outcome }) => outcome === 'request_rejected')
      if (rejected >= 0 && rejected < attempts.length - 1)
        fail('rejected_requests_end', attempts[rejected]!.offerId, 'asked elsewhere after a rejection')
    },
    trippedOffers: everybody.trippedOffers,
    checkIdle: everybody.checkIdle,
  }
}

const faults: ReadonlySet<string> = new Set([
  'connect_failed',
  'server_error',
  'first_token_timeout',
  'malformed',
  'empty',
])

/** One breaker and its books. `hasAllAttempts`: it hears of each from its beginning, not only of those that come after a fault. */
function watchBreaker(
  world: World,
  process: Process,
  random: () => number,
  onEjected: () => void,
  { hasAllAttempts }: { hasAllAttempts: boolean },
) {
  const offers = new Map<string, Books>()
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
    inFlight(offerId) {
      checkInFlight(offerId)
      return health.inFlight(offerId)
    },
    beginRequest(offerId) {
      const books = booksOf(offerId)
      if (stateOf(books) === 'probing') books.isTried = true
      books.inFlight++
      health.beginRequest(offerId)
      checkInFlight(offerId)
    },
    endRequest(offerId) {
      const books = booksOf(offerId)
      // The product does not remember which request was the trial: any that ends makes room for the next.
      books.isTried = false
      books.inFlight--
      if (books.inFlight < 0 && hasAllAttempts) fail('attempts_end_once', offerId, 'ended more often than begun')
      health.endRequest(offerId)
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
          expectEvent(offerId, undefined, 'callers_faults_count_for_nothing')
          return
        case 'busy':
          if (!retryAfterS && sentMs < booksOf(offerId).pausedAtMs) pausedBefore(offerId, restedMs)
          // To come back at once is to name no time.
          else paused(offerId, retryAfterS || undefined, sentMs)
          return
        case 'credential_rejected':
          lockedOut(offerId)
          return
        default:
          failed(offerId, outcome === 'connect_failed', sentMs)
      }
    },
  }

  return {
    health: watched,
    stateOf: (offerId: string) => stateOf(booksOf(offerId)),
    isTripped: (offerId: string) => booksOf(offerId).isTripped,
    /** In either reading of the last minute. */
    mayFailOften: (offerId: string) => RATE_WINDOWS_MS.some(windowMs => isFailingOften(booksOf(offerId), windowMs)),
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
        if (inFlight !== 0) fail('attempts_end', offerId, `${inFlight} are in flight for ever`)
    },
  }

  // ---------------------------------------------------------------- what happened to an offer

  function succeeded(offerId: string, sentMs: number): void {
    const books = booksOf(offerId)
    books.isTried = false
    books.faultsInRow = 0
    books.failedConnectionsInRow = 0
    books.pausesInRow = 0
    books.results.push({ atMs: now(), isGood: true })
    if (books.isTripped && sentMs < books.trippedAtMs) {
      expectEvent(offerId, undefined, 'trials_begin_after_the_ejection')
      return
    }
    if (!books.isTripped || --books.successesLeft > 0) {
      expectEvent(offerId, undefined, 'trials_take_three_successes')
      return
    }
    expectEvent(offerId, 'restored', 'trials_take_three_successes')
    books.isTripped = false
    books.restsUntilMs = 0
    books.restoredAtMs = now()
    books.results = []
    // A pause that was asked for in words may be longer.
    if (books.hiddenPauseUntilMs > now()) {
      const hiddenMs = Math.min(health.ejectedForMs(offerId), books.hiddenPauseUntilMs - now())
      books.pausedUntilMs = Math.max(books.pausedUntilMs, now() + hiddenMs)
    }
  }

  /** It was under way when the last pause began, so it is the same refusal. */
  function pausedBefore(offerId: string, restedMs: number): void {
    expectEvent(offerId, undefined, 'the_busy_are_not_ill')
    booksOf(offerId).isTried = false
    const restsMs = health.ejectedForMs(offerId)
    if (restsMs > restedMs + CLOCK_MS) fail('the_busy_rest_as_they_ask', offerId, `${restsMs} ms for what was known`)
  }

  function paused(offerId: string, retryAfterS: number | undefined, sentMs: number): void {
    const books = booksOf(offerId)
    expectEvent(offerId, undefined, 'the_busy_are_not_ill')
    books.isTried = false
    const typicalMs = FIRST_PAUSE_MS * 2 ** books.pausesInRow
    if (sentMs >= books.pausedAtMs) {
      books.pausesInRow++
      books.pausedAtMs = now()
    }
    const [leastMs, mostMs] =
      retryAfterS === undefined ? [typicalMs / 2, typicalMs * 1.5] : [retryAfterS * 1_000, retryAfterS * 1_000]
    const restsMs = health.ejectedForMs(offerId)
    const restedMs = Math.max(books.restsUntilMs, books.pausedUntilMs) - now()
    const isInBounds = (bound: number, isLeast: boolean) => {
      const wholeMs = Math.max(Math.min(bound, PAUSE_MS_MAX), restedMs, 0)
      return isLeast ? restsMs >= wholeMs - CLOCK_MS : restsMs <= Math.max(wholeMs, 1) + CLOCK_MS
    }
    if (!isInBounds(leastMs, true) || !isInBounds(mostMs, false))
      fail('the_busy_rest_as_they_ask', offerId, `${restsMs} ms, not ${leastMs} to ${mostMs}`)
    const pauseMs = retryAfterS === undefined ? restsMs : Math.min(retryAfterS * 1_000, PAUSE_MS_MAX)
    const isHidden = retryAfterS === undefined && books.restsUntilMs > now() && restsMs <= restedMs + CLOCK_MS
    // A shorter one does not end a longer one.
    if (isHidden) books.hiddenPauseUntilMs = Math.max(books.hiddenPauseUntilMs, now() + Math.min(mostMs, PAUSE_MS_MAX))
    else books.pausedUntilMs = Math.max(books.pausedUntilMs, now() + pauseMs)
  }

  function lockedOut(offerId: string): void {
    const event = expectEvent(offerId, 'credential_rejected', 'refused_keys_eject')
    if (event !== undefined && event.forMs !== OUR_FAULT_MS) fail('refused_keys_eject', offerId, `${event.forMs} ms`)
    trip(offerId, OUR_FAULT_MS)
  }

  function failed(offerId: string, isConnection: boolean, sentMs: number): void {
    const books = booksOf(offerId)
    books.isTried = false
    books.faultsInRow++
    books.failedConnectionsInRow = isConnection ? books.failedConnectionsInRow + 1 : 0
    books.results.push({ atMs: now(), isGood: false })
    if (books.isTripped && sentMs < books.trippedAtMs) {
      expectEvent(offerId, undefined, 'trials_begin_after_the_ejection')
      return
    }
    books.successesLeft = TRIAL_SUCCESSES
    if (books.restsUntilMs > now()) {
      // A last resort.
      expectEvent(offerId, undefined, 'an_ejection_counts_once')
      return
    }
    const isOut =
      books.isTripped || books.faultsInRow >= FAULTS_IN_ROW || books.failedConnectionsInRow >= FAILED_CONNECTIONS_IN_ROW
    const rates = RATE_WINDOWS_MS.map(windowMs => isFailingOften(books, windowMs))
    // Where the two readings of "the last minute" differ, either is right.
    const isOpen = !isOut && !rates.every(isFailing => isFailing === rates[0])
    const mustEject = isOut || rates[0] === true
    const event = events[0]
    if (!isOpen) expectEvent(offerId, mustEject ? 'ejected' : undefined, 'faults_eject')
    if (event?.event !== 'ejected') return
    const healthyMs = now() - books.restoredAtMs
    if (!books.isTripped) books.ejections = Math.max(0, books.ejections - Math.floor(healthyMs / FORGIVEN_EVERY_MS))
    const typicalMs = Math.min(FIRST_EJECTION_MS * 2 ** books.ejections++, EJECTION_MS_MAX)
    if (event.forMs < typicalMs / 2 || event.forMs > typicalMs * 1.5)
      fail('ejections_double', offerId, `${event.forMs} ms, not about ${typicalMs}`)
    trip(offerId, event.forMs)
  }

  function trip(offerId: string, forMs: number): void {
    const books = booksOf(offerId)
    books.isTripped = true
    books.trippedAtMs = now()
    books.isTried = false
    books.successesLeft = TRIAL_SUCCESSES
    books.restsUntilMs = now() + forMs
  }

  function isFailingOften({ results }: Books, windowMs: number): boolean {
    let failures = 0
    let all = 0
    for (const { atMs, isGood } of results) {
      if (atMs < now() - windowMs) continue
      all++
      if (!isGood) failures++
    }
    return all >= RATE_REQUESTS_MIN && failures * 2 >= all
  }

  // ---------------------------------------------------------------- what the breaker says of it

  function stateOf({ isTripped, restsUntilMs, pausedUntilMs, isTried }: Books): OfferState {
    if (Math.max(restsUntilMs, pausedUntilMs) > now()) return 'ejected'
    if (!isTripped) return 'open'
    return isTried ? 'ejected' : 'probing'
  }

  function checkState(offerId: string, state: OfferState): void {
    const books = booksOf(offerId)
    const expected = stateOf(books)
    if (state === expected) return
    const restsMs = Math.max(books.restsUntilMs, books.pausedUntilMs) - now()
    // The length of a pause is read back with a rounding error.
    if (Math.abs(restsMs) < CLOCK_MS) return
    const rule =
      restsMs > 0
        ? 'the_ejected_rest'
        : expected === 'ejected'
          ? 'trials_are_one_at_a_time'
          : expected === 'open'
            ? 'the_healthy_are_asked'
            : 'ejections_end_in_a_trial'
    fail(rule, offerId, `${state}, not ${expected}`)
  }

  function checkInFlight(offerId: string): void {
    const { inFlight } = booksOf(offerId)
    if (health.inFlight(offerId) !== inFlight && hasAllAttempts)
      fail('attempts_in_flight_are_counted', offerId, `${health.inFlight(offerId)}, not ${inFlight}`)
  }

  function expectEvent(offerId: string, expected: HealthEvent['event'] | undefined, rule: string) {
    const [event] = events
    if (event?.event !== expected || events.length > 1)
      fail(rule, offerId, `${event?.event ?? 'nothing'}, not ${expected ?? 'nothing'}`)
    return event
  }

  function booksOf(offerId: string): Books {
    let books = offers.get(offerId)
    if (books === undefined) {
      books = {
        inFlight: 0,
        isTripped: false,
        trippedAtMs: 0,
        restsUntilMs: 0,
        pausedUntilMs: 0,
        pausedAtMs: -Infinity,
        hiddenPauseUntilMs: 0,
        isTried: false,
        successesLeft: TRIAL_SUCCESSES,
        ejections: 0,
        restoredAtMs: now(),
        faultsInRow: 0,
        failedConnectionsInRow: 0,
        pausesInRow: 0,
        results: [],
      }
      offers.set(offerId, books)
    }
    return books
  }
}

const CLOCK_MS = 1e-3
