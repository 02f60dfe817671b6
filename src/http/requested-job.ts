import { addRouting } from '../domain/add-routing.ts'
import type { Caller } from '../domain/caller.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { GenerationRequest } from './generation-exchange.ts'
import { readRoutingHeaders } from './routing-headers.ts'

/**
 * Adds the routing fields of the headers and of the key to a parsed job, whatever dialect it came in. Returns the job
 * itself when there are none, as for most requests. Throws `invalid_header`.
 */
export function requestedJob(
  parsed: ChatJob,
  { switchyardHeaders }: Pick<GenerationRequest, 'switchyardHeaders'>,
  { access: { defaults } }: Caller,
): ChatJob {
  const job = switchyardHeaders === null ? parsed : addRouting(parsed, readRoutingHeaders(switchyardHeaders), 'header')
  return defaults === null ? job : addRouting(job, defaults, 'key')
}
