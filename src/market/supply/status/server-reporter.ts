import { type Pool, transaction } from '../../../base/db/pool.ts'
import { splitOfferId } from '../../../base/domain/offer.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicWork } from '../../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { AttemptCounts } from '../breakers/attempt-tally.ts'
import type { HealthEvent, OfferReport } from '../breakers/offer-report.ts'
import {
  attemptsSince,
  type BreakerChange,
  type CountedAttempts,
  type ReportedAgent,
  type ReportedDisk,
  writeReport,
} from './write-report.ts'

/**
 * Writes what this node sees of its servers to the database, for the operator and the status page. Requests do not wait
 * for it.
 */
export interface ServerReporter {
  /** Notes a change of a breaker, in memory until the next report. */
  noteChange(event: HealthEvent): void
  /** Reports now. Rejects when the database is unavailable; everything noted is kept. */
  report(): Promise<void>
  /** Reports every few seconds until stopped. */
  start(): void
  /** Reports a last time. Never rejects. */
  stop(): Promise<void>
}

const EVERY_MS = 5_000
/** While the database is away, the oldest changes are dropped beyond this number. */
const CHANGES_MAX = 1_000

export function createServerReporter(deps: {
  readonly pool: Pool
  readonly nodeId: () => string
  readonly version: string
  readonly offers: () => OfferReport[]
  /** The attempts at each offer since this node started. */
  readonly attempts: () => ReadonlyMap<string, AttemptCounts>
  /** From how many single customers each offer is kept away. */
  readonly customersKeptAway: () => ReadonlyMap<string, number>
  /** What the answers of an offer have cost since this node started. */
  readonly charged: Charges['of']
  readonly agents: () => readonly ReportedAgent[]
  /** Never rejects. */
  readonly disks: () => Promise<readonly ReportedDisk[]>
  /** The marks of the master keys of this node. The first one seals. */
  readonly masterKeys: () => readonly string[]
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): ServerReporter {
  const { pool, scheduler, log, everyMs = EVERY_MS } = deps
  let changes: BreakerChange[] = []
  /** What the reports so far have counted, by offer. */
  const counted = new Map<string, AttemptCounts>()
  /** And charged. Kept when the attempts at an offer are dropped: its charges since the start are not. */
  const charged = new Map<string, Charged>()

  async function report() {
    const seen = new Map(Array.from(deps.attempts(), ([id, counts]) => [id, { ...counts, ...deps.charged(id) }]))
    const before = (id: string): Counted => ({ ...NOTHING, ...counted.get(id), ...charged.get(id) })
    const written = changes
    const attempts = [...seen].flatMap(([offerId, counts]) => newAttempts(offerId, counts, before(offerId)))
    const keptAway = deps.customersKeptAway()
    const disks = await deps.disks()
    await transaction(pool, sql =>
      writeReport(
        sql,
        {
          nodeId: deps.nodeId(),
          version: deps.version,
          servers: deps.offers().map(({ offerId, state, inFlight, recentMs }) => ({
            ...splitOfferId(offerId),
            state,
            inFlight,
            recentMs: recentMs.map(Math.round),
            customersKeptAway: keptAway.get(offerId) ?? 0,
          })),
          agents: deps.agents(),
          disks,
          masterKeys: deps.masterKeys(),
          attempts,
          changes: written,
        },
        new Date(scheduler.epochMs()),
      ),
    )
    changes = changes.filter(change => !written.includes(change))
    counted.clear()
    for (const [offerId, { costNanos, ownCostNanos, ...counts }] of seen) {
      counted.set(offerId, counts)
      charged.set(offerId, { costNanos, ownCostNanos })
    }
  }

  const reporting = createPeriodicWork({
    work: report,
    everyMs,
    failure: 'the state of the servers could not be recorded; trying again',
    scheduler,
    log,
  })

  return {
    noteChange({ event, offerId }) {
      changes = [
        ...changes.slice(1 - CHANGES_MAX),
        { ...splitOfferId(offerId), event, at: new Date(scheduler.epochMs()) },
      ]
    },
    report,
    start: reporting.start,
    async stop() {
      await reporting.stop()
      await report().catch(() => {})
    },
  }
}

/** What the reports have counted of an offer. */
interface Counted extends AttemptCounts, Charged {}

const NOTHING: Counted = {
  answered: 0,
  failed: 0,
  busy: 0,
  answeredInRow: 0,
  failedInRow: 0,
  lastError: null,
  errors: [],
  costNanos: 0n,
  ownCostNanos: 0n,
}

/** The attempts since the last report. Counts that were dropped and began again start at zero; charges never do. */
function newAttempts(offerId: string, now: Counted, before: Counted): CountedAttempts[] {
  const isNew = now.answered < before.answered || now.failed < before.failed || now.busy < before.busy
  const attempts = {
    ...splitOfferId(offerId),
    ...attemptsSince(isNew ? NOTHING : before, now),
    costNanos: now.costNanos - before.costNanos,
    ownCostNanos: now.ownCostNanos - before.ownCostNanos,
  }
  const { answered, failed, busy, costNanos, ownCostNanos } = attempts
  return answered + failed + busy === 0 && costNanos === 0n && ownCostNanos === 0n ? [] : [attempts]
}

/** What the answers of an offer have cost, nano-USD. */
export interface Charged {
  /** To customers. */
  readonly costNanos: bigint
  /** To the operator, as far as that is known. */
  readonly ownCostNanos: bigint
}

/** The sums of what the answers of each offer have cost since this node started. */
export interface Charges {
  add(offerId: string, charged: Charged): void
  of(offerId: string): Charged
}

export function createCharges(): Charges {
  const sums = new Map<string, { costNanos: bigint; ownCostNanos: bigint }>()
  return {
    add(offerId, { costNanos, ownCostNanos }) {
      const sum = sums.get(offerId)
      if (sum === undefined) {
        sums.set(offerId, { costNanos, ownCostNanos })
        return
      }
      sum.costNanos += costNanos
      sum.ownCostNanos += ownCostNanos
    },
    of: offerId => ({ ...(sums.get(offerId) ?? nothingCharged) }),
  }
}

const nothingCharged: Charged = { costNanos: 0n, ownCostNanos: 0n }
