/**
 * Fields of a chat request that no server gets under this name: the gateway's own, and those that it sets for each
 * server.
 */
export const gatewayFields: ReadonlySet<string> = new Set([
  ...['model', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options'],
  ...['tier', 'privacy_mode', 'trusted_only', 'max_latency_ms', 'fallback_models', 'allow_hosters', 'deny_hosters'],
  ...['on_insufficient', 'max_cost_usd', 'max_input_usd_per_million', 'max_output_usd_per_million', 'dry_run'],
])

/** Fields that the configuration must not allow either, because they would break a promise of the gateway. */
const unsafeFields: ReadonlySet<string> = new Set([
  // Other names of max_tokens that take precedence over it (llama.cpp: n_predict). Tokens beyond max_tokens
  // would be free.
  ...['n_predict', 'num_predict', 'max_new_tokens', 'max_output_tokens', 'max_length'],
  // With these another model may answer than the one that is billed.
  ...['models', 'route', 'provider', 'preset', 'plugins', 'fallbacks'],
  // Clouds charge more for these than the prices of the offer: a faster or regional tier, longer storage, tools and
  // containers that the cloud runs.
  ...['service_tier', 'speed', 'inference_geo', 'prompt_cache_retention', 'prompt_cache_options', 'cached_content'],
  ...['web_search_options', 'search_parameters', 'mcp_servers', 'container', 'thread', 'billing_policy', 'moderation'],
  ...['cachedContent', 'context_management'],
  // Other gateways let a caller redirect the request or its credential with these (CVE-2024-6587).
  ...['api_base', 'base_url', 'api_key', 'api_version', 'user_config', 'headers', 'extra_headers', 'extra_body'],
])

/** Whether the configuration may let servers get a field with this name. */
export function mayBeForwarded(field: string): boolean {
  return !gatewayFields.has(field) && !unsafeFields.has(field)
}
