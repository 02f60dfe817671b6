import { randomUUIDv7 } from 'node:crypto'
import { printProgress } from '../../bench/print-progress.ts'
import { HOLD_NANOS, sampleAdmission, sampleLimits, sampleSettlement } from '../../bench/sample-request.ts'
import { elementAt } from '../../src/base/runtime/collections.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import type { BulkRequest, LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { addUsagePartitions } from '../../src/money/ledger/settlement/add-usage-partitions.ts'
import { encodeSettlements, type Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import type { KnownCustomer } from './measure-customers.ts'
import type { DatabaseUse, MeasuredDatabase } from './measured-database.ts'

/** Calls of one kind and size. */
export interface CallSample {
  readonly call: 'admit' | 'settle' | 'hand back'
  readonly lease: 'strict' | 'bulk'
  /** Requests or leases of a call. */
  readonly items: number
  /** Customers of a call. */
  readonly customers: number
  /** Pages that were not changed since the last checkpoint are in the WAL as a whole. */
  readonly isAfterCheckpoint: boolean
  readonly calls: number
  readonly cpuUsPerCall: number
  readonly walBytesPerCall: number
}

export interface MeasuredLedger {
  readonly samples: readonly CallSample[]
  /** Requests of all customers in turn, with strict and with bulk leases. */
  readonly requests: number
  /** What they used, with the checkpoint after them. */
  readonly use: DatabaseUse
  /** What the vacuum after them used. */
  readonly vacuumUse: DatabaseUse
}

/** The sizes from which costs are interpolated: calls at low and at high load. */
export const SMALL = 4
export const LARGE = 128
/** The largest calls that the gateway makes: of strict leases, and of the bulk leases of one customer. */
const STRICT_MAX = 256
const BULK_MAX = 1_024
const CALLS_OF_ONE = 20
/** The tables with rows that requests change or remove. */
const CHANGED_TABLES = ['balance', 'lease', 'usage_hour', 'usage_day', 'usage_key_day', 'endpoint_day']

/** Admits and settles requests of all customers, with each kind of lease and in calls of several sizes, one call after the other. */
export async function measureLedger(
  database: MeasuredDatabase,
  customers: readonly KnownCustomer[],
): Promise<MeasuredLedger> {
  const store = createPostgresStore({ money: database.pool, heartbeat: database.pool })
  const nodeId = randomUUIDv7()
  await store.registerNode(nodeId)
  await addUsagePartitions(database.pool, Date.now())
  const samples: CallSample[] = []
  let requests = 0

  /** Makes a call for each batch, and adds them to the samples. */
  const measure = async <Item>(
    about: Pick<CallSample, 'call' | 'lease' | 'customers' | 'isAfterCheckpoint'>,
    batches: readonly (readonly Item[])[],
    run: (batch: readonly Item[]) => Promise<unknown>,
  ) => {
    const endUse = await database.startUse()
    for (const batch of batches) await run(batch)
    const { cpuUs, walBytes } = await endUse()
    const calls = batches.length
    const items = batches[0]?.length ?? 0
    const cost = { cpuUsPerCall: cpuUs / calls, walBytesPerCall: walBytes / calls }
    samples.push({ ...about, items, calls, ...cost })
    const { cpuUsPerCall, walBytesPerCall } = cost
    printProgress(
      `${about.call} ${items} ${about.lease} of ${about.customers}: ${(cpuUsPerCall / items).toFixed(0)} µs, ${(walBytesPerCall / items).toFixed(0)} bytes of WAL each`,
    )
  }
  const admit = (batch: readonly (Admission | BulkRequest)[]) => admitAll(store, nodeId, batch)
  const settle = (batch: readonly Settlement[]) => settleAll(store, batch)

  const runStrict = async (payers: readonly KnownCustomer[], items: number, isAfterCheckpoint = false) => {
    const batches = batchesOf(payers.map(sampleAdmission), items)
    const about = { lease: 'strict', customers: Math.min(items, new Set(payers).size), isAfterCheckpoint } as const
    await measure({ ...about, call: 'admit' }, batches, admit)
    const settlements = batches.map(batch => batch.map(admission => sampleSettlement(admission, admission.requestId)))
    await measure({ ...about, call: 'settle' }, settlements, settle)
    requests += payers.length
  }
  const settleBulk = async (leases: readonly KnownLease[], items: number, customersOfCall = items) => {
    const settlements = leases.map(lease => sampleSettlement(sampleAdmission(lease), lease.leaseId))
    const about = { call: 'settle', lease: 'bulk', customers: customersOfCall, isAfterCheckpoint: false } as const
    await measure(about, batchesOf(settlements, items), settle)
    requests += leases.length
  }
  const grant = async (items: number) => {
    const leases = customers.map(bulkRequestOf)
    const about = { call: 'admit', lease: 'bulk', customers: items, isAfterCheckpoint: false } as const
    await measure(about, batchesOf(leases, items), admit)
    return leases
  }
  const handBack = async (leases: readonly KnownLease[], items: number) => {
    const returns = leases.map(({ leaseId }) => ({ leaseId, keepNanos: null, slotsUsed: 1 }))
    const about = { call: 'hand back', lease: 'bulk', customers: items, isAfterCheckpoint: false } as const
    await measure(about, batchesOf(returns, items), batch => store.handBack(batch))
  }

  const endUse = await database.startUse()
  // The first requests of the day add rows to the sums; all later ones change them.
  for (const batch of batchesOf(customers.map(sampleAdmission), LARGE)) {
    await admit(batch)
    await settle(batch.map(admission => sampleSettlement(admission, admission.requestId)))
  }
  requests += customers.length
  await runStrict(customers, LARGE)
  await runStrict(customers, SMALL)
  const large = await grant(LARGE)
  await settleBulk(large, LARGE)
  await settleBulk(large, SMALL)
  await handBack(large, LARGE)
  const small = await grant(SMALL)
  await database.checkpoint()
  const use = await endUse()
  const requestsOfAll = requests
  const endVacuum = await database.startUse()
  await database.vacuum(CHANGED_TABLES)
  const vacuumUse = await endVacuum()

  const ofOne = <Item>(items: readonly Item[], size: number) =>
    Array.from({ length: size * CALLS_OF_ONE }, () => elementAt(items, 0))
  await settleBulk(ofOne(small, LARGE), LARGE, 1)
  await settleBulk(ofOne(small, BULK_MAX), BULK_MAX, 1)
  await handBack(small, SMALL)
  await runStrict(ofOne(customers, STRICT_MAX), STRICT_MAX)
  await database.checkpoint()
  const everyOther = Math.max(Math.floor(customers.length / (CALLS_OF_ONE * SMALL)), 1)
  await runStrict(
    customers.filter((_, at) => at % everyOther === 0),
    SMALL,
    true,
  )
  await store.retireNode(nodeId)
  return { samples, requests: requestsOfAll, use, vacuumUse }
}

function batchesOf<Item>(items: readonly Item[], size: number): Item[][] {
  const batches: Item[][] = []
  for (let at = 0; at + size <= items.length; at += size) batches.push(items.slice(at, at + size))
  return batches
}

async function admitAll(
  store: LedgerStore,
  nodeId: string,
  batch: readonly (Admission | BulkRequest)[],
): Promise<void> {
  const verdicts = await store.admit(nodeId, batch)
  const other = verdicts.find(({ kind }) => kind !== 'granted')
  if (other !== undefined) throw new Error(`A request was not admitted: ${other.kind}.`)
}

async function settleAll(store: LedgerStore, batch: readonly Settlement[]): Promise<void> {
  const effects = await store.settle(1, encodeSettlements(batch))
  for (const effect of effects.values()) throw new Error(`A request was not settled as asked: ${effect}.`)
}

/** A bulk lease, and a key of its customer. */
type KnownLease = BulkRequest & Pick<KnownCustomer, 'keyId'>

function bulkRequestOf({ customerId, keyId }: KnownCustomer): KnownLease {
  const wantNanos = 100_000n * HOLD_NANOS
  return {
    leaseId: randomUUIDv7(),
    customerId,
    keyId,
    limits: sampleLimits,
    wantNanos,
    floorNanos: wantNanos,
    slots: 1_000,
  }
}
