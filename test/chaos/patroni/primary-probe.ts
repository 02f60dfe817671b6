import { setTimeout as delay } from 'node:timers/promises'
import type { Connection } from '../../../src/base/db/open-database.ts'
import { createPool } from '../../../src/base/db/pool.ts'
import type { Host } from './network.ts'

/** Writes to every machine all the time, without gateways and HAProxy, to see what the cluster itself does. */
export interface PrimaryProbe {
  /** When writes were reported as committed, by performance.now(). */
  readonly committedAtMs: readonly number[]
  /** Whether this machine has reported a commit since this time. */
  hasWritten(host: Host, sinceMs: number): boolean
  /** How many of the writes that were reported as committed the primary does not have. Each is counted once. */
  lostCommits(primary: Host): Promise<number>
  stop(): Promise<void>
}

const EVERY_MS = 50
/** A write without an answer is given up after the second of these and one more. */
const LIMITS = { connectTimeoutMs: 1_000, statementTimeoutMs: 1_000 }

export async function startProbe(hosts: readonly Host[], login: Connection, primary: Host): Promise<PrimaryProbe> {
  const stopping = new AbortController()
  const pools = new Map(
    hosts.map(host => {
      const pool = createPool({ ...login, host: host.address }, { max: 1, applicationName: 'chaos probe', ...LIMITS })
      return [host, pool]
    }),
  )
  await pools.get(primary)!.query('CREATE TABLE write (id bigint PRIMARY KEY)')
  let writes = 0
  const committed = new Set<number>()
  const committedAtMs: number[] = []
  const lastOf = new Map<Host, number>()
  const write = async (host: Host) => {
    while (!stopping.signal.aborted) {
      const id = ++writes
      try {
        await pools.get(host)!.query('INSERT INTO write VALUES ($1)', [id])
        committed.add(id)
        const nowMs = performance.now()
        committedAtMs.push(nowMs)
        lastOf.set(host, nowMs)
      } catch {
        // A standby, or a machine that is away.
      }
      await delay(EVERY_MS)
    }
  }
  const writing = hosts.map(write)
  return {
    committedAtMs,
    hasWritten: (host, sinceMs) => (lastOf.get(host) ?? Number.NEGATIVE_INFINITY) > sinceMs,
    async lostCommits(host) {
      const reported = [...committed]
      const { rows } = await pools.get(host)!.query<{ id: bigint }>('SELECT id FROM write')
      const stored = new Set(rows.map(({ id }) => Number(id)))
      const lost = reported.filter(id => !stored.has(id))
      for (const id of lost) committed.delete(id)
      return lost.length
    },
    async stop() {
      stopping.abort()
      await Promise.all(writing)
      await Promise.all([...pools.values()].map(pool => pool.end()))
    },
  }
}
