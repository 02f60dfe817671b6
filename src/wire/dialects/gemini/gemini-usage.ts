import type { UsageParts } from '../../../base/domain/answer-event.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { expensiveTier, tokenCount } from '../chat/usage.ts'

/**
 * Reads `usageMetadata`. The prompt includes what was read from caches; thoughts are outside of the candidates, and
 * prompts of tools outside of the prompt. Returns null for a report of nothing but zeros and for impossible numbers.
 */
export function readGeminiUsage(value: unknown): UsageParts | null {
  if (!isJsonObject(value)) return null
  const prompt = tokenCount(value.promptTokenCount ?? 0)
  const candidates = tokenCount(value.candidatesTokenCount ?? 0)
  const thoughts = tokenCount(value.thoughtsTokenCount ?? 0)
  const toolUse = tokenCount(value.toolUsePromptTokenCount ?? 0)
  if (prompt === null || candidates === null || thoughts === null || toolUse === null) return null
  const input = prompt + toolUse
  if (input + candidates + thoughts === 0) return null
  const cacheReadTokens = Math.min(tokenCount(value.cachedContentTokenCount) ?? 0, prompt)
  return {
    freshTokens: input - cacheReadTokens,
    cacheReadTokens,
    cacheWriteTokens: 0,
    cacheWriteLongTokens: 0,
    outputTokens: candidates + thoughts,
    reasoningTokens: thoughts,
    upstreamTier: expensiveTier(value.serviceTier, value.trafficType),
  }
}

/** Writes billed usage as `usageMetadata`. */
export function geminiUsage(usage: UsageParts): JsonObject {
  const input = usage.freshTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.cacheWriteLongTokens
  const thoughts = usage.reasoningTokens ?? 0
  return {
    promptTokenCount: input,
    candidatesTokenCount: usage.outputTokens - thoughts,
    totalTokenCount: input + usage.outputTokens,
    ...(usage.cacheReadTokens > 0 && { cachedContentTokenCount: usage.cacheReadTokens }),
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
  }
}
