import type { FinishReason } from '../../../base/domain/completion.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'

const known = new Map<string, FinishReason>([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_calls', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'function_call'],
  ['content_filter', 'content_filter'],
  ['safety', 'content_filter'],
  ['recitation', 'content_filter'],
  ['prohibited_content', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['refusal', 'content_filter'],
])

/**
 * Reasons that report a broken-off answer: OpenRouter and Mistral send `error`, vLLM and SGLang `abort` (vLLM issue
 * 57082, SGLang pull request 2956), Zhipu `network_error` (LiteLLM issue 23386), DeepSeek
 * `insufficient_system_resource`.
 */
const failures = new Set(['error', 'abort', 'aborted', 'cancelled', 'network_error', 'insufficient_system_resource'])

/**
 * Maps an upstream's finish_reason to one of OpenAI's; unknown reasons become `stop`. Returns null if `value` is
 * null, undefined or empty. Throws UpstreamFailure if the reason reports a broken-off answer.
 */
export function readFinishReason(value: unknown): FinishReason | null {
  if (value === null || value === undefined || value === '') return null
  const reason = typeof value === 'string' ? value.toLowerCase() : ''
  if (reason === 'null') return null
  if (failures.has(reason)) throw new UpstreamFailure('server_error', 'The upstream ended its answer with an error.')
  return known.get(reason) ?? 'stop'
}

/** Corrects `stop` after tool calls, which Gemini sends: clients would never run the calls. */
export function finishReasonAfter(reason: FinishReason, calledTools: boolean): FinishReason {
  return reason === 'stop' && calledTools ? 'tool_calls' : reason
}
