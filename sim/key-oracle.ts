import type { Claim } from '../src/request/chat/idempotency/claim-store.ts'
import type { Claimed } from '../src/request/chat/idempotency/claims.ts'
import type { DatabaseServer } from './database-server.ts'
import { claimKey } from './model-database.ts'
import type { RequestRecord } from './request-record.ts'
import type { World } from './world.ts'

/** Tracks every request of every Idempotency-Key, and checks that each key is charged once and replayed correctly. */
export interface KeyOracle {
  asked(record: RequestRecord): void
  /** Records that the request has a usage row with a charge. */
  charged(record: RequestRecord): void
  /** Checks a node's lookup of a key. */
  checkFind(claim: Claim): void
  /** Checks that this request was superseded rightly: another request with its key runs, and this one stays free. */
  superseded(record: RequestRecord): void
  isSuperseded(requestId: string): boolean
  /** Call it when the database has lost changes of these keys, named `<customer> <key>`: their requests may run, and be charged, twice. */
  lost(keys: Iterable<string>): void
  /** Checks the outcome of claiming a key. */
  claimed(record: RequestRecord, result: Claimed): void
  readonly counts: { readonly keyed: number; readonly replayed: number; readonly superseded: number }
}

export interface KeyOracleDeps {
  readonly world: World
  readonly serverOf: () => DatabaseServer
  readonly requests: ReadonlyMap<string, RequestRecord>
  /** The last heartbeat of a node, and whether any gap between heartbeats was longer than SURELY_ALIVE_MS. */
  readonly lastHeartbeat: (nodeId: string) => { readonly atMs: number; readonly wasSilent: boolean } | undefined
}

/** The keys of a node are free 15 s after its last heartbeat. */
export const SURELY_ALIVE_MS = 14_900

export function createKeyOracle({ world, serverOf, requests, lastHeartbeat }: KeyOracleDeps): KeyOracle {
  /** The requests of each key, and the id of the charged one. */
  const tries = new Map<string, { readonly records: RequestRecord[]; chargedId: string | undefined }>()
  const supersededIds = new Set<string>()
  const lostKeys = new Set<string>()
  let keyed = 0
  let replayed = 0
  return {
    asked(record) {
      if (record.idempotency === null) return
      keyed++
      const ofKey = keyOfRecord(record)
      if (ofKey !== undefined) ofKey.records.push(record)
      else
        tries.set(`${record.customer.customerId} ${record.idempotency.key}`, {
          records: [record],
          chargedId: undefined,
        })
    },
    charged,
    checkFind,
    superseded,
    isSuperseded: requestId => supersededIds.has(requestId),
    lost(keys) {
      for (const key of keys) lostKeys.add(key)
    },
    claimed,
    get counts() {
      return { keyed, replayed, superseded: supersededIds.size }
    },
  }

  function keyOfRecord({ customer, idempotency }: RequestRecord) {
    return idempotency === null ? undefined : tries.get(`${customer.customerId} ${idempotency.key}`)
  }

  function isLost({ customer, idempotency }: RequestRecord): boolean {
    return idempotency !== null && lostKeys.has(claimKey({ customerId: customer.customerId, key: idempotency.key }))
  }

  /** A key is charged at most once. */
  function charged(record: RequestRecord): void {
    const ofKey = keyOfRecord(record)
    if (ofKey === undefined) return
    const { requestId } = record.admission
    ofKey.chargedId ??= requestId
    if (ofKey.chargedId !== requestId && !isLost(record))
      world.fail('keys_are_charged_once', `${record.idempotency!.key}: requests ${ofKey.chargedId} and ${requestId}`)
  }

  /** A running request on a node with recent heartbeats keeps its key. */
  function checkFind(claim: Claim): void {
    const { claims, nodes, usage } = serverOf().model.tables
    const row = claims.get(claimKey(claim))
    if (row === undefined || row.done !== null) return
    const record = requests.get(row.requestId)
    const heartbeatMs = lastHeartbeat(row.nodeId)?.atMs ?? Number.NEGATIVE_INFINITY
    const isLiving = nodes.get(row.nodeId)?.state === 'alive' && world.nowMs - heartbeatMs < SURELY_ALIVE_MS
    const isOver = usage.get(row.customerId)?.has(row.requestId) === true
    if (!isLiving || isOver || lostKeys.has(claimKey(claim)) || record?.holdsKey !== true || !record.process.isAlive)
      return
    if (serverOf().model.findClaim(claim)?.isRunning !== true)
      world.fail('running_requests_keep_their_key', `${row.key}: request ${row.requestId} of node ${row.nodeId}`)
  }

  function superseded(record: RequestRecord): void {
    const { customer, idempotency, admission, process, holdsKey } = record
    if (supersededIds.has(admission.requestId)) return
    supersededIds.add(admission.requestId)
    const { claims, nodes } = serverOf().model.tables
    const row = claims.get(claimKey({ customerId: customer.customerId, key: idempotency!.key }))
    if (row?.requestId !== admission.requestId || !holdsKey || !process.isAlive || isLost(record)) return
    const heartbeat = lastHeartbeat(row.nodeId)
    if (heartbeat === undefined || heartbeat.wasSilent || nodes.get(row.nodeId)?.state !== 'alive') return
    if (world.nowMs - heartbeat.atMs < SURELY_ALIVE_MS)
      world.fail('running_requests_keep_their_key', `${row.key}: request ${row.requestId} of node ${row.nodeId}`)
  }

  function claimed(record: RequestRecord, result: Claimed): void {
    const { records, chargedId } = keyOfRecord(record)!
    const { key, body } = record.idempotency!
    const { usage } = serverOf().model.tables
    const ofCustomer = usage.get(record.customer.customerId)
    if (result.kind === 'claimed') {
      record.holdsKey = true
      if (isLost(record)) return
      // The process slept and was superseded: its work stays free.
      if (supersededIds.has(record.admission.requestId)) return
      if (chargedId !== undefined)
        world.fail('charged_requests_do_not_run_again', `${key}: request ${chargedId} was charged`)
      for (const other of records) {
        const { admission, holdsKey } = other
        if (other !== record && holdsKey && !ofCustomer?.has(admission.requestId))
          world.fail('one_request_runs_per_key', `${key}: request ${admission.requestId} is running and may be charged`)
      }
      return
    }
    if (result.kind === 'other_body') {
      if (records.every(({ idempotency }) => idempotency!.body === body))
        world.fail('only_other_bodies_are_refused', `${key}: all requests have the same body`)
      return
    }
    if (result.kind === 'running') {
      record.isKeyInUse = true
      return
    }
    const { requestId, costNanos, answer } = result
    const earlier = records.find(({ admission }) => admission.requestId === requestId)
    const settlement = earlier?.settlement
    if (earlier === undefined || settlement === undefined) {
      world.fail('replays_return_the_original_answer', `${key}: ${requestId} was never answered`)
      return
    }
    if (earlier.idempotency!.body !== body) world.fail('other_bodies_are_refused', `${key}: request ${requestId}`)
    if (!settlement.success && settlement.costNanos === 0n)
      world.fail('free_requests_run_again', `${key}: request ${requestId}`)
    const due = least(settlement.costNanos, earlier.heldNanos)
    const charged = ofCustomer?.get(requestId)?.cost ?? 0n
    if (costNanos < charged || (costNanos !== due && costNanos !== charged))
      world.fail('replays_report_the_cost', `${key}: ${costNanos} for ${requestId}, charged ${charged} of ${due}`)
    if (answer === null) return
    replayed++
    if (answer.body !== earlier.sentText)
      world.fail('replays_return_the_original_answer', `${key}: ${answer.body}, not ${earlier.sentText}`)
  }
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}
