import type { UsageParts } from '../../../base/domain/answer-event.ts'
import type { TokenUsage } from '../../../base/domain/completion.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { tokenCount } from './read-usage.ts'

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
