import type { AnswerEvent, AnswerFinish } from '../../../base/domain/answer-event.ts'
import type { FinishReason } from '../../../base/domain/completion.ts'

type Finish = Extract<AnswerEvent, { kind: 'finish' }>
type FinishFields = { finish_reason: FinishReason; stop_reason?: string; native_finish_reason?: string }

/** The name that OpenRouter and Anthropic give to the end of a context. */
const CONTEXT_FULL = 'model_context_window_exceeded'

const reasons: Readonly<Record<AnswerFinish, FinishReason>> = {
  end: 'stop',
  stop_sequence: 'stop',
  limit: 'length',
  tools: 'tool_calls',
  refused: 'content_filter',
  context_full: 'length',
}

/**
 * Returns the fields of a choice that say how its answer ended. The stop sequence stands in `stop_reason`, as vLLM sends
 * it, and the end of a context in `native_finish_reason`, as OpenRouter sends it.
 */
export function finishFields({ reason, stopSequence }: Finish): FinishFields {
  return {
    finish_reason: reasons[reason],
    ...(stopSequence !== undefined && { stop_reason: stopSequence }),
    ...(reason === 'context_full' && { native_finish_reason: CONTEXT_FULL }),
  }
}

/** Reads how the answer of a choice ended. */
export function readFinish(choice: { readonly [field: string]: unknown }, hasCalls: boolean): Finish {
  const { finish_reason: reason, stop_reason: stopSequence, native_finish_reason: native } = choice
  switch (reason) {
    case 'length':
      return { kind: 'finish', reason: native === CONTEXT_FULL ? 'context_full' : 'limit' }
    case 'content_filter':
      return { kind: 'finish', reason: 'refused' }
    default:
      // vLLM names a stop token by its number, which is no sequence of the request.
      if (hasCalls) return { kind: 'finish', reason: 'tools' }
      if (reason !== 'stop' || typeof stopSequence !== 'string') return { kind: 'finish', reason: 'end' }
      return { kind: 'finish', reason: 'stop_sequence', stopSequence }
  }
}
