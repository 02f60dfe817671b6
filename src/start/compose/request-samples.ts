import type { ChatJob } from '../../base/domain/chat-job.ts'
import { MINUTE_MS } from '../../base/domain/durations.ts'
import { createPeriodicCheck } from '../../base/runtime/scheduler.ts'
import { sharingCustomers } from '../../identity/people/request-sharing.ts'
import { createRequestSamples, type RequestSamples } from '../../market/trust/audits/request-samples.ts'
import {
  createConversationNames,
  createSeenConversations,
  type SeenConversations,
} from '../../market/trust/audits/seen-conversations.ts'
import type { Callers } from './callers.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

export interface StartedSamples extends RequestSamples {
  readonly seen: SeenConversations
  /** Notes that a hoster is sent a request of a customer that shares its requests. */
  readonly onSent: (customerId: string, job: ChatJob, hosterId: string) => void
}

/** Creates what audits learn from the requests of customers. The conductor feeds it, and audits use the conductor. */
export function startRequestSamples(
  { clock, random, scheduler, log, masterKeys, started }: ComposeContext,
  { lookups, general }: Database,
  { changes }: Callers,
): StartedSamples {
  const nameConversation = createConversationNames(masterKeys.derived('conversations that hosters have seen'))
  const seen = createSeenConversations({ pool: general, scheduler, log })
  started.defer(() => seen.stop())
  const samples = createRequestSamples(clock, random, nameConversation)
  const { shared } = samples
  // A customer that no longer shares its requests, or is disabled, takes back those that are kept.
  changes.onChange('access', async () => {
    const customers = shared.customers()
    if (customers.length > 0) shared.keepOnly(await sharingCustomers(lookups, customers))
  })
  // Taking one drops old ones too, but a node without audits never takes any.
  const expiry = createPeriodicCheck(scheduler, MINUTE_MS, () => {
    shared.dropExpired()
    return true
  })
  expiry.start()
  started.defer(() => expiry.stop())
  return {
    ...samples,
    seen,
    onSent(customerId, job, hosterId) {
      // Nothing of such a request is kept, so no audit repeats it.
      if (job.constraints.privacyMode) return
      const conversation = nameConversation(customerId, job)
      if (conversation !== null) seen.note(conversation, hosterId)
    },
  }
}
