import { expect, test } from 'vitest'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { AdmissionQueue } from '../../src/money/ledger/leases/admission-queue.ts'
import { LeaseBook } from '../../src/money/ledger/leases/lease-book.ts'
import { createLeaseReturns } from '../../src/money/ledger/leases/lease-returns.ts'
import { createExhaustedWindows } from '../../src/money/ledger/leases/rate-windows.ts'
import { UnconfirmedLeases } from '../../src/money/ledger/leases/unconfirmed-leases.ts'
import { createUseReports } from '../../src/money/ledger/leases/use-reports.ts'
import { SettlementQueue } from '../../src/money/ledger/settlement/settlement-queue.ts'
import { storeOf } from '../harness/store-of.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, createLedgerWorld } from '../ledger/ledger-world.ts'

// Went wrong: without any bulk lease, the state of every customer that ever sent a request stayed in memory (fixed in affa790).
test('a customer without requests is removed from memory, even if no customer has a bulk lease', async () => {
  const world = await createLedgerWorld()
  const { nodeId } = await world.addNode()
  const store = storeOf(world.pool)
  // Time runs a hundred times as fast.
  const scheduler = {
    ...systemScheduler,
    monotonicMs: () => performance.now() * 100,
    after: (ms: number, work: () => void) => systemScheduler.after(ms / 100, work),
  }
  const { monotonicMs } = scheduler
  const node = { nodeId, mayAdmit: () => true, hasPeers: () => false }
  const common = { store, scheduler, log: undefined }
  const book = new LeaseBook({ monotonicMs, mayAdmit: node.mayAdmit, newId: () => nodeId, onLow: () => {} })
  const unconfirmedLeases = new UnconfirmedLeases(common)
  const returns = createLeaseReturns({ ...common, book })
  const settlements = new SettlementQueue({
    ...common,
    ...{ nodeShard: 1, journal: null, book, unconfirmedLeases, commitWaitMs: 1e9 },
  })
  const exhausted = createExhaustedWindows(monotonicMs)
  const useReports = createUseReports({ ...common, node, book })
  const parts = { ...common, node, book, returns, useReports, settlements, exhausted, unconfirmedLeases }
  const admissions = new AdmissionQueue(parts)

  const customerId = await world.addCustomer(1_000n)
  book.admit(admissionOf(customerId, 100n))
  expect(await admissions.admit(admissionOf(customerId, 100n), Infinity)).toMatchObject({ kind: 'granted' })
  expect(book.size).toBe(1)
  await expect.poll(() => book.size, WAIT_OPTIONS).toBe(0)
  for (const part of [admissions, settlements, returns, unconfirmedLeases]) part.stop()
  await world.drop()
})
