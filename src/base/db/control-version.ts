import type { Sql } from './pool.ts'

/**
 * A kind of change that running nodes must notice: `access` is keys and customers, `supply` is hosters, managed providers and prices,
 * `settings` those of operators, `master_key` is which of the master keys seals.
 */
export type ControlTopic = 'access' | 'supply' | 'settings' | 'master_key'

export interface ControlVersions {
  /**
   * Calls `listener` soon after the first poll and then whenever the topic changed. Returns a function that
   * unsubscribes it.
   */
  onChange(topic: ControlTopic, listener: () => void | Promise<void>): () => void
  /** Polls now instead of waiting for the next second; resolves when the listeners are done. Never rejects. */
  poll(): Promise<void>
  /** Ends polling; resolves when a running poll and the listeners that it called are done. */
  stop(): Promise<void>
}

export interface ControlVersionsOptions {
  readonly intervalMs?: number
  /** Called when a poll or a listener failed; both are tried again at the next poll. */
  readonly onError?: (error: unknown) => void
}

interface Subscription {
  readonly topic: ControlTopic
  /** The newest version that a poll has read, and the last one that the listener has handled. */
  newest: bigint | undefined
  handled: bigint | undefined
  /** Resolves when all calls of the listener so far have ended. */
  done: Promise<void>
  /** Another call of the listener is queued. */
  isQueued: boolean
}

/**
 * Watches for changes made by other nodes with one cheap query a second. Polling replaces LISTEN because a
 * notification is lost with its connection, and poolers such as pgbouncer do not carry it.
 */
export function watchControlVersions(sql: Sql, options: ControlVersionsOptions = {}): ControlVersions {
  const { intervalMs = 1000, onError = () => {} } = options
  const subscriptions = new Map<() => void | Promise<void>, Subscription>()
  let running: Promise<void> | undefined
  let stopped = false
  let timer: NodeJS.Timeout | undefined

  const notify = async (listener: () => void | Promise<void>, subscription: Subscription) => {
    subscription.isQueued = false
    const version = subscription.newest
    if (version === subscription.handled || stopped) return
    try {
      await listener()
      subscription.handled = version
    } catch (error) {
      onError(error)
    }
  }
  /** Reads the versions and queues the calls of listeners without waiting for them. Never rejects. */
  const readVersions = async () => {
    try {
      const versions = await readControlVersions(sql)
      for (const [listener, subscription] of subscriptions) {
        subscription.newest = versions.get(subscription.topic)
        // One queued call is enough. With one per poll, a listener that hangs would get many calls at once
        // and delay stop().
        if (subscription.isQueued) continue
        subscription.isQueued = true
        // Listeners run independently: unreadable prices must not delay the revocation of a key.
        subscription.done = subscription.done.then(() => notify(listener, subscription))
      }
    } catch (error) {
      onError(error)
    }
  }
  const readOnce = () => {
    running ??= readVersions().finally(() => {
      running = undefined
    })
    return running
  }
  const listenersDone = () => Promise.all([...subscriptions.values()].map(({ done }) => done))
  const schedule = () => {
    timer = setTimeout(async () => {
      await readOnce()
      if (!stopped) schedule()
    }, intervalMs)
    // Watching for changes must not keep a process alive.
    timer.unref()
  }
  schedule()

  return {
    onChange(topic, listener) {
      subscriptions.set(listener, {
        topic,
        newest: undefined,
        handled: undefined,
        done: Promise.resolve(),
        isQueued: false,
      })
      return () => {
        subscriptions.delete(listener)
      }
    },
    async poll() {
      await readOnce()
      await listenersDone()
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
      await listenersDone()
    },
  }
}

/**
 * Marks a topic as changed. Call it inside the transaction that makes the change, so that no node sees the new
 * version before the new rows.
 */
export async function bumpControlVersion(sql: Sql, topic: ControlTopic): Promise<void> {
  await sql.query('UPDATE control_version SET version = version + 1 WHERE topic = $1', [topic])
}

async function readControlVersions(sql: Sql): Promise<ReadonlyMap<ControlTopic, bigint>> {
  const { rows } = await sql.query<{ topic: ControlTopic; version: bigint }>({
    name: 'control_versions',
    text: 'SELECT topic, version FROM control_version',
  })
  return new Map(rows.map(({ topic, version }) => [topic, version]))
}
