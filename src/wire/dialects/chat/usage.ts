import type { UsageParts } from '../../../base/domain/answer-event.ts'
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

/**
 * Splits a usage of chat, where the prompt includes what caches read and wrote, into disjoint parts. Parts that claim
 * more than the prompt are cut to it, reads first; media is cut to what no cache read or wrote.
 * `cache_write_long_tokens` is the gateway's own.
 */
export function usageParts(usage: TokenUsage): UsageParts {
  const { prompt_tokens: prompt, completion_tokens: output } = usage
  const input = details(usage.prompt_tokens_details)
  const completion = details(usage.completion_tokens_details)
  const read = Math.min(prompt, tokenCount(input.cached_tokens) ?? 0)
  const written = Math.min(prompt - read, tokenCount(input.cache_write_tokens) ?? 0)
  const long = Math.min(written, tokenCount(input.cache_write_long_tokens) ?? 0)
  const fresh = prompt - read - written
  const reasoning = tokenCount(completion.reasoning_tokens)
  return {
    freshTokens: fresh,
    cacheReadTokens: read,
    cacheWriteTokens: written - long,
    cacheWriteLongTokens: long,
    outputTokens: output,
    reasoningTokens: reasoning === null ? null : Math.min(reasoning, output),
    ...media(input, fresh, 'inputAudioTokens', 'inputImageTokens'),
    ...media(completion, output, 'outputAudioTokens', 'outputImageTokens'),
  }
}

function media<Audio extends string, Image extends string>(
  counts: JsonObject,
  most: number,
  audio: Audio,
  image: Image,
) {
  const audioTokens = Math.min(most, tokenCount(counts.audio_tokens) ?? 0)
  const imageTokens = Math.min(most - audioTokens, tokenCount(counts.image_tokens) ?? 0)
  return {
    ...(audioTokens > 0 && ({ [audio]: audioTokens } as Record<Audio, number>)),
    ...(imageTokens > 0 && ({ [image]: imageTokens } as Record<Image, number>)),
  }
}

/** Returns the usage of chat for disjoint parts. Details are left out where there are none. */
export function tokenUsage(parts: UsageParts): TokenUsage {
  const { freshTokens, cacheReadTokens, cacheWriteTokens, cacheWriteLongTokens, outputTokens, reasoningTokens } = parts
  const written = cacheWriteTokens + cacheWriteLongTokens
  const prompt = freshTokens + cacheReadTokens + written
  const usage: TokenUsage = {
    prompt_tokens: prompt,
    completion_tokens: outputTokens,
    total_tokens: prompt + outputTokens,
  }
  if (cacheReadTokens + written > 0) {
    usage.prompt_tokens_details = {
      cached_tokens: cacheReadTokens,
      ...(written > 0 && { cache_write_tokens: written }),
      ...(cacheWriteLongTokens > 0 && { cache_write_long_tokens: cacheWriteLongTokens }),
    }
  }
  if (reasoningTokens !== null) usage.completion_tokens_details = { reasoning_tokens: reasoningTokens }
  if (parts.upstreamTier !== undefined) usage.upstreamTier = parts.upstreamTier
  return usage
}

function details(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {}
}

/**
 * Processing tiers that cost more than the standard one, as OpenAI, Anthropic, Gemini, Vertex and Bedrock name them.
 */
const expensive: ReadonlySet<unknown> = new Set(['priority', 'fast', 'ultrafast', 'ON_DEMAND_PRIORITY'])

/** Returns the first of the tiers that an answer names which costs more than the standard one. */
export function expensiveTier(...named: readonly unknown[]): string | undefined {
  return named.find(tier => expensive.has(tier)) as string | undefined
}

/** Adds the tier that a completion or a chunk of chat names next to its usage, if it costs more. */
export function withTier(usage: TokenUsage, { service_tier }: JsonObject): TokenUsage {
  const upstreamTier = expensiveTier(service_tier)
  if (upstreamTier !== undefined) usage.upstreamTier = upstreamTier
  return usage
}
