import type { AnswerFinish, UsageParts } from '../../../base/domain/answer-event.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { expensiveTier, tokenCount } from '../chat/usage.ts'

/**
 * Reads a usage report of the dialect, where input tokens exclude those of caches. Returns null if there is none: all
 * zeros, or numbers that no answer can have.
 */
export function readMessagesUsage(usage: JsonObject): UsageParts | null {
  const fresh = tokenCount(usage.input_tokens ?? 0)
  const output = tokenCount(usage.output_tokens ?? 0)
  const read = tokenCount(usage.cache_read_input_tokens ?? 0)
  if (fresh === null || output === null || read === null) return null
  const creation = isJsonObject(usage.cache_creation) ? usage.cache_creation : {}
  const long = tokenCount(creation.ephemeral_1h_input_tokens) ?? 0
  const short = tokenCount(creation.ephemeral_5m_input_tokens) ?? 0
  // The sum comes with every report, its two parts only with the first.
  const written = Math.max(tokenCount(usage.cache_creation_input_tokens) ?? 0, long + short)
  if (fresh + output + read + written === 0) return null
  const details = isJsonObject(usage.output_tokens_details) ? usage.output_tokens_details : {}
  const thinking = tokenCount(details.thinking_tokens)
  return {
    freshTokens: fresh,
    cacheReadTokens: read,
    cacheWriteTokens: written - long,
    cacheWriteLongTokens: long,
    outputTokens: output,
    reasoningTokens: thinking === null ? null : Math.min(thinking, output),
    upstreamTier: expensiveTier(usage.service_tier, usage.speed),
  }
}

/** Later reports of a stream replace the counts that they contain. They are sums, never to be added. */
export function mergeUsage(earlier: JsonObject, later: unknown): JsonObject {
  if (!isJsonObject(later)) return earlier
  const merged = { ...earlier }
  for (const key in later) if (later[key] !== null && later[key] !== undefined) merged[key] = later[key]
  return merged
}

/** Returns the `usage` of a message. */
export function messagesUsage(usage: UsageParts): JsonObject {
  const { freshTokens, cacheReadTokens, cacheWriteTokens, cacheWriteLongTokens, outputTokens, reasoningTokens } = usage
  return {
    input_tokens: freshTokens,
    cache_creation_input_tokens: cacheWriteTokens + cacheWriteLongTokens,
    cache_read_input_tokens: cacheReadTokens,
    cache_creation: {
      ephemeral_5m_input_tokens: cacheWriteTokens,
      ephemeral_1h_input_tokens: cacheWriteLongTokens,
    },
    output_tokens: outputTokens,
    output_tokens_details: reasoningTokens === null ? null : { thinking_tokens: reasoningTokens },
    server_tool_use: null,
  }
}

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
