import type { AttemptFailure } from '../../base/domain/attempt-failure.ts'
import type { Ticket } from '../../base/domain/handoff.ts'
import type { UpstreamFailure } from '../../base/domain/upstream-failure.ts'

type Failed = Pick<UpstreamFailure, 'message' | 'status' | 'upstreamMessage'>
type FailedTicket = { readonly requestId: string; readonly caller: Pick<Ticket['caller'], 'customerId'> }

/**
 * Returns what the operator may see of a failed attempt. The text of the server is left out if it quotes the request,
 * because prompts are not stored. A quote of a few words may pass.
 *
 * @param sent.body what the server got
 * @param sent.names names of the model, which may be quoted
 */
export function attemptFailure(
  failure: Failed,
  ticket: FailedTicket,
  sent: { readonly body: string; readonly names: readonly string[] },
): AttemptFailure {
  return { ...streamFailure(failure, ticket), serverText: () => unquoting(failure.upstreamMessage, sent) }
}

/** The same of a stream that broke after its first content: its error may quote the answer, so its text is left out. */
export function streamFailure({ message, status }: Failed, { requestId, caller }: FailedTicket): AttemptFailure {
  return { message, status, requestId, customerId: caller.customerId, serverText: () => null }
}

/** A quote of this many characters is noticed. Shorter ones are words that every request has. */
export const QUOTE_CHARACTERS = 24
const STEP = QUOTE_CHARACTERS / 2
const TEXT_CHARACTERS_MAX = 240
/** A longer request would take more than some milliseconds to search. */
const BODY_CHARACTERS_MAX = 262_144

function unquoting(
  said: string | undefined,
  { body, names }: { readonly body: string; readonly names: readonly string[] },
): string | null {
  if (said === undefined || body.length > BODY_CHARACTERS_MAX) return null
  // The end may cut an emoji in half, which PostgreSQL refuses in JSON.
  const text = said.slice(0, TEXT_CHARACTERS_MAX).toWellFormed()
  // A model is named in its request too.
  const own = names.reduce((rest, name) => rest.replaceAll(name, ' '), text)
  // Any quote of QUOTE_CHARACTERS contains one of these pieces whole.
  for (let at = 0; at + STEP <= own.length; at += STEP) if (body.includes(own.slice(at, at + STEP))) return null
  return text
}
