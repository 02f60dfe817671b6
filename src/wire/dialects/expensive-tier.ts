import type { TokenUsage } from '../../base/domain/completion.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'

/** Processing tiers that cost more than the standard one, as OpenAI, Anthropic, Gemini, Vertex and Bedrock name them. */
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
