import type { Sql } from '../../base/db/pool.ts'
import type { Caller } from '../../base/domain/caller.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { ExportQuery } from '../../wire/api/activity.ts'
import type { KeyReport } from '../../wire/api/keys.ts'
import type { Interval, TokenUsageReport, UsageBreakdown, UsageSummary } from '../../wire/api/reports.ts'
import { keyReport } from './key-report.ts'
import { refuseReport, reportSql } from './report-sql.ts'
import { tokenUsage } from './token-usage.ts'
import { usageBreakdown } from './usage-breakdown.ts'
import { type UsageExport, usageExport } from './usage-export.ts'
import { usageSummary } from './usage-summary.ts'

/** Reports about one customer at a time. Every method throws `database_unavailable` without a database. */
export interface Reports {
  summary(caller: Caller): Promise<UsageSummary>
  tokens(caller: Caller, days: number, interval: Interval): Promise<TokenUsageReport>
  breakdown(caller: Caller, days: number): Promise<UsageBreakdown>
  export(caller: Caller, query: ExportQuery): Promise<UsageExport>
  /** Returns the limits and use of the caller's key. */
  key(caller: Caller): Promise<KeyReport>
}

export function createReports(deps: {
  sql: Sql
  clock: Clock
  /** Reads the credit that is not charged yet, including holds. */
  readBalance: (customerId: string) => Promise<Nanos>
  /** Reads the customer's request windows from PostgreSQL, so that the answer is the same on every node. */
  readWindows: (customerId: string, atEpochMs: number) => Promise<WindowCounts>
}): Reports {
  const { clock } = deps
  const sql = reportSql(deps.sql)
  return {
    async summary(caller) {
      const nowMs = clock.epochMs()
      const [balanceNanos, windows] = await Promise.all([
        deps.readBalance(caller.customerId).catch(refuseReport),
        deps.readWindows(caller.customerId, nowMs).catch(refuseReport),
      ])
      return usageSummary(sql, caller, balanceNanos, windows, nowMs)
    },
    tokens: (caller, days, interval) => tokenUsage(sql, caller.customerId, days, interval, clock.epochMs()),
    breakdown: (caller, days) => usageBreakdown(sql, caller.customerId, days, clock.epochMs()),
    export: (caller, query) => usageExport(sql, caller.customerId, query, clock.epochMs()),
    async key(caller) {
      const nowMs = clock.epochMs()
      const windows = await deps.readWindows(caller.customerId, nowMs).catch(refuseReport)
      return keyReport(sql, caller, windows, nowMs)
    },
  }
}
