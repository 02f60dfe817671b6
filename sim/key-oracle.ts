import type { Claim } from '../src/chat/idempotency/claim-store.ts'
import type { Claimed } from '../src/chat/idempotency/claims.ts'
import type { DatabaseServer } from './database-server.ts'
import { claimKey } from './model-database.ts'
import type { RequestRecord } from './request-record.ts'
import type { World } from './world.ts'

/** Knows every request of every Idempotency-Key, and watches that each key is charged once and answered truly. */
export interface KeyOracle {
  asked(record: RequestRecord): void
  /** The request has a usage row with a charge. */
  charged(record: RequestRecord): void
  /** A node looked what a key stands for. */
  sawFind(claim: Claim): void
  /** Another request with its key runs on the condition that this one stays free. */
  sawSuperseded(record: RequestRecord): void
  isSuperseded(requestId: string): boolean
  /** What a node made of it. */
  claimed(record: RequestRecord, result: Claimed): void
  readonly counts: { readonly keyed: number; readonly replayed: number; readonly superseded: number }
}

export interface KeyOracleDeps {
  readonly world: World
  readonly serverOf: () => DatabaseServer
  readonly requests: ReadonlyMap<string, RequestRecord>
  /** When the database last heard of a node, and whether there ever was a silence longer than SURELY_ALIVE_MS. */
  readonly heardOf: (nodeId: string) => { readonly atMs: number; readonly wasSilent: boolean } | undefined
  readonly hasDatabaseStepped: () => boolean
}

/** A heartbeat counts for 15 s. */
export const SURELY_ALIVE_MS = 14_900

export function createKeyOracle({ world, serverOf, requests, heardOf, hasDatabaseStepped }: KeyOracleDeps): KeyOracle {
  /** The requests of each key, and which of them is charged. */
  const tries = new Map<string, { readonly records: RequestRecord[]; chargedId: string | undefined }>()
  const superseded = new Set<string>()
  let keyed = 0
  let replayed = 0
  return {
    asked(record) {
      if (record.once === null) return
      keyed++
      const ofKey = keyOfRecord(record)
      if (ofKey !== undefined) ofKey.records.push(record)
      else tries.set(`${record.customer.customerId} ${record.once.key}`, { records: [record], chargedId: undefined })
    },
    charged,
    sawFind,
    sawSuperseded,
    isSuperseded: requestId => superseded.has(requestId),
    claimed,
    get counts() {
      return { keyed, replayed, superseded: superseded.size }
    },
  }

  function keyOfRecord({ customer, once }: RequestRecord) {
    return once === null ? undefined : tries.get(`${customer.customerId} ${once.key}`)
  }

  /** Whatever happens, a key is charged once. */
  function charged(record: RequestRecord): void {
    const ofKey = keyOfRecord(record)
    if (ofKey === undefined) return
    const { requestId } = record.admission
    ofKey.chargedId ??= requestId
    if (ofKey.chargedId !== requestId)
      world.fail('keys_are_charged_once', `${record.once!.key}: requests ${ofKey.chargedId} and ${requestId}`)
  }

  /** A request that runs on a node that is heard of keeps its key. */
  function sawFind(claim: Claim): void {
    const { claims, nodes, usage } = serverOf().model.tables
    const row = claims.get(claimKey(claim))
    if (row === undefined || row.done !== null || hasDatabaseStepped()) return
    const record = requests.get(row.requestId)
    const heardMs = heardOf(row.nodeId)?.atMs ?? Number.NEGATIVE_INFINITY
    const isLiving = nodes.get(row.nodeId)?.state === 'alive' && world.nowMs - heardMs < SURELY_ALIVE_MS
    const isOver = usage.get(row.customerId)?.has(row.requestId) === true
    if (!isLiving || isOver || record?.holdsKey !== true || !record.process.isAlive) return
    if (serverOf().model.findClaim(claim)?.isRunning !== true)
      world.fail('the_running_keep_their_key', `${row.key}: request ${row.requestId} of node ${row.nodeId}`)
  }

  function sawSuperseded(record: RequestRecord): void {
    const { customer, once, admission, process, holdsKey } = record
    if (superseded.has(admission.requestId)) return
    superseded.add(admission.requestId)
    const { claims, nodes } = serverOf().model.tables
    const row = claims.get(claimKey({ customerId: customer.customerId, key: once!.key }))
    if (row?.requestId !== admission.requestId || hasDatabaseStepped() || !holdsKey || !process.isAlive) return
    const heard = heardOf(row.nodeId)
    if (heard === undefined || heard.wasSilent || nodes.get(row.nodeId)?.state !== 'alive') return
    if (world.nowMs - heard.atMs < SURELY_ALIVE_MS)
      world.fail('the_running_keep_their_key', `${row.key}: request ${row.requestId} of node ${row.nodeId}`)
  }

  function claimed(record: RequestRecord, result: Claimed): void {
    const { records, chargedId } = keyOfRecord(record)!
    const { key, body } = record.once!
    const { usage } = serverOf().model.tables
    const ofCustomer = usage.get(record.customer.customerId)
    if (result.kind === 'mine') {
      record.holdsKey = true
      // A process that slept meanwhile: whatever it does now is free.
      if (superseded.has(record.admission.requestId)) return
      if (chargedId !== undefined)
        world.fail('what_was_charged_is_not_done_again', `${key}: request ${chargedId} was charged`)
      for (const other of records) {
        const { admission, holdsKey } = other
        if (other !== record && holdsKey && !ofCustomer?.has(admission.requestId))
          world.fail('keys_run_once', `${key}: request ${admission.requestId} runs, and may be charged`)
      }
      return
    }
    if (result.kind === 'other_body') {
      if (records.every(({ once }) => once!.body === body))
        world.fail('only_other_bodies_are_refused', `${key}: there is one body`)
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
      world.fail('answers_are_of_the_same_request', `${key}: ${requestId} was never answered`)
      return
    }
    if (earlier.once!.body !== body) world.fail('other_bodies_are_refused', `${key}: request ${requestId}`)
    if (!settlement.success && settlement.costNanos === 0n)
      world.fail('what_cost_nothing_runs_again', `${key}: request ${requestId}`)
    const due = least(settlement.costNanos, earlier.heldNanos)
    const charged = ofCustomer?.get(requestId)?.cost ?? 0n
    if (costNanos < charged || (costNanos !== due && costNanos !== charged))
      world.fail('costs_are_told', `${key}: ${costNanos} for ${requestId}, charged ${charged} of ${due}`)
    if (answer === null) return
    replayed++
    if (answer.body !== earlier.sentText)
      world.fail('answers_are_of_the_same_request', `${key}: ${answer.body}, not ${earlier.sentText}`)
  }
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}
