import type { Health } from '../../../base/domain/health.ts'
import type { LearnedOffer } from './learned-offer.ts'
import type { OfferReport } from './offer-report.ts'

/** Health with a report over all offers that this node has used, or has heard of from other nodes. */
export interface OwnHealth extends Health {
  report(): OfferReport[]
  /** Returns what this node has learned since the last call, for the other nodes: at most `max` offers. */
  takeChanges(max: number): ReadonlyMap<string, LearnedOffer>
  /** Marks offers as changed again, because their changes could not be written. */
  returnChanges(offerIds: Iterable<string>): void
  /**
   * Takes in what other nodes have learned; null: they no longer report the offer.
   */
  adopt(offerId: string, learned: LearnedOffer | null): void
}
