import type { TokenUsage } from '../domain/completion.ts'
import { isJsonObject } from '../domain/json-object.ts'

/** Far above any context window: what reports more is broken or lying. */
const TOKENS_MAX = 100_000_000

/**
 * Reads an upstream's usage report. Null when there is none: zeros (several servers send them instead of nothing) or
 * numbers that are negative, fractional or absurd. `total_tokens` is computed here. Only token counts are kept of the
 * details, since some upstreams also report what the answer cost *us*.
 */
export function readUsage(value: unknown): TokenUsage | null {
  if (!isJsonObject(value)) return null
  const prompt = tokenCount(value.prompt_tokens ?? 0)
  const completion = tokenCount(value.completion_tokens ?? 0)
  if (prompt === null || completion === null || prompt + completion === 0) return null
  const usage: TokenUsage = {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
  }
  const promptDetails = tokenCounts(value.prompt_tokens_details)
  if (promptDetails) usage.prompt_tokens_details = promptDetails
  const completionDetails = tokenCounts(value.completion_tokens_details)
  if (completionDetails) usage.completion_tokens_details = completionDetails
  return usage
}

function tokenCount(value: unknown): number | null {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= TOKENS_MAX ? (value as number) : null
}

function tokenCounts(value: unknown): Record<string, number> | null {
  if (!isJsonObject(value)) return null
  const counts: Record<string, number> = {}
  for (const [name, count] of Object.entries(value)) {
    if (name.endsWith('_tokens') && tokenCount(count) !== null) counts[name] = count as number
  }
  return Object.keys(counts).length > 0 ? counts : null
}
