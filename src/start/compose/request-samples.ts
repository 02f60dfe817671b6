import { sharingCustomers } from '../../people/request-sharing.ts'
import { createRequestSamples, type RequestSamples } from '../../trust/audits/request-samples.ts'
import type { Callers } from './callers.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** Creates what audits learn from the requests of customers. The conductor feeds it, and audits use the conductor. */
export function startRequestSamples(
  { clock, random }: ComposeContext,
  { lookups }: Database,
  { changes }: Callers,
): RequestSamples {
  const samples = createRequestSamples(clock, random)
  const { shared } = samples
  // A customer that no longer shares its requests, or is disabled, takes back those that are kept.
  changes.onChange('access', async () => {
    const customers = shared.customers()
    if (customers.length > 0) shared.keepOnly(await sharingCustomers(lookups, customers))
  })
  return samples
}
