import { addRouting } from '../base/domain/add-routing.ts'
import type { Caller } from '../base/domain/caller.ts'
import type { ChatJob } from '../base/domain/chat-job.ts'
import type { GenerationRequest } from './generation-exchange.ts'
import { readRoutingHeaders } from './routing-headers.ts'

/**
 * Adds what the headers and the key say to a parsed job, whatever dialect it came in: routing fields, the label, the wait for credit and the session.
 * Returns the job itself when they say nothing, as for most requests. Throws `invalid_header`.
 */
export function requestedJob(
  parsed: ChatJob,
  request: Pick<GenerationRequest, 'header' | 'switchyardHeaders'>,
  { access: { defaults } }: Caller,
): ChatJob {
  const { switchyardHeaders } = request
  let job = parsed
  if (switchyardHeaders !== null) {
    const { routing, ...own } = readRoutingHeaders(switchyardHeaders)
    job = { ...addRouting(job, routing, 'header'), ...own }
  }
  if (defaults !== null) job = addRouting(job, defaults, 'key')
  const session = job.sessionKey ?? sessionOf(request)
  return session === job.sessionKey ? job : { ...job, sessionKey: session }
}

/** Codex sends the first of these headers, opencode the second, Claude Code the third. */
function sessionOf(request: Pick<GenerationRequest, 'header'>): string | null {
  return (
    request.header('session-id') || request.header('x-session-id') || request.header('x-claude-code-session-id') || null
  )
}
