import type { Pool } from '../db/pool.ts'
import type { Clock } from '../domain/clock.ts'
import { ApiError } from '../domain/errors.ts'
import type { Admission, AdmissionResult } from './admission.ts'
import { type AdmissionVerdict, admitBatch } from './admit-batch.ts'
import { createExhaustedWindows } from './exhausted-windows.ts'
import { createLane } from './lane.ts'
import { releaseLeases } from './release-leases.ts'
import { settleBatch } from './settle-batch.ts'
import type { Settlement } from './settlement.ts'

/** The money of this node: holds before a request runs, charges after it. Every method is safe to call from any number of requests at once. */
export interface Ledger {
  /**
   * Counts the request and places its lease: one round trip, shared with the admissions that came while the one before was under way.
   * Rejects with ApiError `database_unavailable` when PostgreSQL cannot be reached within two seconds, and `overloaded` when too much is queued.
   */
  admit(admission: Admission): Promise<AdmissionResult>
  /**
   * Resolves when the usage row, the charge and the release of the lease are committed. Sends the same ids again until they are, however
   * long PostgreSQL is away; rejects only for a row that PostgreSQL will never take (a bug, logged), whose lease is then released.
   */
  settle(settlement: Settlement): Promise<void>
  /** Makes a settlement that is not committed yet a free one, because its caller was told so. Whichever commits first wins. */
  voidIfUnsettled(requestId: string): void
  /** Resolves when everything queued is committed or `timeoutMs` have passed; returns how many settlements are left. */
  drain(timeoutMs: number): Promise<number>
  /** The end: nothing is sent again, what is left is given up. Call it after `drain`. */
  stop(): void
  readonly pending: { readonly admissions: number; readonly settlements: number }
}

/** The part of a pino logger that is used. */
export interface LedgerLog {
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export interface LedgerDeps {
  /** Two connections of it are used at most, beside a rare third; give the ledger its own so that no report makes an admission wait. */
  readonly pool: Pool
  /** Registered by registerNode before the first admission, or the reaper takes its leases for orphans. */
  readonly nodeId: string
  /** The usage_rollup shard this node writes, 0..32767; nodes that run at the same time should differ. */
  readonly nodeShard: number
  readonly clock: Clock
  readonly log?: LedgerLog
  /** Replaces PostgreSQL's clock for the minute and day windows, in epoch milliseconds. For tests, whose `clock` has to keep pace. */
  readonly windowClock?: () => number
}

const ADMIT_PATIENCE_MS = 2_000
const ADMISSIONS_QUEUED_MAX = 20_000
const SETTLEMENTS_QUEUED_MAX = 100_000
/** A statement that was sent before its connection broke may still run this long: PostgreSQL's own timeouts are far shorter. */
const GHOST_WATCH_MS = 60_000
const GHOST_SWEEP_MS = 1_000

/** Creates the ledger of one node. It owns no timer or connection while nothing is under way. */
export function createLedger(deps: LedgerDeps): Ledger {
  const { pool, clock, log } = deps
  const exhausted = createExhaustedWindows(() => clock.monotonicMs())
  const unsettled = new Map<string, PendingSettlement>()
  /**
   * Leases that may come to exist although nobody here wants them: their admission was sent, the connection broke, and it was given up,
   * refused or settled since. The value is when that was, or undefined while the request still runs.
   */
  const ghosts = new Map<string, number | undefined>()
  let sweeping = false
  let watching = false

  const admissions = createLane<PendingAdmission>({
    async send(batch) {
      const sentAtMs = clock.monotonicMs()
      const verdicts = await admitBatch(
        pool,
        deps.nodeId,
        deps.windowClock?.() ?? null,
        batch.map(entry => entry.admission),
      )
      for (const verdict of verdicts) answerAdmission(batch[verdict.item]!, verdict, sentAtMs)
    },
    isWanted: entry => !entry.answered,
    onBroken(batch, error) {
      log?.warn({ err: error, admissions: batch.length }, 'admissions could not be sent, trying again')
      for (const { admission } of batch) if (admission.hold !== null) ghosts.set(admission.requestId, undefined)
    },
    onRefused(entry, error) {
      log?.error({ err: error, request: entry.admission.requestId }, 'PostgreSQL refuses an admission')
      rejectAdmission(entry, error)
    },
  })

  const settlements = createLane<PendingSettlement>({
    async send(batch, attempt) {
      const effects = await settleBatch(
        pool,
        deps.nodeShard,
        batch.map(entry => entry.settlement),
      )
      const withoutAccount = effects.size === 0 ? undefined : reportEffects(effects, attempt)
      for (const entry of batch) {
        const { requestId } = entry.settlement
        forget(entry)
        if (withoutAccount?.has(requestId)) entry.reject(noAccount(entry.settlement.customerId))
        else entry.resolve()
      }
    },
    isWanted: () => true,
    onBroken(batch, error) {
      log?.warn({ err: error, settlements: batch.length }, 'settlements could not be committed, trying again')
    },
    onRefused(entry, error) {
      const { requestId } = entry.settlement
      log?.error(
        { err: error, request: requestId },
        'PostgreSQL refuses a settlement: nothing is charged, its lease is released',
      )
      forget(entry)
      bury(requestId)
      void sweepGhosts()
      entry.reject(error)
    },
  })

  return {
    admit(admission) {
      const refusal = exhausted.refuse(admission)
      if (refusal !== undefined) return Promise.resolve(refusal)
      if (unsettled.size >= SETTLEMENTS_QUEUED_MAX || admissions.size >= ADMISSIONS_QUEUED_MAX) {
        return Promise.reject(new ApiError('overloaded', { retryAfterS: 1 }))
      }
      return new Promise((resolve, reject) => {
        admissions.push({ admission, resolve, reject, sinceMs: clock.monotonicMs(), overdue: false, answered: false })
        if (!watching) watchPatience()
      })
    },
    settle(settlement) {
      return new Promise((resolve, reject) => {
        const entry = { settlement, resolve, reject }
        unsettled.set(settlement.requestId, entry)
        settlements.push(entry)
      })
    },
    voidIfUnsettled(requestId) {
      const entry = unsettled.get(requestId)
      if (entry !== undefined) entry.settlement = freeOf(entry.settlement)
    },
    async drain(timeoutMs) {
      let timer: NodeJS.Timeout | undefined
      const timeout = new Promise<void>(resolve => {
        timer = setTimeout(resolve, timeoutMs)
      })
      await Promise.race([timeout, Promise.all([admissions.idle(), settlements.idle()]).then(sweepGhosts)])
      clearTimeout(timer)
      return settlements.size
    },
    stop() {
      admissions.stop()
      settlements.stop()
      ghosts.clear()
    },
    get pending() {
      return { admissions: admissions.size, settlements: settlements.size }
    },
  }

  function answerAdmission(entry: PendingAdmission, verdict: AdmissionVerdict, sentAtMs: number): void {
    const { admission } = entry
    const isUnwanted = entry.answered
      ? verdict.kind === 'granted'
      : verdict.kind !== 'granted' && ghosts.has(admission.requestId)
    if (isUnwanted) bury(admission.requestId)
    if (entry.answered) return
    entry.answered = true
    if (verdict.kind === 'no_account') {
      entry.reject(noAccount(admission.customerId))
      return
    }
    if (verdict.kind === 'refused') exhausted.remember(admission, verdict.result, sentAtMs, verdict.databaseNowMs)
    entry.resolve(verdict.result)
  }

  function rejectAdmission(entry: PendingAdmission, error: unknown): void {
    if (entry.answered) return
    entry.answered = true
    if (ghosts.has(entry.admission.requestId) || admissions.isUnderWay(entry)) bury(entry.admission.requestId)
    entry.reject(error)
  }

  /** Rejects admissions that waited longer than a client should; PostgreSQL may still carry them out, hence the ghosts. */
  function watchPatience(): void {
    watching = true
    const timer = setInterval(() => {
      const overdueMs = clock.monotonicMs() - ADMIT_PATIENCE_MS
      for (const entry of admissions) {
        if (entry.sinceMs > overdueMs) continue
        // Seen twice, with a turn of the event loop between: after a stall of this process the answer may be waiting to be read.
        if (entry.overdue) rejectAdmission(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
        entry.overdue = true
      }
      if (admissions.size === 0) {
        clearInterval(timer)
        watching = false
      }
    }, ADMIT_PATIENCE_MS / 8)
    timer.unref()
  }

  function reportEffects(effects: Map<string, string>, attempt: number): Set<string> {
    const withoutAccount = new Set<string>()
    for (const [request, effect] of effects) {
      if (effect === 'no_account') withoutAccount.add(request)
      // On a second attempt a duplicate means that the first one did commit.
      if (effect !== 'duplicate' || attempt === 0) log?.warn({ request, effect }, effectMessages[effect] ?? effect)
    }
    return withoutAccount
  }

  function forget(entry: PendingSettlement): void {
    const { requestId } = entry.settlement
    if (unsettled.get(requestId) === entry) unsettled.delete(requestId)
    if (ghosts.size > 0 && ghosts.has(requestId)) bury(requestId)
  }

  function bury(requestId: string): void {
    ghosts.set(requestId, clock.monotonicMs())
    scheduleSweep()
  }

  function scheduleSweep(): void {
    if (sweeping) return
    sweeping = true
    const timer = setTimeout(async () => {
      await sweepGhosts()
      sweeping = false
      for (const since of ghosts.values()) {
        if (since === undefined) continue
        scheduleSweep()
        break
      }
    }, GHOST_SWEEP_MS)
    timer.unref()
  }

  async function sweepGhosts(): Promise<void> {
    const dead = [...ghosts].filter(([, since]) => since !== undefined).map(([requestId]) => requestId)
    if (dead.length === 0) return
    try {
      const released = await releaseLeases(pool, dead)
      const forgottenMs = clock.monotonicMs() - GHOST_WATCH_MS
      for (const requestId of dead) {
        if (released.has(requestId) || ghosts.get(requestId)! <= forgottenMs) ghosts.delete(requestId)
      }
    } catch (error) {
      log?.warn({ err: error, leases: dead.length }, 'leases of given-up admissions could not be released yet')
    }
  }
}

interface PendingAdmission {
  readonly admission: Admission
  readonly resolve: (result: AdmissionResult) => void
  readonly reject: (error: unknown) => void
  readonly sinceMs: number
  overdue: boolean
  answered: boolean
}

interface PendingSettlement {
  /** Replaced when it is voided. */
  settlement: Settlement
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

const effectMessages: Readonly<Record<string, string>> = {
  duplicate:
    'this request is settled already (a late answer after its node was declared dead, or sent twice): nothing more is charged',
  clamped: 'a cost exceeded its lease: the excess is written off',
  late: 'the lease was gone: charged from the free balance',
  written_off: 'the lease was gone and the balance is not free: written off',
  no_account: 'the customer has no account: nothing is charged',
}

function noAccount(customerId: string): Error {
  return new Error(`customer ${customerId} has no account: openAccount was never called for it`)
}

/** The same row, billed nothing: what it would have cost is written off. */
function freeOf(settlement: Settlement): Settlement {
  return {
    ...settlement,
    inputTokens: 0,
    outputTokens: 0,
    costNanos: 0n,
    hosterShareNanos: 0n,
    feeNanos: 0n,
    writeoffNanos: settlement.writeoffNanos + settlement.costNanos,
    success: false,
    outcome: 'internal_error',
  }
}
