import type { Health } from '../src/domain/health.ts'

/** Overrides some methods of a health. It lists all methods because spreading an instance of a class would lose them. */
export function healthWith(health: Health, overrides: Partial<Health>): Health {
  return {
    state: offerId => health.state(offerId),
    ejectedForMs: offerId => health.ejectedForMs(offerId),
    predictMs: (offerId, request) => health.predictMs(offerId, request),
    inFlight: offerId => health.inFlight(offerId),
    beginRequest: offerId => health.beginRequest(offerId),
    endRequest: offerId => health.endRequest(offerId),
    recordSuccess: (...success) => health.recordSuccess(...success),
    recordFailure: (...failure) => health.recordFailure(...failure),
    ...overrides,
  }
}
