import type { ChatCompletion } from '../domain/completion.ts'
import type { Envelope } from '../wire/envelope.ts'
import { normaliseCompletion } from '../wire/upstream-completion.ts'
import { rejectUnreadable } from './ask-stream.ts'
import { failureOfResponse } from './classify.ts'
import type { UpstreamExchange } from './upstream-exchange.ts'

/** The completion in a whole answer that has arrived. Throws UpstreamFailure. */
export function readWhole(exchange: UpstreamExchange, envelope: Envelope, choices: number): ChatCompletion {
  const { status, headers, text } = exchange
  if (status !== 200) throw failureOfResponse(status, headers, text)
  rejectUnreadable(exchange)
  return normaliseCompletion(text, envelope, choices)
}
