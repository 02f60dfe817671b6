// Admissions that are refused for money or slots that may come back soon. The store and the time are simulated.
import { randomUUIDv7 } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import { CancelSource } from '../../src/base/runtime/cancel-signal.ts'
import type { Scheduler } from '../../src/base/runtime/scheduler.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { createLedger, type Ledger, type LedgerDeps } from '../../src/money/ledger/ledger.ts'
import type { LeaseRequest, LeaseVerdict, LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { decodeSettlement, decodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { createMemoryDisk } from '../journal/memory-disk.ts'
import { admissionOf, settle, settlementOf } from './ledger-world.ts'

const customerId = randomUUIDv7()
const windows = {
  ...{ minuteUsed: 1, dayUsed: 1, minuteCounted: 1, dayCounted: 1, ownLeases: [] },
  ...{ minuteEndsAtEpochMs: 60_000, dayEndsAtEpochMs: 86_400_000 },
}
const away = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

let nowMs: number
let timers: { atMs: number; work: () => void }[]
/** The strict admissions that reached the store, with their times. */
let tries: { atMs: number; admission: Admission }[]
let store: LedgerStore
/** Whether requests for bulk leases are granted. */
let grantsBulk: boolean
/** Answers a strict admission. Undefined grants it. */
let refuse: (admission: Admission) => Partial<Extract<LeaseVerdict, { kind: 'refused' }>> | undefined

const scheduler: Scheduler = {
  monotonicMs: () => nowMs,
  epochMs: () => nowMs,
  soon: work => void setImmediate(work),
  after(ms, work) {
    const timer = { atMs: nowMs + ms, work }
    timers.push(timer)
    return () => {
      timers = timers.filter(other => other !== timer)
    }
  },
}

/** Runs everything that is due, in order, and what follows from it. */
async function pass(ms: number): Promise<void> {
  const untilMs = nowMs + ms
  for (;;) {
    for (let turn = 0; turn < 5; turn++) await nextTurn()
    const next = timers.toSorted((a, b) => a.atMs - b.atMs)[0]
    if (next === undefined || next.atMs > untilMs) break
    timers = timers.filter(timer => timer !== next)
    nowMs = Math.max(nowMs, next.atMs)
    next.work()
  }
  nowMs = untilMs
}

const plenty = { freeNanos: 10n ** 15n, capLeftNanos: 10n ** 15n, nodes: 1 }

function verdictOf(request: LeaseRequest, item: number): LeaseVerdict {
  if ('slots' in request && !grantsBulk) return { item, kind: 'no_bulk' }
  if ('slots' in request) {
    const { wantNanos, slots } = request
    return { item, kind: 'granted', heldNanos: wantNanos, slots, ...plenty, windows, databaseNowMs: 0 }
  }
  tries.push({ atMs: nowMs, admission: request })
  const refusal = refuse(request)
  if (refusal === undefined)
    return {
      item,
      kind: 'granted',
      heldNanos: request.ask!.wantNanos,
      slots: null,
      ...plenty,
      windows,
      databaseNowMs: 0,
    }
  const amounts = { postedNanos: 1n, freeNanos: 0n, capLeftNanos: 0n, key: null, member: null }
  const refused = { kind: 'refused', code: 'in_flight_budget', isHeldElsewhere: false, nodes: 1 } as const
  return { item, ...refused, ...amounts, windows, databaseNowMs: 0, ...refusal }
}

beforeEach(() => {
  nowMs = 0
  timers = []
  tries = []
  refuse = () => undefined
  grantsBulk = true
  store = {
    admit: async (_node: string, requests: readonly LeaseRequest[]) => requests.map(verdictOf),
    settle: async () => new Map(),
    handBack: async () => {},
    release: async () => new Set<string>(),
  } as unknown as LedgerStore
})

function startLedger(more: Partial<LedgerDeps> = {}): Ledger {
  const node = { nodeId: randomUUIDv7(), mayAdmit: () => true, hasPeers: () => false }
  return createLedger({ store, node, nodeShard: 1, scheduler, newId: randomUUIDv7, journal: null, ...more })
}

/** Gives the customer a bulk lease with one running request. Returns the id of the lease. */
async function useBulkLease(ledger: Ledger): Promise<string> {
  for (;;) {
    const admitted = ledger.admit(admissionOf(customerId, 1_000n))
    await pass(1)
    const result = await admitted
    if (result.kind === 'granted' && tries.at(-1)?.admission.requestId !== result.hold.leaseId)
      return result.hold.leaseId
  }
}

/**
 * A ledger without bulk leases that has just ended a request: its charge of 10 of 800 nano-USD is in the
 * journal and not committed yet.
 */
async function serveOne() {
  const { journal } = openJournal({ disk: createMemoryDisk(), scheduler, fsync: false })
  const ledger = startLedger({ journal, bulkLeases: false })
  await serve(ledger, 0)
  return { ledger, journal }
}

/** Admits a request and ends it with a charge of 10 of 800 nano-USD. The charge is safe after `safeAfterMs`. */
async function serve(ledger: Ledger, safeAfterMs: number): Promise<void> {
  const admission = admissionOf(customerId, 800n)
  const granted = ledger.admit(admission)
  await pass(0)
  await granted
  const settled = settle(ledger, settlementOf(admission, 800n, 10n))
  await pass(safeAfterMs)
  await settled
}

test('the uncommitted hold of an ended answer does not refuse the next request', async () => {
  let settled = 0
  store.settle = async () => {
    settled++
    return new Map()
  }
  const { ledger, journal } = await serveOne()
  refuse = () => (settled === 0 ? {} : undefined)
  const second = ledger.admit(admissionOf(customerId, 800n))
  await pass(0)
  expect(await second).toMatchObject({ kind: 'granted' })
  expect(tries.at(-1)!.admission.countedUntilEpochMs).toBe(windows.minuteEndsAtEpochMs)
  expect(nowMs).toBe(0)
  await journal.close()
})

test('a request is refused after one retry', async () => {
  const { ledger } = await serveOne()
  refuse = () => ({ code: 'insufficient_credits' })
  const second = ledger.admit(admissionOf(customerId, 800n))
  await pass(0)
  expect(await second).toMatchObject({ kind: 'refused', code: 'insufficient_credits' })
  expect(tries).toHaveLength(3)
})

test('a customer with too little money is refused at once, however long the commits take', async () => {
  store.settle = () => Promise.reject(away())
  const { ledger, journal } = await serveOne()
  refuse = () => ({ code: 'insufficient_credits' })
  const second = ledger.admit(admissionOf(customerId, 800n))
  second.catch(() => {})
  await pass(3_000)
  expect(await second).toMatchObject({ kind: 'refused', code: 'insufficient_credits' })
  await journal.close()
})

test('money that does not come back in time shortens an answer that may be shorter', async () => {
  store.settle = () => Promise.reject(away())
  const { ledger, journal } = await serveOne()
  const ask = { wantNanos: 800n, floorNanos: 100n }
  refuse = ({ ask }) => (ask!.floorNanos > 200n ? {} : undefined)
  const second = ledger.admit(admissionOf(customerId, 0n, { ask }))
  await pass(1_000)
  expect(await second).toMatchObject({ kind: 'granted' })
  expect(tries.slice(1).map(({ atMs, admission }) => [atMs, admission.ask!.floorNanos])).toEqual([
    [0, 800n],
    [500, 800n],
    [500, 100n],
  ])
  await journal.close()
})

test('a request waits for the leases of other nodes even when a lease of its own node has nothing left to give', async () => {
  const ledger = startLedger()
  const leaseId = await useBulkLease(ledger)
  ledger.recall([leaseId])
  await pass(10)
  const before = tries.length
  let backAtMs = nowMs + 1_000
  refuse = () => (nowMs < backAtMs ? { isHeldElsewhere: true } : undefined)
  const admitted = ledger.admit(admissionOf(customerId, 5_000_000n))
  await pass(1_500)
  expect(await admitted).toMatchObject({ kind: 'granted' })
  expect(tries.slice(before).map(({ atMs }) => atMs)).toEqual([10, 1_210].map(ms => tries[before]!.atMs - 10 + ms))
  // It waits once. Then it is refused.
  backAtMs = Number.POSITIVE_INFINITY
  const refused = ledger.admit(admissionOf(customerId, 5_000_000n))
  await pass(1_500)
  expect(await refused).toMatchObject({ kind: 'refused', code: 'in_flight_budget' })
})

test('a request never waits longer for money to come back than for the database', async () => {
  const ledger = startLedger()
  await useBulkLease(ledger)
  grantsBulk = false
  refuse = () => ({})
  store.handBack = () => Promise.reject(away())
  const admitted = ledger.admit(admissionOf(customerId, 5_000_000n))
  admitted.catch(() => {})
  await pass(3_000)
  await expect(admitted).rejects.toMatchObject({ code: 'database_unavailable' })
  expect(ledger.pending.admissions).toBe(0)
})

test('when a stalled disk may keep a charge, a free record follows it for the next process', async () => {
  const disk = createMemoryDisk()
  disk.pendingSyncs = []
  const { journal } = openJournal({ disk, scheduler, fsync: true })
  const ledger = startLedger({ journal, bulkLeases: false })
  const admission = admissionOf(customerId, 800n)
  const granted = ledger.admit(admission)
  // No other periodic check is due by then.
  await pass(1_000)
  await granted
  store.settle = () => Promise.reject(away())
  const settled = settle(ledger, settlementOf(admission, 800n, 10n))
  settled.catch(() => {})
  await pass(11_000)
  await expect(settled).rejects.toMatchObject({ code: 'settlement_unavailable' })

  const left = openJournal({ disk: createMemoryDisk(disk.files), scheduler, fsync: true })
  expect(left.recovered.map(({ payload }) => decodeSettlement(payload.toString()).costNanos)).toEqual([10n, 0n])
  const charged: bigint[] = []
  store.settle = async (_shard, records) => {
    for (const { costNanos } of decodeSettlements(records)) charged.push(costNanos)
    return new Map()
  }
  const next = startLedger({ journal: left.journal })
  const replayed = next.replay(
    left.recovered.map(({ payload, entry }) => ({ payload, forget: () => left.journal.forget(entry) })),
  )
  await pass(100)
  await replayed
  expect(charged).toEqual([0n])
  expect(left.journal.entries).toBe(0)
})

test('a client that has left is charged for what it received, however long that takes to be safe', async () => {
  const ledger = startLedger({ bulkLeases: false })
  const admission = admissionOf(customerId, 800n)
  const granted = ledger.admit(admission)
  await pass(1_000)
  await granted
  const { settle: settleInStore } = store
  store.settle = () => Promise.reject(away())
  const settled = settle(ledger, settlementOf(admission, 800n, 10n, { outcome: 'client_gone' }))
  settled.catch(() => {})
  await pass(11_000)
  await expect(settled).rejects.toMatchObject({ code: 'settlement_unavailable' })
  const charged: bigint[] = []
  store.settle = (shard, records) => {
    for (const { costNanos } of decodeSettlements(records)) charged.push(costNanos)
    return settleInStore(shard, records)
  }
  await pass(30_000)
  expect(charged).toEqual([10n])
})

test('a running node writes charges again whose segment of the journal was emptied', async () => {
  const disk = createMemoryDisk()
  const { journal } = openJournal({ disk, scheduler, fsync: false })
  const ledger = startLedger({ journal, bulkLeases: false })
  store.settle = () => Promise.reject(away())
  for (let n = 0; n < 3; n++) await serve(ledger, 1_000)
  const [segment] = disk.files.keys()
  disk.files.set(segment!, Buffer.alloc(0))
  await pass(2_000)
  const { recovered } = openJournal({ disk: createMemoryDisk(disk.files), scheduler, fsync: false })
  expect(recovered).toHaveLength(3)
  expect(journal.entries).toBe(3)
  ledger.stop()
})

test('a disk that refuses records is logged once in ten seconds, with the number of refused records', async () => {
  const disk = createMemoryDisk()
  const { journal } = openJournal({ disk, scheduler, fsync: false })
  const logged: object[] = []
  const log = { warn: () => {}, error: (facts: object) => void logged.push(facts) }
  const ledger = startLedger({ journal, bulkLeases: false, log })
  disk.isReadOnly = true
  for (let n = 0; n < 12; n++) await serve(ledger, 1_000)
  expect(logged).toMatchObject([{ records: 1 }, { records: 10 }])
})

test('bulk leases that are requested ahead of need share a call', async () => {
  const ledger = startLedger()
  const calls: { atMs: number; bulk: number; strict: number }[] = []
  const { admit } = store
  store.admit = (node, requests) => {
    const bulk = requests.filter(request => 'slots' in request).length
    calls.push({ atMs: nowMs, bulk, strict: requests.length - bulk })
    return admit(node, requests)
  }
  const customers = Array.from({ length: 5 }, () => randomUUIDv7())
  /** Sends one request of each customer, which costs nothing. */
  const admitAll = async () => {
    const admitted = Promise.all(customers.map(customerId => ledger.admit(admissionOf(customerId, 0n))))
    await pass(0)
    await admitted
  }
  await admitAll()
  await admitAll()
  expect(calls).toMatchObject([
    { bulk: 0, strict: 5 },
    { bulk: 5, strict: 0 },
  ])
  // Each lease has 62 slots.
  for (let n = 0; n < 60; n++) await admitAll()
  const lowSinceMs = nowMs + 1_000
  nowMs = lowSinceMs
  await admitAll()
  expect(calls.length).toBe(2)
  await pass(100)
  expect(calls.slice(2)).toEqual([{ atMs: lowSinceMs + 100, bulk: 5, strict: 0 }])
})

function waiting(forMs: number, more: Partial<Admission> = {}): Admission {
  return admissionOf(customerId, 500n, { creditWait: { forMs, signal: new CancelSource() }, ...more })
}

test('a line of 200 requests costs the database one try for each commit of the customer, and two a second', async () => {
  const ledger = startLedger({ bulkLeases: false })
  const running = Array.from({ length: 3 }, () => admissionOf(customerId, 800n))
  const granted = Promise.all(running.map(admission => ledger.admit(admission)))
  await pass(0)
  await granted
  refuse = () => ({ postedNanos: 10_000n })
  const results: unknown[] = []
  const admit = () => void ledger.admit(waiting(60_000)).then(result => results.push(result))
  admit()
  await pass(0)
  for (let n = 0; n < 199; n++) admit()
  const before = tries.length
  await pass(300)
  expect(tries.length).toBe(before)
  const settled = Promise.all(running.map(admission => settle(ledger, settlementOf(admission, 800n, 10n))))
  await pass(0)
  await settled
  expect(tries.length).toBe(before + 1)
  await pass(1_000)
  expect(tries.length).toBe(before + 3)
  // When there is room, its verdict shows how many more fit.
  refuse = () => undefined
  await pass(500)
  expect(results).toHaveLength(200)
  expect(ledger.pending).toMatchObject({ admissions: 0, waitingForCredit: 0 })
})

test('a request that has waited its time is tried once more, with the smallest hold that it accepts', async () => {
  const ledger = startLedger({ bulkLeases: false })
  refuse = () => ({ postedNanos: 10_000n })
  const whole = ledger.admit(waiting(5_000))
  const ask = { wantNanos: 500n, floorNanos: 100n }
  const flexible = ledger.admit(waiting(5_000, { ask }))
  await pass(4_999)
  // A smaller hold would do, but the answer is not cut off while there is a chance for all of it.
  expect(tries.slice(2).every(({ admission }) => admission.ask!.floorNanos === 500n)).toBe(true)
  refuse = ({ ask }) => (ask!.floorNanos > 100n ? { postedNanos: 10_000n } : undefined)
  await pass(1)
  expect(await whole).toMatchObject({ kind: 'refused', code: 'in_flight_budget', waitedMs: 5_000 })
  expect(await flexible).toMatchObject({ kind: 'granted', waitedMs: 5_000 })
})

test('while requests wait for the balance, no later one is admitted from a bulk lease', async () => {
  const ledger = startLedger()
  await useBulkLease(ledger)
  refuse = () => ({ postedNanos: 10n ** 12n })
  grantsBulk = false
  const large = ledger.admit(waiting(60_000, { ask: { wantNanos: 5_000_000n, floorNanos: 5_000_000n } }))
  await pass(11_000)
  grantsBulk = true
  const bulkRequests: LeaseRequest[] = []
  const { admit } = store
  store.admit = (node, requests) => {
    bulkRequests.push(...requests.filter(request => 'slots' in request))
    return admit(node, requests)
  }
  const small = [ledger.admit(waiting(60_000)), ledger.admit(waiting(60_000))]
  await pass(1_000)
  expect(bulkRequests).toEqual([])
  expect(ledger.pending.waitingForCredit).toBe(3)
  refuse = () => undefined
  await pass(500)
  expect((await Promise.all([large, ...small])).map(({ kind }) => kind)).toEqual(['granted', 'granted', 'granted'])
})

test('a database that does not answer refuses what waits, but not before its time', async () => {
  const ledger = startLedger({ bulkLeases: false })
  refuse = () => ({ postedNanos: 10_000n })
  const waits = ledger.admit(waiting(5_000))
  waits.catch(() => {})
  await pass(4_000)
  expect(ledger.pending.waitingForCredit).toBe(1)
  store.admit = () => Promise.reject(away())
  await pass(4_000)
  await expect(waits).rejects.toMatchObject({ code: 'database_unavailable' })
  expect(ledger.pending).toMatchObject({ admissions: 0, waitingForCredit: 0 })
})
