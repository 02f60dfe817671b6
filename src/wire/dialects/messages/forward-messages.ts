import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { isWrappedSeal } from '../seal.ts'
import type { MessagesTarget } from './conversation-to-messages.ts'
import { withoutBillingHeader } from './messages-request.ts'

/** A server that speaks the dialect of the client. */
export interface ForwardTarget extends Pick<MessagesTarget, 'model' | 'maxTokens' | 'stream' | 'caches'> {
  /** True for Anthropic itself, also on the platforms of clouds. */
  readonly isAnthropic: boolean
}

/**
 * Returns the body of a client of messages for a server of the same dialect, untouched but for: the fields that the
 * gateway sets, cache points without a price, reasoning that servers of other dialects sealed, and the billing header
 * of Claude Code.
 */
export function forwardMessages(body: JsonObject, target: ForwardTarget): JsonObject {
  const { model, maxTokens, stream, caches, isAnthropic } = target
  const messages = (body.messages as JsonObject[]).map(message => ({
    ...message,
    content: Array.isArray(message.content) ? readBlocks(message.content, caches) : message.content,
  }))
  const system = isAnthropic ? body.system : withoutBillingHeader(body.system)
  return {
    ...withPricedCache(body, caches),
    model,
    max_tokens: maxTokens,
    stream,
    messages: messages.filter(({ content }) => !Array.isArray(content) || content.length > 0),
    ...(system !== undefined && { system: Array.isArray(system) ? readBlocks(system, caches) : system }),
    ...(Array.isArray(body.tools) && { tools: readBlocks(body.tools, caches) }),
  }
}

function readBlocks(blocks: readonly unknown[], caches: MessagesTarget['caches']): unknown[] {
  return blocks.filter(isOwn).map(block => {
    if (!isJsonObject(block)) return block
    const priced = withPricedCache(block, caches)
    return block.type === 'tool_result' && Array.isArray(block.content)
      ? { ...priced, content: readBlocks(block.content, caches) }
      : priced
  })
}

/** Anthropic refuses thinking without its own signature. */
function isOwn(block: unknown): boolean {
  if (!isJsonObject(block) || block.type !== 'thinking') return true
  return typeof block.signature !== 'string' || !isWrappedSeal(block.signature)
}

/** Keys of a cache point other than its time to live could change its price. */
function withPricedCache(block: JsonObject, caches: MessagesTarget['caches']): JsonObject {
  const { cache_control: control, ...rest } = block
  if (!isJsonObject(control)) return block
  if (caches === 'none') return rest
  const { type, ttl } = control
  return { ...rest, cache_control: caches === 'long' && typeof ttl === 'string' ? { type, ttl } : { type } }
}
