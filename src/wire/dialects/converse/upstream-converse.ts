import { type ChatJob, fitOf } from '../../../base/domain/chat-job.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { eventReader } from '../event-normaliser.ts'
import { fitBody } from '../fit/fit-body.ts'
import { messagesTarget, noteSettings } from '../messages/upstream-messages.ts'
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
  requestBody: (job, offer, maxTokens) => {
    const conversation = conversationFor(job, offer)
    const fit = (body: JsonObject) =>
      fitBody(body, job, offer, 'converse', fit => noteSettings(fit, conversation, body))
    return JSON.stringify(converseRequestBody(conversation, messagesTarget(job, offer, maxTokens), fit))
  },
  bounds: answerBounds,
  readData: null,
  reader,
}

function reader(job: ChatJob, offer: Offer): AnswerReader {
  const names = hasCustomTools(job) ? new ToolNames(conversationOf(job), fitOf(job, offer)?.names) : null
  const calls = () => names && new ClientToolCalls(names)
  return {
    ...eventReader({
      decoder: (_envelope, delimitersMax) => new ConverseDecoder(delimitersMax, calls()),
      whole: (text, _envelope, delimitersMax) => readConverseAnswer(text, calls(), delimitersMax),
    }),
    eventDecoder: (eventBytesMax, account) => new EventStreamDecoder(eventBytesMax, account),
  }
}
