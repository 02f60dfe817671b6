import type { Envelope, TokenUsage } from '../../../base/domain/completion.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/** Far above any context window. A larger report is broken or dishonest. */
const TOKENS_MAX = 100_000_000

/**
 * Reads an upstream's usage report. Returns null if there is none: all zeros, which several servers send
 * instead of nothing, or numbers that are negative, fractional or absurdly large. Computes `total_tokens` from the
 * parts: a server could claim any total. Only where the server is known to hide reasoning in its total
 * (`hidesReasoning`) does the reasoning count as completion tokens, as OpenAI counts it. Keeps only the token counts
 * of the details, since some upstreams also report what the answer costs the gateway.
 */
export function readUsage(value: unknown, hidesReasoning: boolean): TokenUsage | null {
  if (!isJsonObject(value)) return null
  const prompt = tokenCount(value.prompt_tokens ?? 0)
  const completion = tokenCount(value.completion_tokens ?? 0)
  if (prompt === null || completion === null || prompt + completion === 0) return null
  const hidden = hidesReasoning ? hiddenTokens(value, prompt, completion) : 0
  const usage: TokenUsage = {
    prompt_tokens: prompt,
    completion_tokens: completion + hidden,
    total_tokens: prompt + completion + hidden,
  }
  const promptDetails = withCacheCounts(value, tokenCounts(value.prompt_tokens_details))
  if (promptDetails) usage.prompt_tokens_details = promptDetails
  const completionDetails = tokenCounts(value.completion_tokens_details)
  if (completionDetails || hidden > 0) {
    usage.completion_tokens_details = { ...(hidden > 0 && { reasoning_tokens: hidden }), ...completionDetails }
  }
  return usage
}

/** Adds the model that an answer names, if it is not the id that the customer knows: at most 200 UTF-16 units. */
export function withModel(usage: TokenUsage, { model }: JsonObject, envelope: Envelope): TokenUsage {
  if (typeof model === 'string' && model !== '' && model !== envelope.model) usage.answeredModel = model.slice(0, 200)
  return usage
}

/**
 * Returns the generated tokens that the upstream charges for but leaves out of `completion_tokens`: at most what it
 * reports as reasoning, if it reports that. With details of the prompt, the difference may belong to the prompt.
 */
function hiddenTokens(value: JsonObject, prompt: number, completion: number): number {
  const missing = (tokenCount(value.total_tokens) ?? 0) - prompt - completion
  if (missing <= 0 || prompt === 0) return 0
  const details = value.completion_tokens_details
  const reasoning = isJsonObject(details) ? (tokenCount(details.reasoning_tokens) ?? 0) : 0
  if (reasoning > 0) return Math.min(missing, reasoning)
  return isJsonObject(value.prompt_tokens_details) ? 0 : missing
}

/**
 * Adds what caches read and wrote, under OpenAI's names, where a server reports it under another one: Kimi and older
 * DeepSeek models next to the sums, LiteLLM proxies with Anthropic's names.
 */
function withCacheCounts(value: JsonObject, details: Record<string, number> | null): Record<string, number> | null {
  const read =
    details?.cached_tokens ?? firstCount(value, ['cached_tokens', 'prompt_cache_hit_tokens', 'cache_read_input_tokens'])
  const written =
    details?.cache_write_tokens ?? details?.cache_creation_tokens ?? firstCount(value, ['cache_creation_input_tokens'])
  if (read === undefined && written === undefined) return details
  return {
    ...details,
    ...(read !== undefined && { cached_tokens: read }),
    ...(written !== undefined && { cache_write_tokens: written }),
  }
}

function firstCount(value: JsonObject, names: readonly string[]): number | undefined {
  for (const name of names) {
    const count = tokenCount(value[name])
    if (count !== null) return count
  }
  return undefined
}

/** Returns a reported number of tokens; null if it is negative, fractional, absurdly large or no number. */
export function tokenCount(value: unknown): number | null {
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
