import type { AnswerFinish } from '../../../base/domain/answer-event.ts'

const finishes: Readonly<Record<string, AnswerFinish>> = {
  end_turn: 'end',
  stop_sequence: 'stop_sequence',
  max_tokens: 'limit',
  tool_use: 'tools',
  refusal: 'refused',
  model_context_window_exceeded: 'context_full',
}

const stopReasons: Readonly<Record<AnswerFinish, string>> = {
  end: 'end_turn',
  stop_sequence: 'stop_sequence',
  limit: 'max_tokens',
  tools: 'tool_use',
  refused: 'refusal',
  context_full: 'model_context_window_exceeded',
}

/**
 * Reads `stop_reason`. Unknown ones are ends, among them `pause_turn`, which needs tools of the server. Calls win over
 * an end: clients would never run them.
 */
export function readStopReason(reason: string, hasCalls: boolean): AnswerFinish {
  const finish = (Object.hasOwn(finishes, reason) ? finishes[reason] : undefined) ?? 'end'
  if (finish === 'end' || finish === 'tools') return hasCalls ? 'tools' : 'end'
  return finish
}

/** Returns the `stop_reason` for a finish. */
export function stopReasonOf(finish: AnswerFinish): string {
  return stopReasons[finish]
}
