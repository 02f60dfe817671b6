import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { Conversation } from '../../../base/domain/conversation.ts'
import type { Endpoint, Offer } from '../../../base/domain/offer.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { eventReader } from '../event-normaliser.ts'
import { fitBody } from '../fit/fit-body.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import { flatToolName } from '../tool-names.ts'
import { conversationFor, rejectedFields } from '../translation/conversation-of.ts'
import type { AnswerReader, UpstreamTask } from '../upstream-task.ts'
import { accountTag, ownSealedItems, ownSeals } from './own-seals.ts'
import { responsesRequestBody } from './upstream-request.ts'
import { readResponse } from './upstream-response.ts'
import { ResponsesDecoder } from './upstream-stream.ts'

/** Servers with OpenAI's Responses API. They store nothing. */
export const upstreamResponses: UpstreamTask = {
  path: '/responses',
  requestBody: (job, offer, maxTokens) => JSON.stringify(requestBody(job, offer, maxTokens)),
  bounds: answerBounds,
  readData: null,
  reader: (_job, { endpoint }) => readerOf(endpoint),
}

function requestBody(job: ChatJob, offer: Offer, maxTokens: number): JsonObject {
  const { endpoint, upstreamModel, quirks } = offer
  const { stream, source } = job
  const conversation = shownTo(job, conversationFor(job, offer), offer)
  const body: JsonObject =
    source?.dialect === 'responses'
      ? { ...ownSealedItems(source.body, endpoint), model: upstreamModel, max_output_tokens: maxTokens, stream }
      : responsesRequestBody(ownSeals(conversation, endpoint), { model: upstreamModel, maxTokens, stream })
  for (const field of rejectedFields(offer)) delete body[field]
  // Models that reason refuse both settings.
  if (quirks?.exclusiveReasoning && conversation.reasoning.effort !== 'none') {
    delete body.temperature
    delete body.top_p
  }
  return fitBody(body, job, offer, 'responses')
}

/**
 * Clients of chat have no field that asks for summaries of the thinking, and show those that come. OpenAI gives them to
 * verified organisations only: `reasoning.summary` among the fields that an endpoint or a model drops asks for none.
 */
function shownTo(job: ChatJob, conversation: Conversation, offer: Offer): Conversation {
  const { effort, isShown } = conversation.reasoning
  const thinks = effort === null ? offer.quirks?.exclusiveReasoning === true : effort !== 'none'
  if (job.source !== undefined || isShown !== null || !thinks) return conversation
  if (rejectedFields(offer).has('reasoning.summary')) return conversation
  return { ...conversation, reasoning: { effort, isShown: true } }
}

const readers = new WeakMap<Endpoint, AnswerReader>()

function readerOf(endpoint: Endpoint): AnswerReader {
  let reader = readers.get(endpoint)
  if (reader === undefined) {
    const account = accountTag(endpoint)
    const tagged = (event: AnswerEvent) => forChat(event, account)
    reader = eventReader({
      decoder: (_envelope, delimitersMax) => new TaggedDecoder(account, delimitersMax),
      whole: (text, _envelope, delimitersMax) => readResponse(text, delimitersMax).map(tagged),
    })
    readers.set(endpoint, reader)
  }
  return reader
}

class TaggedDecoder extends ResponsesDecoder {
  readonly #account: string

  constructor(account: string, delimitersMax: number) {
    super(delimitersMax)
    this.#account = account
  }

  get complete(): boolean {
    return this.done
  }

  override push(event: SseEvent): AnswerEvent[] {
    return super.push(event).map(each => forChat(each, this.#account))
  }
}

/**
 * Names the account in a seal, and gives calls flat names, since chat has no namespaces. The client's encoder knows its
 * own.
 */
function forChat(event: AnswerEvent, account: string): AnswerEvent {
  if (event.kind === 'reasoning_seal') return { ...event, seal: { ...event.seal, account } }
  if (event.kind !== 'tool_start' || event.namespace === undefined) return event
  const { namespace: _, ...call } = event
  return { ...call, name: flatToolName(event) }
}
