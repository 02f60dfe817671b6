import type { ExpectedAnswer } from '../dialects/chat/empty-answer.ts'
import type { Envelope } from '../dialects/chat/envelope.ts'
import { normaliseCompletion } from '../dialects/chat/upstream-completion.ts'
import type { ChatCompletion } from '../domain/completion.ts'
import type { UpstreamExchange } from '../upstreams/upstream-exchange.ts'
import { rejectUnreadable } from './ask-stream.ts'
import { failureOfResponse } from './classify.ts'

/** The completion in a whole answer that has arrived. Throws UpstreamFailure. */
export function readWhole(exchange: UpstreamExchange, envelope: Envelope, expected: ExpectedAnswer): ChatCompletion {
  const { head, text } = exchange
  if (head.status !== 200) throw failureOfResponse(head, text)
  rejectUnreadable(head)
  return normaliseCompletion(text, envelope, expected)
}
