import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { clientCallName } from '../tool-names.ts'
import { functionCallOf, isClientCall } from './client-tools.ts'
import { movedAnnotation, textLength } from './output-part.ts'

/**
 * Returns the events of a whole output item. None for items of tools that a server runs.
 *
 * @param textBefore the characters of text in the items before it
 */
export function outputItemEvents(item: JsonObject, textBefore: number): AnswerEvent[] {
  switch (item.type) {
    case 'message':
      return eachPart(item, textBefore, contentEvents)
    case 'reasoning': {
      const text = reasoningText(item)
      return [...(text === '' ? [] : [{ kind: 'reasoning' as const, text }]), ...reasoningEnd(item)]
    }
    case 'function_call':
    case 'custom_tool_call':
    case 'apply_patch_call':
    case 'shell_call':
    case 'local_shell_call':
    case 'computer_call': {
      const text = callText(item)
      const written: AnswerEvent[] = text === '' ? [] : [{ kind: 'tool_arguments', text }]
      return [callStart(item), ...written, { kind: 'tool_end' }]
    }
    default:
      return []
  }
}

/** Returns the event that starts a call. */
export function callStart(item: JsonObject): AnswerEvent {
  const { namespace } = item
  return {
    kind: 'tool_start',
    id: text(item.call_id) || text(item.id),
    name: isClientCall(item) ? clientCallName(functionCallOf(item).name) : text(item.name),
    ...(typeof namespace === 'string' && { namespace }),
    toolKind: item.type === 'custom_tool_call' ? 'custom' : 'function',
  }
}

/** Returns the arguments of a function call or the input of a custom call. */
export function callText(item: JsonObject): string {
  if (isClientCall(item)) return functionCallOf(item).arguments
  return text(item.type === 'custom_tool_call' ? item.input : item.arguments)
}

/** Returns the seal that ends a reasoning item, if it has one. */
export function reasoningEnd({ encrypted_content: data }: JsonObject): AnswerEvent[] {
  return typeof data === 'string' && data !== '' ? [{ kind: 'reasoning_seal', seal: { family: 'openai', data } }] : []
}

/** Joins the summary of a reasoning item, or its full text, which servers of open models send. */
function reasoningText({ summary, content }: JsonObject): string {
  const parts = list(summary).length > 0 ? list(summary) : list(content)
  return parts.map(part => text(part.text)).join('\n\n')
}

function contentEvents(part: JsonObject, textBefore: number): AnswerEvent[] {
  if (part.type === 'refusal') return text(part.refusal) === '' ? [] : [{ kind: 'refusal', text: text(part.refusal) }]
  const said: AnswerEvent[] = text(part.text) === '' ? [] : [{ kind: 'text', text: text(part.text) }]
  return [...said, ...annotationEvents(part, textBefore)]
}

/** Returns the annotations of a part of a message, after so many characters of text. */
function annotationEvents({ annotations }: JsonObject, textBefore: number): AnswerEvent[] {
  return list(annotations).map(each => ({ kind: 'annotation', annotation: movedAnnotation(each, textBefore) }))
}

/** Returns the annotations of a whole message, after so many characters of text. */
export function messageAnnotations(item: JsonObject, textBefore: number): AnswerEvent[] {
  return eachPart(item, textBefore, annotationEvents)
}

function eachPart(
  { content }: JsonObject,
  textBefore: number,
  eventsOf: (part: JsonObject, textBefore: number) => AnswerEvent[],
): AnswerEvent[] {
  const events: AnswerEvent[] = []
  let before = textBefore
  for (const part of list(content)) {
    events.push(...eventsOf(part, before))
    before += textLength([part])
  }
  return events
}

function list(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
