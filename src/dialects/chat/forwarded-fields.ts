import { isPrototypeKey, type JsonObject } from '../../runtime/json-object.ts'
import { chatRequestSchema } from './chat-request-schema.ts'

/** Fields for the gateway itself, fields set for each upstream, and fields that would change the bill. */
const notForwarded = new Set([
  ...['model', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options'],
  ...['tier', 'privacy_mode', 'trusted_only', 'max_latency_ms', 'fallback_models', 'allow_hosters', 'deny_hosters'],
  ...['on_insufficient', 'max_cost_usd', 'dry_run'],
  // Other names of max_tokens that take precedence over it (llama.cpp: n_predict). Tokens beyond max_tokens
  // would be free.
  ...['n_predict', 'num_predict', 'max_new_tokens', 'max_output_tokens', 'max_length'],
  // Clouds charge extra for these: OpenAI doubles the price for `priority` and bills each search.
  ...['service_tier', 'web_search_options'],
  // With these OpenRouter may answer with a model other than the one billed.
  ...['models', 'route', 'provider', 'preset', 'plugins'],
  // Other gateways let a caller redirect the request or its credential with these (CVE-2024-6587).
  ...['api_base', 'base_url', 'api_key', 'api_version', 'user_config', 'headers', 'extra_headers', 'extra_body'],
])

const plainName = /^[a-z\d_]*$/

/**
 * Returns the fields of a request body that upstreams get, without nulls, the gateway's fields and fields
 * without effect.
 */
export function forwardedFields(input: JsonObject): JsonObject {
  const forwarded: JsonObject = {}
  for (const key of Object.keys(input)) {
    if (input[key] !== null && isForwarded(key)) forwarded[key] = input[key]
  }
  dropWithoutEffect(forwarded)
  return forwarded
}

function isForwarded(key: string): boolean {
  if (notForwarded.has(key) || isPrototypeKey(key)) return false
  if (plainName.test(key)) return true
  // Servers written in Go read `Model` as `model`, and fold the Kelvin sign and the long s to letters. The
  // last spelling sent wins.
  const name = key.toUpperCase().toLowerCase()
  return !notForwarded.has(name) && !Object.hasOwn(chatRequestSchema.shape, name)
}

/**
 * Drops fields that have no effect but that some servers reject. OpenAI and vLLM since 0.20 (pull request
 * 39780) reject an empty list of tools and a tool choice without tools (LiteLLM pull request 39147); vLLM
 * rejects an empty stop sequence; OpenAI rejects metadata unless `store` is set (qwen-code issue 243). Ollama
 * reads an empty list of stop sequences as "never stop" (issue 3629). Whether a request is valid must not
 * depend on the server that gets it.
 */
function dropWithoutEffect(forwarded: JsonObject): void {
  if (isEmptyList(forwarded.tools)) delete forwarded.tools
  if (isEmptyList(forwarded.functions)) delete forwarded.functions
  if (forwarded.tools === undefined) {
    delete forwarded.parallel_tool_calls
    if (isAutoOrNone(forwarded.tool_choice)) delete forwarded.tool_choice
  }
  if (forwarded.functions === undefined && isAutoOrNone(forwarded.function_call)) delete forwarded.function_call
  if (forwarded.stop === '' || isEmptyList(forwarded.stop)) delete forwarded.stop
  if (forwarded.store !== true) delete forwarded.metadata
}

/** True for a choice that demands no tool call. */
function isAutoOrNone(choice: unknown): boolean {
  return choice === 'auto' || choice === 'none'
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}
