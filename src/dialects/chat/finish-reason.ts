import type { FinishReason } from '../../domain/completion.ts'
import { UpstreamFailure } from '../../domain/upstream-failure.ts'

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
 * The answer broke off, and the server says so in the one field that others have for good ends: OpenRouter and Mistral (`error`), vLLM and SGLang
 * (`abort`: vLLM issue 57082, SGLang pull request 2956), Zhipu (`network_error`: LiteLLM issue 23386), DeepSeek (`insufficient_system_resource`).
 */
const brokenOff = new Set(['error', 'abort', 'aborted', 'cancelled', 'network_error', 'insufficient_system_resource'])

/**
 * One of OpenAI's reasons for whatever an upstream says; null while it says nothing (null, absent or empty).
 * Throws UpstreamFailure where the answer broke off.
 */
export function readFinishReason(value: unknown): FinishReason | null {
  if (value === null || value === undefined || value === '') return null
  const said = typeof value === 'string' ? value.toLowerCase() : ''
  if (said === 'null') return null
  if (brokenOff.has(said)) throw new UpstreamFailure('server_error', 'The upstream ended its answer with an error.')
  return known.get(said) ?? 'stop'
}

/** Gemini says "stop" after tool calls, and clients then never run them. */
export function finishReasonAfter(said: FinishReason, calledTools: boolean): FinishReason {
  return said === 'stop' && calledTools ? 'tool_calls' : said
}
