import { randomBytes } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import { removeOnExit } from '../harness/clean-up-on-exit.ts'
import { startFaultProxy } from '../harness/fault-proxy.ts'
import { eventually } from './eventually.ts'
import { type GatewayProcess, startGateway } from './gateway-process.ts'
import { createPostgres } from './postgres.ts'
import type { Scenario } from './scenario.ts'

/** Gateways that are paused at the same time. Each has a PostgreSQL of its own, since nodes run each other's jobs. */
const VICTIMS = 4

const RUN_AGAIN_MS = 30_000

/** A pause, at a share of the start, or of the five seconds between two searches for jobs. */
interface Pause {
  readonly isAtStart: boolean
  readonly share: number
  readonly ms: number
}

/**
 * Pauses gateways with SIGSTOP for 2 to 30 s, at random moments of a start and of a run. Within 30 s after each pause, or after the
 * end of the start, a new job must have run, and no earlier job may be locked.
 */
export function pauseQueue(count: number, seed: number): Scenario {
  return {
    name: `SIGSTOP ${count} times, seed ${seed}: jobs run again`,
    alone: true,
    async run() {
      const random = seededRandom(seed)
      const pauses = Array.from({ length: count }, () => ({
        isAtStart: random() < 0.5,
        share: random(),
        ms: 2_000 + 28_000 * random(),
      }))
      const results = await Promise.all(
        Array.from({ length: VICTIMS }, (_, victim) =>
          pauseOne(
            `queue-${victim}`,
            pauses.filter((_, index) => index % VICTIMS === victim),
          ),
        ),
      )
      const afterMs = results.flatMap(result => result.afterMs).toSorted((a, b) => a - b)
      const failedStarts = results.reduce((sum, result) => sum + result.failedStarts, 0)
      const inS = (ms: number | undefined) => ((ms ?? 0) / 1000).toFixed(1)
      const median = inS(afterMs[afterMs.length >> 1])
      return {
        customers: [],
        problems: results.flatMap(({ problems }) => problems),
        note: `${afterMs.length} pauses; jobs ran after ${median} s (median), ${inS(afterMs.at(-1))} s (longest); ${failedStarts} starts failed and were repeated`,
        settled: async () => ({ convergedMs: afterMs.at(-1) ?? 0, problems: [], requests: 0, truncated: 0, free: 0 }),
      }
    },
  }
}

/** Pauses one gateway again and again. */
async function pauseOne(name: string, pauses: readonly Pause[]) {
  await using cleanUp = new AsyncDisposableStack()
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-chaos-queue-'))
  removeOnExit(directory, 'files')
  cleanUp.defer(() => rm(directory, { recursive: true, force: true }))
  const configFile = join(directory, 'switchyard.yaml')
  writeFileSync(configFile, JSON.stringify({ detect: { enabled: false }, server: { drain_delay_seconds: 0 } }))
  const postgres = await createPostgres({ durable: false })
  cleanUp.defer(() => postgres.remove())
  const proxy = await startFaultProxy(postgres.connection)
  cleanUp.defer(() => proxy.close())
  const pool = createPool(postgres.connection, { max: 1, applicationName: 'chaos', statementTimeoutMs: 30_000 })
  cleanUp.defer(() => pool.end())
  const masterKey = randomBytes(32).toString('hex')
  const start = () => startGateway({ name, directory, configFile, database: proxy.connection, masterKey })

  const startedMs = performance.now()
  let gateway = await start()
  cleanUp.defer(async () => {
    gateway.signal('SIGKILL')
    await gateway.exited
  })
  await gateway.ready()
  const startMs = performance.now() - startedMs

  const result = { afterMs: [] as number[], problems: [] as string[], failedStarts: 0 }
  for (const { isAtStart, share, ms } of pauses) {
    if (isAtStart) {
      gateway.signal('SIGTERM')
      await gateway.exited
      gateway = await start()
    }
    await delay(share * (isAtStart ? startMs : 5_000))
    gateway.signal('SIGSTOP')
    await delay(ms)
    gateway.signal('SIGCONT')
    // As a service manager does: a start that waits too long for PostgreSQL ends with a message.
    while (!(await isReady(gateway))) {
      result.failedStarts++
      gateway = await start()
    }
    try {
      result.afterMs.push(await jobsRun(pool))
    } catch (error) {
      const when = isAtStart
        ? `${Math.round(share * startMs)} ms after a start`
        : `${Math.round(share * 5_000)} ms into a run`
      result.problems.push(
        `paused ${Math.round(ms)} ms, ${when}: ${(error as Error).message}\n${gateway.log().slice(-2_000)}`,
      )
    }
  }
  return result
}

/** Waits until the gateway takes requests. Returns false if it has exited. */
async function isReady(gateway: GatewayProcess): Promise<boolean> {
  try {
    await gateway.ready()
    return true
  } catch (error) {
    if (gateway.exit === undefined) throw error
    return false
  }
}

/** Adds a job. Resolves with the milliseconds until it has run and no job is locked that was locked before. */
async function jobsRun(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ id: bigint; now: Date }>(
    "SELECT (graphile_worker.add_job('prune_alerts')).id, clock_timestamp() AS now",
  )
  const { id, now } = rows[0]!
  return eventually(
    'jobs run',
    async () => {
      const left = await pool.query('SELECT FROM graphile_worker.jobs WHERE id = $1 OR locked_at < $2', [id, now])
      return left.rows.length === 0
    },
    { timeoutMs: RUN_AGAIN_MS },
  )
}
