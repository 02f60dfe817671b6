import type { Health } from '../src/base/domain/health.ts'

/** Overrides some methods of a health. It lists all methods because spreading an instance of a class would lose them. */
export function healthWith(health: Health, overrides: Partial<Health>): Health {
  return {
    state: offerId => health.state(offerId),
    ejectedForMs: offerId => health.ejectedForMs(offerId),
    predictMs: (offerId, request) => health.predictMs(offerId, request),
    firstTokenP95Ms: (offerId, inputTokens) => health.firstTokenP95Ms(offerId, inputTokens),
    inFlight: offerId => health.inFlight(offerId),
    read: (offerId, request, limits) => health.read(offerId, request, limits),
    beginRequest: offerId => health.beginRequest(offerId),
    noteContent: offerId => health.noteContent(offerId),
    endRequest: (offerId, hadContent) => health.endRequest(offerId, hadContent),
    recordSuccess: (...success) => health.recordSuccess(...success),
    recordFailure: (...failure) => health.recordFailure(...failure),
    ...overrides,
  }
}
