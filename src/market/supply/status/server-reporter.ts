import { type Pool, transaction } from '../../../base/db/pool.ts'
import { splitOfferId } from '../../../base/domain/offer.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicWork } from '../../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { HealthEvent, OfferReport } from '../breakers/offer-report.ts'
import { type BreakerChange, type CountedAttempts, type ReportedAgent, writeReport } from './write-report.ts'

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
  /** What customers were charged for the answers of an offer since this node started, nano-USD. */
  readonly chargedNanos: (offerId: string) => bigint
  readonly agents: () => readonly ReportedAgent[]
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): ServerReporter {
  const { pool, scheduler, log, everyMs = EVERY_MS } = deps
  let changes: BreakerChange[] = []
  /** What the reports so far have counted, by offer. */
  const counted = new Map<string, Counted>()

  async function report() {
    const offers = deps.offers().map(offer => ({ ...offer, costNanos: deps.chargedNanos(offer.offerId) }))
    const written = changes
    const attempts = offers.flatMap(offer => newAttempts(offer, counted.get(offer.offerId)))
    await transaction(pool, sql =>
      writeReport(
        sql,
        {
          nodeId: deps.nodeId(),
          version: deps.version,
          servers: offers.map(({ offerId, state, inFlight, recentMs }) => ({
            ...splitOfferId(offerId),
            state,
            inFlight,
            recentMs: recentMs.map(Math.round),
          })),
          agents: deps.agents(),
          attempts,
          changes: written,
        },
        new Date(scheduler.epochMs()),
      ),
    )
    changes = changes.filter(change => !written.includes(change))
    counted.clear()
    for (const { offerId, answered, failed, costNanos } of offers) counted.set(offerId, { answered, failed, costNanos })
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
interface Counted extends Pick<OfferReport, 'answered' | 'failed'> {
  readonly costNanos: bigint
}

/** The attempts since the last report. A record that was dropped and created again starts at zero. */
function newAttempts(
  { offerId, answered, failed, costNanos }: OfferReport & Counted,
  before: Counted = { answered: 0, failed: 0, costNanos: 0n },
): CountedAttempts[] {
  const isNew = answered < before.answered || failed < before.failed
  const attempts = {
    ...splitOfferId(offerId),
    answered: isNew ? answered : answered - before.answered,
    failed: isNew ? failed : failed - before.failed,
    costNanos: costNanos - before.costNanos,
  }
  return attempts.answered + attempts.failed === 0 && attempts.costNanos === 0n ? [] : [attempts]
}

/** The sums that customers were charged for the answers of each offer since this node started. */
export interface Charges {
  add(offerId: string, costNanos: bigint): void
  of(offerId: string): bigint
}

export function createCharges(): Charges {
  const sums = new Map<string, bigint>()
  return {
    add: (offerId, costNanos) => sums.set(offerId, (sums.get(offerId) ?? 0n) + costNanos),
    of: offerId => sums.get(offerId) ?? 0n,
  }
}
