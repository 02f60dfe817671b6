import { randomUUIDv7 } from 'node:crypto'
import { commandLine } from '../../src/base/domain/acting.ts'
import { createCsvDriver } from '../../src/money/payouts/csv-driver.ts'
import { enrollHoster } from '../../src/money/payouts/payout-accounts.ts'
import { type PayoutRules, type PreparedBatch, preparePayouts } from '../../src/money/payouts/payout-batches.ts'
import {
  admissionOf,
  createLedgerWorld,
  type LedgerWorld,
  settle,
  settlementOf,
  type TestNode,
} from '../ledger/ledger-world.ts'

export const USD = 1_000_000_000n
export const DAY_MS = 86_400_000
/** The first day of the histories, at 10:30 UTC. */
export const START_MS = Date.UTC(2026, 8, 1, 10, 30)
export const rules: PayoutRules = {
  holdDays: 14,
  minNanos: USD,
  promotion: { holdDays: 30, hosterDayNanos: USD, dayNanos: 20n * USD, needsPayers: false },
  accountWaitHours: 0,
}
/** Accounts take effect at once. */
export const noWait = { nowMs: START_MS, accountWaitHours: 0 }
export const csv = createCsvDriver()

/** A ledger with hosters that can earn. */
export interface PayoutWorld extends LedgerWorld {
  readonly node: TestNode
  /** Adds a hoster with a bank account. */
  addHoster(more?: { readonly hasAccount?: boolean }): Promise<string>
  /** Lets a customer pay for a request at a hoster. Returns the id of the request. The hoster's share is 80 %. */
  charge(customerId: string, hosterId: string, atMs: number, nanos: bigint, modelId?: string): Promise<string>
  prepare(nowMs: number, more?: Partial<PayoutRules>): Promise<PreparedBatch>
}

export async function createPayoutWorld(): Promise<PayoutWorld> {
  const world = await createLedgerWorld()
  // A gateway on the same database declares a node without heartbeats dead after a minute.
  const node = await world.addLivingNode()
  let hosters = 0
  return {
    ...world,
    node,
    async addHoster({ hasAccount = true } = {}) {
      const hosterId = randomUUIDv7()
      await world.pool.query("INSERT INTO hoster (hoster_id, name, state, share_bps) VALUES ($1, $2, 'active', 8000)", [
        hosterId,
        `hoster-${++hosters}-${hosterId.slice(-6)}`,
      ])
      if (hasAccount) {
        const details = { holder: 'A Hoster', account: `ACC${hosterId.slice(-12)}` }
        await enrollHoster(world.pool, csv, { hosterId, details }, commandLine, noWait)
      }
      return hosterId
    },
    async charge(customerId, hosterId, atMs, nanos, modelId = 'm') {
      const admission = admissionOf(customerId, nanos, { modelId })
      await node.ledger.admit(admission)
      await settle(node.ledger, settlementOf(admission, nanos, nanos, { hosterId, startedAtEpochMs: atMs }))
      return admission.requestId
    },
    prepare: (nowMs, more = {}) => preparePayouts(world.pool, null, csv, { ...rules, ...more }, nowMs),
  }
}
