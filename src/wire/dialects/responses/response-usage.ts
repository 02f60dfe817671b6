import type { UsageParts } from '../../../base/domain/answer-event.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { expensiveTier, tokenCount } from '../chat/usage.ts'

/**
 * Reads the usage of a response, and its tier. Its input includes what was read from and written to caches. Returns
 * null for a report of nothing but zeros, which servers send instead of none, and for impossible numbers.
 */
export function readResponseUsage({ usage: value, service_tier }: JsonObject): UsageParts | null {
  if (!isJsonObject(value)) return null
  const input = tokenCount(value.input_tokens)
  const output = tokenCount(value.output_tokens)
  if (input === null || output === null || input + output === 0) return null
  const details = isJsonObject(value.input_tokens_details) ? value.input_tokens_details : {}
  const outputDetails = isJsonObject(value.output_tokens_details) ? value.output_tokens_details : {}
  const cacheReadTokens = Math.min(tokenCount(details.cached_tokens) ?? 0, input)
  const written = Math.min(tokenCount(details.cache_write_tokens) ?? 0, input - cacheReadTokens)
  const byTime = isJsonObject(details.cache_write_tokens_details) ? details.cache_write_tokens_details : {}
  const cacheWriteLongTokens = Math.min(tokenCount(byTime.ttl_12h_tokens) ?? 0, written)
  const reasoning = tokenCount(outputDetails.reasoning_tokens)
  return {
    freshTokens: input - cacheReadTokens - written,
    cacheReadTokens,
    cacheWriteTokens: written - cacheWriteLongTokens,
    cacheWriteLongTokens,
    outputTokens: output,
    reasoningTokens: reasoning === null ? null : Math.min(reasoning, output),
    upstreamTier: expensiveTier(service_tier),
  }
}

/** Writes billed usage as a response reports it. */
export function responseUsage(usage: UsageParts): JsonObject {
  const written = usage.cacheWriteTokens + usage.cacheWriteLongTokens
  const input = usage.freshTokens + usage.cacheReadTokens + written
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cacheReadTokens,
      cache_write_tokens: written,
      ...(usage.cacheWriteLongTokens > 0 && {
        cache_write_tokens_details: {
          ttl_30m_tokens: usage.cacheWriteTokens,
          ttl_12h_tokens: usage.cacheWriteLongTokens,
        },
      }),
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
    total_tokens: input + usage.outputTokens,
  }
}
