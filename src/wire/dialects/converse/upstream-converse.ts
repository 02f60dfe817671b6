import type { ChatJob } from '../../../base/domain/chat-job.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import { eventReader } from '../event-normaliser.ts'
import { messagesTarget } from '../messages/upstream-messages.ts'
import { ToolNames } from '../tool-names.ts'
import { ClientToolCalls } from '../translated-stream.ts'
import { conversationFor, conversationOf, hasCustomTools } from '../translation/conversation-of.ts'
import type { AnswerReader, UpstreamTask } from '../upstream-task.ts'
import { ConverseDecoder, readConverseAnswer } from './converse-decoder.ts'
import { EventStreamDecoder } from './event-stream-decoder.ts'
import { conversePath, converseRequestBody } from './upstream-request.ts'

/** Amazon Bedrock's Converse, which serves models of all vendors. Streams are binary. */
export const upstreamConverse: UpstreamTask = {
  path: conversePath,
  headers: ['accept: application/vnd.amazon.eventstream, application/json'],
  requestBody: (job, offer, maxTokens) =>
    JSON.stringify(converseRequestBody(conversationFor(job, offer), messagesTarget(job, offer, maxTokens))),
  bounds: answerBounds,
  readData: null,
  reader,
}

function reader(job: ChatJob): AnswerReader {
  const names = hasCustomTools(job) ? new ToolNames(conversationOf(job)) : null
  const calls = () => names && new ClientToolCalls(names)
  return {
    ...eventReader({
      decoder: (_envelope, delimitersMax) => new ConverseDecoder(delimitersMax, calls()),
      whole: (text, _envelope, delimitersMax) => readConverseAnswer(text, calls(), delimitersMax),
    }),
    eventDecoder: (eventBytesMax, account) => new EventStreamDecoder(eventBytesMax, account),
  }
}
