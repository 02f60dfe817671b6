import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { type JsonTally, parseUpstreamJson } from '../json/parse-json.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'

/**
 * Parses the data of a stream event, which must be a JSON object. An `error` event with other data becomes
 * `{message}`. Adds the cost of parsing to `tally`. Throws UpstreamFailure `malformed`.
 */
export function parseStreamEvent(event: SseEvent, tally: JsonTally): JsonObject {
  let body: unknown
  try {
    body = parseUpstreamJson(event.data, tally)
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    if (event.event === 'error') return { message: event.data }
    // Do not pass the error on: V8 quotes the text in it.
    throw new UpstreamFailure('malformed', 'A stream event is not valid JSON.')
  }
  if (isJsonObject(body)) return body
  if (event.event === 'error') return { message: event.data }
  throw new UpstreamFailure('malformed', 'A stream event is not a JSON object.')
}
