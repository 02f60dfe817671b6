import { randomUUIDv7 } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { migrate } from '../src/base/db/migrate.ts'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool } from '../src/base/db/pool.ts'
import { systemScheduler } from '../src/base/runtime/scheduler.ts'
import { openAccount } from '../src/money/ledger/accounts/open-account.ts'
import { createLedger } from '../src/money/ledger/ledger.ts'
import { createPostgresStore } from '../src/money/ledger/postgres-store.ts'
import { percentile } from './percentile.ts'
import { readCpuMicros } from './process-usage.ts'
import { sampleAdmission, sampleSettlement } from './sample-request.ts'

/**
 * Measures how many requests per second the ledger alone admits and settles, on its own PostgreSQL with fsync on, and the CPU time of both
 * (Linux only). Run it as `taskset -c 0 node bench/ledger.ts --in-flight 128 --customers 1 --seconds 10`.
 */
const { values } = parseArgs({
  options: {
    'in-flight': { type: 'string', default: '128' },
    customers: { type: 'string', default: '1' },
    bulk: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '10' },
  },
})
const [inFlight, customers, seconds] = [Number(values['in-flight']), Number(values.customers), Number(values.seconds)]

const APPLICATION = 'bench ledger'
const KEY_ID = randomUUIDv7()

const dataDir = await mkdtemp(join(tmpdir(), 'switchyard-bench-'))
const database = await openDatabase({ dataDir, log: { info() {}, warn: console.error } })
await migrate(database.owner)
const pool = createPool(database.owner, { max: 4, applicationName: APPLICATION })
const nodeId = randomUUIDv7()
const store = createPostgresStore({ money: pool, heartbeat: pool })
await store.registerNode(nodeId)
const ledger = createLedger({
  store,
  node: { nodeId, mayAdmit: () => true, hasPeers: () => false },
  nodeShard: 1,
  scheduler: systemScheduler,
  newId: randomUUIDv7,
  journal: null,
  bulkLeases: values.bulk,
  log: console,
})
const customerIds = await Promise.all(Array.from({ length: customers }, addCustomer))

let [pairs, working] = [0, true]
const waitsMs: number[] = []
const workers = Array.from({ length: inFlight }, async (_, i) => {
  for (let n = i; working; n++) await admitAndSettle(customerIds[n % customers]!)
})
for (let second = 0; second < seconds; second++) {
  const [pairsBefore, cpuBefore, postgresBefore] = [pairs, process.cpuUsage(), await postgresCpuUs()]
  await new Promise(resolve => setTimeout(resolve, 1_000))
  const { user, system } = process.cpuUsage(cpuBefore)
  const done = pairs - pairsBefore
  const perPair = (cpuUs: number) => `${Math.round(cpuUs / done)} us`
  console.log(
    `${done} pairs, CPU per pair: node ${perPair(user + system)}, postgres ${perPair((await postgresCpuUs()) - postgresBefore)}`,
  )
}
working = false
await Promise.all(workers)
waitsMs.sort((a, b) => a - b)
const waitMs = (share: number) => percentile(waitsMs, share).toFixed(2)
console.log(`${Math.round(pairs / seconds)} pairs/s, admission p50 ${waitMs(0.5)} ms, p99 ${waitMs(0.99)} ms`)
// Hand back the bulk leases before the database stops: the ledger would retry forever without it.
await ledger.drain(10_000)
ledger.stop()
await pool.end()
await database.close()
await rm(dataDir, { recursive: true, force: true })

async function addCustomer(): Promise<string> {
  const customerId = randomUUIDv7()
  await pool.query(`INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, 'free')`, [
    customerId,
    `${customerId}@example.org`,
  ])
  await openAccount(pool, customerId, 1_000_000_000_000_000n)
  return customerId
}

async function admitAndSettle(customerId: string): Promise<void> {
  const admission = sampleAdmission({ customerId, keyId: KEY_ID })
  const sinceMs = performance.now()
  const admitted = await ledger.admit(admission)
  if (admitted.kind !== 'granted') throw new Error(`not granted: ${admitted.kind}`)
  waitsMs.push(performance.now() - sinceMs)
  await ledger.settle(sampleSettlement(admission, admitted.hold.leaseId), admitted.hold)
  pairs++
}

/** CPU time of the PostgreSQL backends of this process. Linux counts it in hundredths of a second. */
async function postgresCpuUs(): Promise<number> {
  const { rows } = await pool.query<{ pid: number }>('SELECT pid FROM pg_stat_activity WHERE application_name = $1', [
    APPLICATION,
  ])
  return rows.reduce((sum, { pid }) => sum + (readCpuMicros(pid) ?? 0), 0)
}
