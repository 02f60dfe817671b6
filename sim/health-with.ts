import type { Health } from '../src/domain/health.ts'

/** The same health, but for what `instead` does. It is not spread: the methods of a class are not its own. */
export function healthWith(health: Health, instead: Partial<Health>): Health {
  return {
    state: offerId => health.state(offerId),
    ejectedForMs: offerId => health.ejectedForMs(offerId),
    predictMs: (offerId, request) => health.predictMs(offerId, request),
    inFlight: offerId => health.inFlight(offerId),
    beginRequest: offerId => health.beginRequest(offerId),
    endRequest: offerId => health.endRequest(offerId),
    recordSuccess: (...success) => health.recordSuccess(...success),
    recordFailure: (...failure) => health.recordFailure(...failure),
    ...instead,
  }
}
