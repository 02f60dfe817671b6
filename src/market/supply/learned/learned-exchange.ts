import type { Pool, Sql } from '../../../base/db/pool.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicWork } from '../../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { combineLearned } from '../breakers/learned-offer.ts'
import type { OwnHealth } from '../breakers/own-health.ts'
import {
  deleteOldLearned,
  hasChangesForSnapshot,
  LEARNED_AGE_MS_MAX,
  type LearnedRow,
  readLearned,
  readSnapshot,
  writeLearned,
  writeSnapshot,
} from './learned-rows.ts'

/** Shares what this node learns of its servers with the other nodes, through PostgreSQL. No request waits for it. */
export interface LearnedExchange {
  /** Writes what is new here and takes in what is new elsewhere. Rejects when PostgreSQL is unavailable. */
  exchange(): Promise<void>
  /** Exchanges every few seconds until stopped. */
  start(): void
  /** Writes a last time. Never rejects. */
  stop(): Promise<void>
}

const EVERY_MS = 5_000
/** The rows that one exchange writes at most. The others follow with the next. */
const ROWS_MAX = 1_000
/** A row can be visible this much later than its time: it was written by a statement that had to wait. */
const LATE_MS = 10_000

export function createLearnedExchange(deps: {
  readonly pool: Pool
  readonly nodeId: () => string
  readonly health: Pick<OwnHealth, 'takeChanges' | 'returnChanges' | 'adopt'>
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): LearnedExchange {
  const { pool, health, scheduler, log, everyMs = EVERY_MS } = deps
  /** The reports of other nodes by offer and node, with the monotonic time at which each was written. */
  const reports = new Map<string, Map<string, { row: LearnedRow; atMs: number }>>()
  let readUntilMs: number | null = null

  async function write(): Promise<void> {
    const changed = health.takeChanges(ROWS_MAX)
    if (changed.size === 0) return
    try {
      await writeLearned(pool, deps.nodeId(), changed)
    } catch (error) {
      health.returnChanges(changed.keys())
      throw error
    }
  }

  function keep(row: LearnedRow): void {
    const ofOffer = reports.get(row.offerId) ?? new Map()
    reports.set(row.offerId, ofOffer.set(row.nodeId, { row, atMs: scheduler.monotonicMs() - row.ageMs }))
  }

  async function read(): Promise<void> {
    const { rows, nowMs } = await readLearned(pool, deps.nodeId(), readUntilMs === null ? null : readUntilMs - LATE_MS)
    rows.forEach(keep)
    // The snapshot has what the rows had, so it stands in only where they are lost.
    if (readUntilMs === null) for (const row of await readSnapshot(pool)) if (!reports.has(row.offerId)) keep(row)
    readUntilMs = nowMs
  }

  function adoptAll(): void {
    const nowMs = scheduler.monotonicMs()
    for (const [offerId, ofOffer] of reports) {
      for (const [nodeId, { atMs }] of ofOffer) if (atMs < nowMs - LEARNED_AGE_MS_MAX) ofOffer.delete(nodeId)
      const known = [...ofOffer.values()].map(({ row, atMs }) => ({ offer: row.offer, ageMs: nowMs - atMs }))
      if (known.length === 0) reports.delete(offerId)
      health.adopt(offerId, known.length === 0 ? null : combineLearned(known))
    }
  }

  async function exchange(): Promise<void> {
    await write()
    await read()
    adoptAll()
  }

  const exchanging = createPeriodicWork({
    work: exchange,
    everyMs,
    failure: 'what nodes learn of servers could not be shared; trying again',
    scheduler,
    log,
  })

  return {
    exchange,
    start: exchanging.start,
    async stop() {
      await exchanging.stop()
      await write().catch(() => {})
    },
  }
}

/** No node has this id, so the rows of all nodes are read. */
const NO_NODE = '00000000-0000-0000-0000-000000000000'

/** Writes what all nodes have learned to the snapshot, if any has learned something, and removes old rows. */
export async function snapshotLearned(sql: Sql): Promise<void> {
  await deleteOldLearned(sql)
  if (!(await hasChangesForSnapshot(sql))) return
  const { rows } = await readLearned(sql, NO_NODE, null)
  const offers = new Map(
    [...Map.groupBy(rows, ({ offerId }) => offerId)].map(([offerId, reports]) => {
      const ageMs = Math.min(...reports.map(report => report.ageMs))
      const offer = combineLearned(reports.map(report => ({ offer: report.offer, ageMs: report.ageMs - ageMs })))
      return [offerId, { offer, ageMs }]
    }),
  )
  if (offers.size > 0) await writeSnapshot(sql, offers)
}
