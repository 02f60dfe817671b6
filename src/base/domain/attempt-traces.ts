import type { ChatJob } from './chat-job.ts'
import type { Offer } from './offer.ts'
import type { UpstreamFailure } from './upstream-failure.ts'

/** Observes the attempts of requests, for traces. Its methods neither throw nor wait. */
export interface AttemptTraces {
  /**
   * An attempt begins. Returns lines of the head that pass the trace on; undefined for a server that learns nothing of
   * it.
   */
  attempted(requestId: string, offer: Offer, job: ChatJob): readonly string[] | undefined
  /** The attempt that began last has failed before its first content. */
  failed(requestId: string, failure: Pick<UpstreamFailure, 'outcome' | 'status'>): void
}
