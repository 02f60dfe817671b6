import { expect, test } from 'vitest'
import { systemScheduler } from '../../src/domain/scheduler.ts'
import { createAdmissionQueue } from '../../src/ledger/admission-queue.ts'
import { createExhaustedWindows } from '../../src/ledger/exhausted-windows.ts'
import { createGhosts } from '../../src/ledger/ghosts.ts'
import { createLeaseBook } from '../../src/ledger/lease-book.ts'
import { createLeaseReturns } from '../../src/ledger/lease-returns.ts'
import { createSettlementQueue } from '../../src/ledger/settlement-queue.ts'
import { patiently } from '../harness/patience.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, createLedgerWorld } from './ledger-world.ts'

// Only where some customer was worth a bulk lease did anybody look: without one, each that ever came was kept in memory.
test('a customer who comes once is forgotten, also where nobody comes often enough for a bulk lease', async () => {
  const world = await createLedgerWorld()
  const { nodeId } = await world.addNode()
  const store = storeOf(world.pool)
  // A hundred times as fast.
  const scheduler = {
    ...systemScheduler,
    monotonicMs: () => performance.now() * 100,
    after: (ms: number, work: () => void) => systemScheduler.after(ms / 100, work),
  }
  const { monotonicMs } = scheduler
  const node = { nodeId, mayAdmit: () => true }
  const common = { store, scheduler, log: undefined }
  const book = createLeaseBook({ monotonicMs, mayAdmit: node.mayAdmit, newId: () => nodeId })
  const ghosts = createGhosts(common)
  const returns = createLeaseReturns({ ...common, book })
  const settlements = createSettlementQueue({
    ...common,
    ...{ nodeShard: 1, journal: null, book, ghosts, commitWaitMs: 1e9 },
  })
  const exhausted = createExhaustedWindows(monotonicMs)
  const admissions = createAdmissionQueue({ ...common, node, book, returns, settlements, exhausted, ghosts })

  const customerId = await world.addCustomer(1_000n)
  expect(await admissions.admit(admissionOf(customerId, 100n), Infinity)).toMatchObject({ kind: 'granted' })
  expect(book.size).toBe(1)
  await expect.poll(() => book.size, patiently).toBe(0)
  for (const part of [admissions, settlements, returns, ghosts]) part.stop()
  await world.drop()
})
