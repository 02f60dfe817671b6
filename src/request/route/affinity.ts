import { hash as digest } from 'node:crypto'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { splitOfferId } from '../../base/domain/offer.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

/**
 * Remembers for ten minutes which offer last served a conversation, because its server may still have the
 * prompt in its cache. Only a hint.
 */
export interface Affinity {
  /** Returns the value for `RouteView.stickyOfferId`. */
  find(customerId: string, job: ChatJob): string | null
  /** Returns the value for `RouteView.stickyModelId`: a conversation keeps its model for a day. */
  findModel(customerId: string, job: ChatJob): string | null
  remember(customerId: string, job: ChatJob, offerId: string): void
}

/**
 * Identifies a conversation by its customer, its requested model, and the client's session key. Without such a key, the
 * beginning of its messages identifies it, since later turns only append. Two conversations that begin alike share a
 * server, which suits a prompt cache. Memory is bounded: the least recently used entry is dropped.
 */
export function createAffinity({ clock, entriesMax = 10_000 }: { clock: Clock; entriesMax?: number }): Affinity {
  const served = new Map<string, { offerId: string; atMs: number }>()
  const entryOf = (customerId: string, job: ChatJob) => {
    const key = keyOf(customerId, job)
    return key === null ? undefined : served.get(key)
  }
  return {
    find(customerId, job) {
      const entry = entryOf(customerId, job)
      return entry && clock.monotonicMs() < entry.atMs + STICKY_MS ? entry.offerId : null
    },
    findModel(customerId, job) {
      const entry = entryOf(customerId, job)
      return entry && clock.monotonicMs() < entry.atMs + MODEL_STICKY_MS ? splitOfferId(entry.offerId).modelId : null
    },
    remember(customerId, job, offerId) {
      const key = keyOf(customerId, job)
      if (key === null) return
      // A map keeps the order of insertion, so deleting first makes this the youngest entry.
      served.delete(key)
      served.set(key, { offerId, atMs: clock.monotonicMs() })
      const oldest = served.size > entriesMax ? served.keys().next().value : undefined
      if (oldest !== undefined) served.delete(oldest)
    },
  }
}

const STICKY_MS = 600_000
/**
 * How long a conversation keeps its model. A day outlasts every prompt cache, but another model would change the style.
 */
const MODEL_STICKY_MS = DAY_MS
/** Usually the system message and the first question. */
const MESSAGES_READ = 2
/** Enough to distinguish conversations, and cheap enough to hash on each request. */
const CHARACTERS_READ = 2_000

/** Null: only chats are conversations, also where a client sends the key of its session with all it asks for. */
function keyOf(customerId: string, job: ChatJob): string | null {
  if (job.task !== 'chat') return null
  // The digest keeps entries small. Session keys have any length.
  if (job.sessionKey !== null) return `${customerId}/${job.model}#${digest('sha256', job.sessionKey, 'base64')}`
  const messages = Array.isArray(job.forward.messages) ? job.forward.messages.slice(0, MESSAGES_READ) : []
  if (messages.length === 0) return null
  return `${customerId}/${job.model}/${messages.map(message => hash(beginning(message))).join('/')}`
}

function beginning(message: unknown): string {
  const content = isJsonObject(message) ? message.content : undefined
  if (typeof content === 'string') return content.slice(0, CHARACTERS_READ)
  const parts = Array.isArray(content) ? content : []
  const text = parts.find(part => isJsonObject(part) && typeof part.text === 'string') as { text: string } | undefined
  return text?.text.slice(0, CHARACTERS_READ) ?? ''
}

/** FNV-1a, 32 bits. Not for secrets. A collision costs at most a cache miss. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  return value >>> 0
}
