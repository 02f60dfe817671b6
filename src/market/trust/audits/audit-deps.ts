import type { Pool } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import type { OwnCanary } from '../../../base/domain/own-canary.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import type { RelatedHosters } from '../related-hosters.ts'
import type { BeginVisit } from './ask-offer.ts'
import type { CustomerShares } from './customer-shares.ts'
import type { MannersDeps } from './draw-manners.ts'
import type { GrowDeps } from './grow-prompt.ts'
import type { RelatedCustomers } from './related-customers.ts'
import type { SeenConversations } from './seen-conversations.ts'
import type { SharedRequests } from './shared-requests.ts'

export interface AuditDeps extends GrowDeps, MannersDeps {
  readonly pool: Pool
  readonly clock: Clock
  /** The offers that are live now. */
  readonly offers: () => readonly Offer[]
  readonly beginVisit: BeginVisit
  /** Names of endpoints that serve as references, besides local servers. Null: all clouds. */
  readonly references: readonly string[] | null
  /** Whether the server of an offer fails, so that it gets no requests for now. */
  readonly isAway: (offer: Offer) => boolean
  /** Prompts of the operator. */
  readonly ownCanaries: readonly OwnCanary[]
  /** Requests of customers that share them. */
  readonly shared: Pick<SharedRequests, 'take' | 'hasTaken' | 'isShared' | 'conversations'>
  readonly seen: Pick<SeenConversations, 'seenBy' | 'claim'>
  /** What the house pays for them. */
  readonly shares: Pick<CustomerShares, 'isAffordable' | 'whoCanPay'>
  /** Estimates what a chat request costs at an offer at most. */
  readonly estimateNanos: (offer: Offer, body: object) => Nanos
  readonly relatedCustomers: RelatedCustomers
  readonly relatedHosters: RelatedHosters
}

/** What one audit can use besides. */
export interface RunningAudit extends AuditDeps {
  /** Waits between two requests, ms. Resolves early at a shutdown; then no offer answers any more. */
  readonly pause: (ms: number) => Promise<void>
}
