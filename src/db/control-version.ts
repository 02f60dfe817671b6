import type { Sql } from './pool.ts'

/** What running nodes must notice: `access` is keys and customers, `supply` is hosters and prices. */
export type ControlTopic = 'access' | 'supply'

export interface ControlVersions {
  /** Calls `listener` soon after the first poll and then whenever the topic changed. Returns a function that ends it. */
  onChange(topic: ControlTopic, listener: () => void | Promise<void>): () => void
  /** Polls now instead of waiting for the next second; resolves when the listeners are done. Never rejects. */
  poll(): Promise<void>
  /** Ends polling; resolves when a running poll is over, and who was told of it is done. */
  stop(): Promise<void>
}

export interface ControlVersionsOptions {
  readonly intervalMs?: number
  /** Told when a poll or a listener failed; both are tried again at the next poll. */
  readonly onError?: (error: unknown) => void
}

interface Listening {
  readonly topic: ControlTopic
  /** What there is to tell, and what it was told last. */
  newest: bigint | undefined
  seen: bigint | undefined
  /** The end of what it is being told. */
  told: Promise<void>
  /** It is told once more after that. */
  isNext: boolean
}

/**
 * One cheap query a second tells this node what others changed. Polled rather than LISTENed: a notification is lost with its
 * connection, and poolers such as pgbouncer do not carry it.
 */
export function watchControlVersions(sql: Sql, options: ControlVersionsOptions = {}): ControlVersions {
  const { intervalMs = 1000, onError = () => {} } = options
  const listeners = new Map<() => void | Promise<void>, Listening>()
  let running: Promise<void> | undefined
  let stopped = false
  let timer: NodeJS.Timeout | undefined

  const tell = async (listener: () => void | Promise<void>, state: Listening) => {
    state.isNext = false
    const version = state.newest
    if (version === state.seen || stopped) return
    try {
      await listener()
      state.seen = version
    } catch (error) {
      onError(error)
    }
  }
  /** Resolves when the versions are read and everybody concerned is being told. Never rejects. */
  const look = async () => {
    try {
      const versions = await readControlVersions(sql)
      for (const [listener, state] of listeners) {
        state.newest = versions.get(state.topic)
        // As often as it was looked for meanwhile, one that fails for long would be told, and a stop wait for it.
        if (state.isNext) continue
        state.isNext = true
        // One that takes long keeps nobody else waiting: prices that cannot be read are no reason to go on believing a key.
        state.told = state.told.then(() => tell(listener, state))
      }
    } catch (error) {
      onError(error)
    }
  }
  const lookOnce = () => {
    running ??= look().finally(() => {
      running = undefined
    })
    return running
  }
  const everybodyTold = () => Promise.all([...listeners.values()].map(({ told }) => told))
  const schedule = () => {
    timer = setTimeout(async () => {
      await lookOnce()
      if (!stopped) schedule()
    }, intervalMs)
    // Watching for changes is no reason to keep a process alive.
    timer.unref()
  }
  schedule()

  return {
    onChange(topic, listener) {
      listeners.set(listener, { topic, newest: undefined, seen: undefined, told: Promise.resolve(), isNext: false })
      return () => {
        listeners.delete(listener)
      }
    },
    async poll() {
      await lookOnce()
      await everybodyTold()
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
      await everybodyTold()
    },
  }
}

/** Call it inside the transaction that makes the change, so that nobody sees the new version before the new rows. */
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
