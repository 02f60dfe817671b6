import type { AnswerEvent, AnswerFinish, UsageParts } from '../../../base/domain/answer-event.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { OutputBuilder } from './output-builder.ts'
import type { ResponseSettings } from './response-settings.ts'
import { responseUsage } from './response-usage.ts'

/** How a response ended, or that it has not. */
export interface ResponseState {
  readonly status: 'in_progress' | 'completed' | 'incomplete' | 'failed'
  readonly output: readonly JsonObject[]
  readonly incompleteReason?: 'max_output_tokens' | 'content_filter'
  readonly error?: { readonly code: string; readonly message: string }
  readonly usage?: JsonObject
}

/**
 * Returns the response object of one answer.
 *
 * @param envelope its id is `resp_` followed by the request id
 */
export function responseResource(
  { id, created, model }: Envelope,
  settings: ResponseSettings,
  state: ResponseState,
): JsonObject {
  return {
    id,
    object: 'response',
    created_at: created,
    completed_at: state.status === 'completed' ? Math.floor(Date.now() / 1000) : null,
    status: state.status,
    error: state.error ?? null,
    incomplete_details: state.incompleteReason === undefined ? null : { reason: state.incompleteReason },
    model,
    output: state.output,
    usage: state.usage ?? null,
    ...settings.fields,
  }
}

/** Returns the ending that a finish reason means in this dialect. */
export function endingOf(finish: AnswerFinish): Pick<ResponseState, 'status' | 'incompleteReason'> {
  if (finish === 'limit' || finish === 'context_full') {
    return { status: 'incomplete', incompleteReason: 'max_output_tokens' }
  }
  return finish === 'refused' ? { status: 'incomplete', incompleteReason: 'content_filter' } : { status: 'completed' }
}

/**
 * Returns the whole response of an answer.
 *
 * @param events all events of the answer
 * @param usage the billed usage; default: what the events report
 * @param extraUsage further fields of `usage`, such as the cost
 */
export function wholeResponse(
  envelope: Envelope,
  settings: ResponseSettings,
  events: readonly AnswerEvent[],
  { usage, extraUsage }: { usage?: UsageParts; extraUsage?: JsonObject } = {},
): JsonObject {
  const builder = new OutputBuilder(itemIdSuffix(envelope), settings.searchTool, null)
  let finish: AnswerFinish = 'end'
  let billed = usage
  for (const event of events) {
    if (event.kind === 'finish') finish = event.reason
    else if (event.kind === 'usage') billed ??= event.usage
    else builder.push(event)
  }
  const ending = endingOf(finish)
  builder.close(ending.status === 'incomplete' ? 'incomplete' : 'completed')
  const state = {
    ...ending,
    output: builder.items,
    ...(billed && { usage: { ...responseUsage(billed), ...extraUsage } }),
  }
  return responseResource(envelope, settings, state)
}

/** Returns the end of the ids of an answer's items. */
export function itemIdSuffix({ id }: Envelope): string {
  return `${id.slice(id.indexOf('_') + 1).replaceAll('-', '')}_`
}
