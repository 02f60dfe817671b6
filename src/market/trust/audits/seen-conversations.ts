import { createHmac } from 'node:crypto'
import type { Pool } from '../../../base/db/pool.ts'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { KEPT_PROMPT_BYTES_MAX } from './shared-body.ts'

/**
 * The hosters that were sent a conversation of a customer that shares its requests, for all nodes: turns of one
 * conversation may arrive at different nodes, and a hoster would recognise what it gets a second time.
 */
export interface SeenConversations {
  /** Notes that a hoster is sent a request. Written within a second. */
  note(conversation: string, hosterId: string): void
  /** Returns those of these conversations that one of the hosters has seen. */
  seenBy(hosterIds: readonly string[], conversations: readonly string[]): Promise<ReadonlySet<string>>
  /**
   * Notes that all of the hosters are sent a conversation now. False: one of them has seen it, so send it to none. Some of
   * the others may be noted all the same, when two nodes claim it at the same time.
   */
  claim(conversation: string, hosterIds: readonly string[]): Promise<boolean>
  /** Writes what is not written yet. Never rejects. */
  stop(): Promise<void>
}

const WRITE_AFTER_MS = 1_000
/** So many wait at most while the database cannot be reached. */
const WAITING_MAX = 20_000

export function createSeenConversations({
  pool,
  scheduler,
  log,
}: {
  pool: Pool
  scheduler: Pick<Scheduler, 'after' | 'epochMs'>
  log: Pick<Log, 'warn'>
}): SeenConversations {
  let waiting = new Map<string, { readonly conversation: string; readonly hosterId: string }>()
  let cancel: (() => void) | null = null
  let writing: Promise<void> = Promise.resolve()
  let isStopped = false

  /** Resolves when all that was noted until now is written, also by an INSERT that is running. */
  const write = (): Promise<void> => {
    cancel?.()
    cancel = null
    // After a failure its notes wait again, so this one writes them.
    writing = writing.catch(() => {}).then(insertWaiting)
    return writing
  }

  const insertWaiting = async () => {
    const noted = waiting
    if (noted.size === 0) return
    waiting = new Map()
    const rows = [...noted.values()]
    try {
      // In one order, so that two nodes do not wait for each other. A row is renewed once an hour.
      await pool.query(
        `INSERT INTO seen_conversation AS s (conversation, hoster_id, seen_at)
         SELECT conversation, hoster_id, $3 FROM unnest($1::text[], $2::uuid[]) AS n (conversation, hoster_id) ORDER BY 1, 2
         ON CONFLICT (conversation, hoster_id) DO UPDATE SET seen_at = excluded.seen_at WHERE s.seen_at < excluded.seen_at - interval '1 hour'`,
        [rows.map(row => row.conversation), rows.map(row => row.hosterId), new Date(scheduler.epochMs())],
      )
    } catch (error) {
      waiting = new Map([...noted, ...waiting].slice(-WAITING_MAX))
      writeLater()
      throw error
    }
  }

  const writeLater = () => {
    if (isStopped) return
    cancel ??= scheduler.after(WRITE_AFTER_MS, () => {
      cancel = null
      write().catch(error =>
        log.warn({ err: error }, 'the conversations that hosters have seen could not be written; trying again'),
      )
    })
  }

  return {
    note(conversation, hosterId) {
      if (waiting.size >= WAITING_MAX) return
      waiting.set(`${conversation} ${hosterId}`, { conversation, hosterId })
      writeLater()
    },
    async seenBy(hosterIds, conversations) {
      await write()
      const { rows } = await pool.query<{ conversation: string }>(
        'SELECT conversation FROM seen_conversation WHERE conversation = ANY ($1) AND hoster_id = ANY ($2::uuid[])',
        [conversations, hosterIds],
      )
      return new Set(rows.map(({ conversation }) => conversation))
    },
    async claim(conversation, hosterIds) {
      await write()
      // In one order, as above.
      const { rowCount } = await pool.query(
        `INSERT INTO seen_conversation (conversation, hoster_id, seen_at)
         SELECT $1, hoster_id, $3 FROM unnest($2::uuid[]) AS n (hoster_id)
          WHERE NOT EXISTS (SELECT FROM seen_conversation WHERE conversation = $1 AND hoster_id = ANY ($2::uuid[]))
          ORDER BY hoster_id
         ON CONFLICT DO NOTHING`,
        [conversation, hosterIds, new Date(scheduler.epochMs())],
      )
      return rowCount === hosterIds.length
    },
    stop() {
      isStopped = true
      return write().catch(error =>
        log.warn({ err: error }, 'the conversations that hosters have seen could not be written'),
      )
    },
  }
}

/**
 * Names a conversation by its customer and its messages up to the first one of the user: later requests have the same
 * beginning. Null: the request has no messages, or long ones.
 */
export type NameConversation = (customerId: string, job: Pick<ChatJob, 'forward'>) => string | null

/** @param keys derived from the master keys, so that all nodes agree. A rotation forgets what hosters have seen of the last day */
export function createConversationNames(keys: Pick<SealingKeys, 'current'>): NameConversation {
  /** A request is named when it is sent, and when its answer is kept. */
  const named = new WeakMap<object, string | null>()
  return (customerId, job) => {
    const known = named.get(job)
    if (known !== undefined) return known
    const name = nameOf(keys.current, customerId, job.forward.messages)
    named.set(job, name)
    return name
  }
}

function nameOf(key: Buffer, customerId: string, messages: unknown): string | null {
  if (!Array.isArray(messages) || messages.length === 0) return null
  const first = messages.findIndex((message: { readonly role?: unknown }) => message?.role === 'user')
  const beginning = first === -1 ? messages : messages.slice(0, first + 1)
  // A request with so long a text is never kept.
  if (beginning.some(message => typeof message?.content === 'string' && message.content.length > KEPT_PROMPT_BYTES_MAX))
    return null
  return createHmac('sha256', key)
    .update(JSON.stringify([customerId, beginning]))
    .digest('base64url')
    .slice(0, NAME_LENGTH)
}

/** 132 bits. */
const NAME_LENGTH = 22
