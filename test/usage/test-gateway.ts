import { randomUUID } from 'node:crypto'
import type { Sql } from '../../src/base/db/pool.ts'
import type { Caller } from '../../src/base/domain/caller.ts'
import { systemClock, systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { listTransactions } from '../../src/money/ledger/accounts/list-transactions.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { readCredits } from '../../src/money/ledger/accounts/read-credits.ts'
import { createLedger, type Ledger } from '../../src/money/ledger/ledger.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { type CreditReports, createCreditReports } from '../../src/money/usage/credit-reports.ts'
import { createReports, type Reports } from '../../src/money/usage/reports.ts'
import type { TestDatabase } from '../harness/database.ts'
import { storeOf } from '../harness/store-of.ts'
import { useResource } from '../harness/use-resource.ts'
import { settle } from '../ledger/ledger-world.ts'
import { settlementOf, type Use } from './usage.ts'

/** A ledger that writes and reports that read; `travel` sets the current time of the reports. */
export interface TestGateway {
  readonly reports: Reports
  readonly creditReports: CreditReports
  travel(nowIso: string): void
  /** Settles these requests of `caller`, each at its time before now. */
  use(caller: Caller, uses: readonly Use[]): Promise<readonly Settlement[]>
  exportText(caller: Caller, days: number): Promise<string>
}

/** A test gateway for the tests of this file. */
export function useTestGateway(database: TestDatabase, sql?: Sql): TestGateway {
  return useResource(
    () => createTestGateway(database, sql),
    () => {},
  )
}

export function createTestGateway({ pool }: TestDatabase, sql: Sql = pool): TestGateway {
  let nowMs = 0
  const clock = { ...systemClock, epochMs: () => nowMs }
  const [ledger, otherNode] = [0, 1].map(nodeShard =>
    createLedger({
      store: storeOf(pool),
      node: { nodeId: randomUUID(), mayAdmit: () => true, hasPeers: () => false },
      nodeShard,
      scheduler: { ...systemScheduler, ...clock },
      newId: randomUUID,
      journal: null,
    }),
  ) as [Ledger, Ledger]
  const reports = createReports({
    sql,
    clock,
    readBalance: async customerId => (await readBalance(pool, customerId))!.postedNanos,
    readWindows: async () => ({ minuteUsed: 3, dayUsed: 41, minuteEndsAtEpochMs: 0, dayEndsAtEpochMs: 0 }),
  })
  const creditReports = createCreditReports({
    readCredits: customerId => readCredits(sql, NO_NODE, customerId),
    listTransactions: (customerId, page) => listTransactions(sql, customerId, { ...page, nowEpochMs: clock.epochMs() }),
  })
  return {
    reports,
    creditReports,
    travel(nowIso) {
      nowMs = Date.parse(nowIso)
    },
    async use(caller, uses) {
      const settlements = uses.map(use => settlementOf(caller, nowMs, use))
      await Promise.all(settlements.map((each, index) => settle(index % 2 ? ledger : otherNode, each)))
      return settlements
    },
    async exportText(caller, days) {
      const { csv } = await reports.export(caller, { days })
      let text = ''
      for await (const piece of csv) text += piece
      return text
    },
  }
}

const NO_NODE = '00000000-0000-0000-0000-000000000000'
