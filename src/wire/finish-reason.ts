import type { FinishReason } from '../domain/completion.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'

const known = new Map<string, FinishReason>([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'function_call'],
  ['content_filter', 'content_filter'],
  ['safety', 'content_filter'],
])

/**
 * One of OpenAI's reasons for whatever an upstream says; null while it says nothing (null, absent or empty).
 * `calledTools`: Gemini says "stop" after tool calls, and clients then never run them.
 * Throws UpstreamFailure for OpenRouter's "error": the answer broke off.
 */
export function readFinishReason(value: unknown, calledTools: boolean): FinishReason | null {
  if (value === null || value === undefined || value === '') return null
  const said = typeof value === 'string' ? value.toLowerCase() : ''
  if (said === 'error') throw new UpstreamFailure('server_error', 'The upstream ended its answer with an error.')
  const reason = known.get(said) ?? 'stop'
  return reason === 'stop' && calledTools ? 'tool_calls' : reason
}
