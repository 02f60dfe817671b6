import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { LedgerStore } from '../ledger-store.ts'
import type { SettlementQueue } from '../settlement/settlement-queue.ts'
import type { LeaseBook } from './lease-book.ts'
import type { LeaseReturns } from './lease-returns.ts'
import type { NodeView } from './node-life.ts'
import type { PendingAdmission } from './pending-admission.ts'
import type { ExhaustedWindows } from './rate-windows.ts'
import type { UnconfirmedLeases } from './unconfirmed-leases.ts'
import type { UseReports } from './use-reports.ts'

/** The dependencies of the admission queue and its parts. */
export interface AdmissionDeps {
  readonly store: Pick<LedgerStore, 'admit'>
  readonly node: NodeView
  readonly book: LeaseBook
  readonly returns: LeaseReturns
  readonly useReports: Pick<UseReports, 'watch'>
  readonly settlements: Pick<SettlementQueue, 'has' | 'isLagging' | 'flush'>
  readonly exhausted: ExhaustedWindows
  readonly unconfirmedLeases: UnconfirmedLeases
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn' | 'error'> | undefined
}

/** The part of the admission queue that strict admissions use. */
export interface AdmissionSender {
  push(entry: PendingAdmission): void
  isInFlight(entry: PendingAdmission): boolean
  /** Starts the check for overdue entries. */
  watch(): void
}
