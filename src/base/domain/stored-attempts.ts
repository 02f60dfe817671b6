import type { Attempt } from './handoff.ts'
import type { ProviderKind } from './offer.ts'

/**
 * Attempts as usage rows and journals store them. A number stands for the usual case: the server that the row names
 * answered the first attempt, after that many milliseconds. It takes 4 bytes instead of 130.
 */
export type StoredAttempts = readonly Attempt[] | number

/** The server that the row names. */
export interface Server {
  readonly endpointId: string | null
  readonly provider: ProviderKind | 'none'
  readonly modelId: string
}

export function storeAttempts(attempts: readonly Attempt[], server: Server): StoredAttempts {
  const [attempt] = attempts
  if (attempt === undefined || attempts.length > 1) return attempts
  const { offerId, endpointId, provider, outcome, elapsedMs, breaches } = attempt
  const isUsual =
    outcome === 'answered' &&
    breaches === undefined &&
    endpointId === server.endpointId &&
    provider === server.provider &&
    offerId === offerIdOf(endpointId, server.modelId)
  return isUsual ? elapsedMs : attempts
}

export function readAttempts(stored: StoredAttempts, { endpointId, provider, modelId }: Server): readonly Attempt[] {
  if (typeof stored !== 'number') return stored
  // Only a server that answered is stored as a number.
  const [endpoint, kind] = [endpointId!, provider as ProviderKind]
  const offerId = offerIdOf(endpoint, modelId)
  return [{ offerId, endpointId: endpoint, provider: kind, outcome: 'answered', elapsedMs: stored }]
}

function offerIdOf(endpointId: string, modelId: string): string {
  return `${endpointId}/${modelId}`
}
