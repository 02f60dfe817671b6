import type { ChatCompletion } from '../domain/completion.ts'
import type { Envelope } from '../wire/envelope.ts'
import { normaliseCompletion } from '../wire/upstream-completion.ts'
import type { Expected } from '../wire/wordless-answer.ts'
import { rejectUnreadable } from './ask-stream.ts'
import { failureOfResponse } from './classify.ts'
import type { UpstreamExchange } from './upstream-exchange.ts'

/** The completion in a whole answer that has arrived. Throws UpstreamFailure. */
export function readWhole(exchange: UpstreamExchange, envelope: Envelope, expected: Expected): ChatCompletion {
  const { head, text } = exchange
  if (head.status !== 200) throw failureOfResponse(head, text)
  rejectUnreadable(head)
  return normaliseCompletion(text, envelope, expected)
}
