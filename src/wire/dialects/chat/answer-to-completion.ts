import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import {
  type ChatCompletion,
  type CompletionChoice,
  citedText,
  type Envelope,
} from '../../../base/domain/completion.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { chatAnnotation } from './annotations.ts'
import { callSealField } from './call-seal.ts'
import { finishFields } from './finish.ts'
import { reasoningDetail } from './reasoning-details.ts'
import { toolsetField } from './tool-calls.ts'
import { tokenUsage } from './usage.ts'

/** Returns the completion that a chat server would send for the events of a whole answer. */
export function answerToCompletion(events: readonly AnswerEvent[], envelope: Envelope): ChatCompletion {
  const message: CompletionChoice['message'] = { role: 'assistant', content: null, refusal: null }
  const details: JsonObject[] = []
  const calls: CollectedCall[] = []
  const annotations: JsonObject[] = []
  let ending: Pick<CompletionChoice, 'finish_reason'> = { finish_reason: 'stop' }
  let usage: ChatCompletion['usage']
  let reasoning = ''
  let isCited = false
  for (const event of events) {
    switch (event.kind) {
      case 'text':
        message.content = (message.content ?? '') + event.text
        break
      case 'citation':
        isCited = true
        break
      case 'annotation':
        annotations.push(chatAnnotation(event.annotation))
        break
      case 'refusal':
        message.refusal = ((message.refusal as string | null) ?? '') + event.text
        break
      case 'reasoning':
        reasoning += event.text
        message.reasoning_content = ((message.reasoning_content as string | undefined) ?? '') + event.text
        break
      case 'reasoning_seal':
        details.push(reasoningDetail(reasoning, event.seal, details.length, event.id))
        reasoning = ''
        break
      case 'tool_start':
        calls.push({ start: event, text: '' })
        break
      case 'tool_arguments':
        elementAt(calls, calls.length - 1).text += event.text
        break
      case 'finish':
        ending = finishFields(event)
        break
      case 'usage':
        usage = tokenUsage(event.usage)
    }
  }
  if (isCited) message[citedText] = events.filter(isTextEvent)
  if (annotations.length > 0) message.annotations = annotations
  if (details.length > 0) message.reasoning_details = [...details, ...unsealedDetail(reasoning, details.length)]
  if (calls.length > 0) message.tool_calls = calls.map(writeCall)
  const { id, created, model } = envelope
  const choices = [{ index: 0, message, logprobs: null, ...ending }]
  return { id, object: 'chat.completion', created, model, choices, ...(usage && { usage }) }
}

function isTextEvent(event: AnswerEvent): event is Extract<AnswerEvent, { kind: 'text' | 'text_start' | 'citation' }> {
  return event.kind === 'text' || event.kind === 'text_start' || event.kind === 'citation'
}

/** Reasoning that no server sealed, next to reasoning that one did. */
function unsealedDetail(text: string, index: number): JsonObject[] {
  return text === '' ? [] : [{ type: 'reasoning.text', text, format: 'unknown', index }]
}

interface CollectedCall {
  readonly start: Extract<AnswerEvent, { kind: 'tool_start' }>
  text: string
}

function writeCall({ start: { id, name, toolKind, toolset, seal }, text }: CollectedCall): JsonObject {
  const called = toolKind === 'custom' ? { custom: { name, input: text } } : { function: { name, arguments: text } }
  return { id, type: toolKind, ...called, ...toolsetField(toolset), ...callSealField(seal) }
}
