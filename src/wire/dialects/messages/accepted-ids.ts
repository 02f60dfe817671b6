import { createHash } from 'node:crypto'
import type { Part, Turn } from '../../../base/domain/conversation.ts'

/** The ids of tool calls that Anthropic accepts. */
const accepted = /^[a-zA-Z0-9_-]+$/
const HASH_DIGITS = 24

/**
 * Replaces the ids of tool calls that Anthropic refuses, such as Kimi's with a dot and a colon. The same id always maps
 * to the same replacement, in later requests too.
 */
export function withAcceptedIds(turns: readonly Turn[]): Turn[] {
  return turns.map(({ role, parts }) => ({ role, parts: parts.map(withAcceptedId) }))
}

function withAcceptedId(part: Part): Part {
  if (part.kind === 'tool_call' && !accepted.test(part.id)) return { ...part, id: hash(part.id) }
  if (part.kind === 'tool_result' && !accepted.test(part.callId)) return { ...part, callId: hash(part.callId) }
  return part
}

function hash(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, HASH_DIGITS)
}
