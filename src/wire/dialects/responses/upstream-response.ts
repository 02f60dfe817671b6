import type { AnswerEvent, AnswerFinish } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { classifyError } from '../chat/classify-error.ts'
import { readUpstreamError } from '../chat/upstream-error.ts'
import { parseUpstreamObject } from '../json/parse-json.ts'
import { outputItemEvents } from './output-item-events.ts'
import { messageParts, textLength } from './output-part.ts'
import { readResponseUsage } from './response-usage.ts'

/**
 * Reads the whole answer (status 200) of a Responses server. Throws UpstreamFailure: `malformed` if it is not a
 * response, or the outcome of the error in it.
 *
 * @param delimitersMax the most delimiters in the JSON; see AnswerBounds
 */
export function readResponse(text: string, delimitersMax?: number): AnswerEvent[] {
  const response = parseUpstreamObject(text, delimitersMax)
  const error = readUpstreamError(response)
  if (error) throw classifyError(null, error)
  if (!Array.isArray(response.output)) throw new UpstreamFailure('malformed', 'The answer has no output.')
  const items = response.output.filter(isJsonObject)
  const events: AnswerEvent[] = []
  let length = 0
  for (const item of items) {
    events.push(...outputItemEvents(item, length))
    length += textLength(messageParts([item]))
  }
  const hasCalls = events.some(event => event.kind === 'tool_start')
  events.push({ kind: 'finish', reason: responseFinish(response, hasCalls) })
  const usage = readResponseUsage(response)
  if (usage) events.push({ kind: 'usage', usage })
  return events
}

/**
 * Returns why a response ended. Throws UpstreamFailure if it failed or has not ended.
 *
 * @param hasCalls the answer has a tool call
 */
export function responseFinish(response: JsonObject, hasCalls: boolean): AnswerFinish {
  const { status, incomplete_details: details } = response
  if (status === 'incomplete') {
    const reason = isJsonObject(details) ? details.reason : undefined
    return reason === 'content_filter' ? 'refused' : 'limit'
  }
  // Servers of open models leave the status out.
  if (status === 'completed' || status === undefined || status === null) return hasCalls ? 'tools' : 'end'
  throw responseFailure(response)
}

/** Returns the failure of a response that did not end well, or of an `error` event. */
export function responseFailure(body: JsonObject): UpstreamFailure {
  // An error event has its fields next to the type or, at some servers, in `error`.
  const error = readUpstreamError(isJsonObject(body.error) ? { error: body.error } : { message: body.message }, true)
  const code = isJsonObject(body.error) ? error.code : typeof body.code === 'string' ? body.code : null
  return classifyError(null, { ...error, type: error.type === 'error' ? null : error.type, code })
}
