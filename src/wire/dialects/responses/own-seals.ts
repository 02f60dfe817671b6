import { createHash } from 'node:crypto'
import type { Conversation, Part } from '../../../base/domain/conversation.ts'
import type { Endpoint } from '../../../base/domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { readSeal } from '../seal.ts'

// OpenAI refuses a request with reasoning that another account sealed: `invalid_encrypted_content`. The gateway names
// the account in each seal that it gives to a client, so a seal without a name comes from elsewhere.

/** Returns the conversation without the reasoning that the account of this endpoint did not seal. */
export function ownSeals(conversation: Conversation, endpoint: Endpoint): Conversation {
  const isForeign = (part: Part) =>
    part.kind === 'reasoning' && part.seal?.family === 'openai' && part.seal.account !== accountTag(endpoint)
  if (!conversation.turns.some(({ parts }) => parts.some(isForeign))) return conversation
  const turns = conversation.turns.map(turn => ({ ...turn, parts: turn.parts.filter(part => !isForeign(part)) }))
  return { ...conversation, turns }
}

/**
 * Returns the body of a client of this dialect without the reasoning items that the account of this endpoint did not
 * seal. Its own seals are unwrapped.
 */
export function ownSealedItems(body: JsonObject, endpoint: Endpoint): JsonObject {
  const { input } = body
  if (!Array.isArray(input) || !input.some(isSealed)) return body
  return { ...body, input: input.flatMap(item => (isSealed(item) ? ownItem(item, endpoint) : [item])) }
}

interface SealedItem extends JsonObject {
  readonly encrypted_content: string
}

function isSealed(item: unknown): item is SealedItem {
  if (!isJsonObject(item) || item.type !== 'reasoning') return false
  return typeof item.encrypted_content === 'string' && item.encrypted_content !== ''
}

function ownItem(item: SealedItem, endpoint: Endpoint): JsonObject[] {
  const seal = readSeal(item.encrypted_content, 'openai')
  if (seal?.family !== 'openai' || seal.account !== accountTag(endpoint)) return []
  // The gateway made the id of the item, and OpenAI would compare it with the one inside the seal.
  const { id: _, ...rest } = item
  return [{ ...rest, encrypted_content: seal.data }]
}

const TAG_DIGITS = 12
const tags = new WeakMap<Endpoint, string>()

/** Names the account behind the key of an endpoint without revealing the key. */
export function accountTag(endpoint: Endpoint): string {
  let tag = tags.get(endpoint)
  if (tag === undefined) {
    const { endpointId, apiKey } = endpoint
    tag = createHash('sha256')
      .update(JSON.stringify([endpointId, apiKey]))
      .digest('hex')
      .slice(0, TAG_DIGITS)
    tags.set(endpoint, tag)
  }
  return tag
}
