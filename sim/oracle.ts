import type { KeyLimit } from '../src/base/domain/caller.ts'
import type { Nanos } from '../src/base/domain/money.ts'
import type { Offer } from '../src/base/domain/offer.ts'
import type { RefundOrder } from '../src/money/ledger/accounts/refund-request.ts'
import type { AdmissionResult } from '../src/money/ledger/leases/admission.ts'
import type {
  Heartbeat,
  LeaseRequest,
  LeaseReturn,
  LeaseVerdict,
  ReclaimOptions,
  SettleEffect,
} from '../src/money/ledger/ledger-store.ts'
import type { Settlement } from '../src/money/ledger/settlement/settlement.ts'
import type { Claim } from '../src/request/chat/idempotency/claim-store.ts'
import type { Claimed } from '../src/request/chat/idempotency/claims.ts'
import type { Customer } from './customer.ts'
import type { DatabaseServer } from './database-server.ts'
import type { Volume } from './gateway.ts'
import { createKeyOracle, SURELY_ALIVE_MS } from './key-oracle.ts'
import type { LinkObserver } from './link.ts'
import type { LeaseRow, RefundVerdict, UsageRow } from './model-database.ts'
import { highestPicos, listedPicos } from './part-prices.ts'
import type { Pricing } from './pricing.ts'
import type { Process } from './process.ts'
import { createRefundOracle } from './refund-oracle.ts'
import type { RequestRecord } from './request-record.ts'
import type { World } from './world.ts'

/** The promises of docs/money.md, not the constants of the product: a planted bug may change those. */
const DEAD_AFTER_MS = 65_000
const HOLDS_FREE_AFTER_MS = 75_000
/** The longest time between two heartbeats of a steady process. */
const STEADY_MS = 3_000

/**
 * Tracks all requests and checks the invariants of docs/money.md after every transaction, at every answer and at the end of the run.
 * `world.fail` receives the name of a broken invariant.
 */
export interface Oracle extends LinkObserver {
  readonly requests: ReadonlyMap<string, RequestRecord>
  onCommit(customerIds: ReadonlySet<string>): void
  onReclaim(lease: Readonly<LeaseRow>): void
  /** Compares the tables before and after `rollBack`, which undoes the transactions since `toMs`. */
  onRollBack(rollBack: () => void, toMs: number): void
  asked(record: RequestRecord): void
  admitted(record: RequestRecord, result: AdmissionResult): void
  refused(record: RequestRecord): void
  /** `offer`: the offer that served the request, or null. */
  settling(record: RequestRecord, settlement: Settlement, pricing: Pricing, offer: Offer | null): void
  /** Checks the outcome of claiming the Idempotency-Key of the request. */
  claimed(record: RequestRecord, claimed: Claimed): void
  /** Checks the answer to a refund order of the operator. */
  refunded(order: RefundOrder, verdict: RefundVerdict): void
  answered(record: RequestRecord): void
  voided(record: RequestRecord): void
  died(process: Process): void
  /** The journal on a volume is lost, or may be. */
  lost(volume: Volume): void
  /** All faults have ended. */
  healed(): void
  /** A bit of a file on a volume flipped: at most one record is lost. */
  bitFlipped(volume: Volume): void
  /** The clock of the database jumped: limits of the affected windows do not hold. */
  clockStepped(): void
  /** The clock of a machine jumped. */
  machineClockStepped(): void
  readonly hasSteppedClocks: boolean
  /** Checks the final state, after all work has finished. */
  checkEnd(): void
  readonly counts: {
    readonly late: number
    readonly writtenOff: number
    readonly inMemory: number
    readonly charged: number
    readonly keyed: number
    readonly replayed: number
    readonly superseded: number
    readonly refunded: number
    /** Failovers that lost transactions. */
    readonly rolledBack: number
    /** Charges that were lost in a failover, and not made again. */
    readonly lostCharges: number
  }
}

export function createOracle(world: World, serverOf: () => DatabaseServer): Oracle {
  const requests = new Map<string, RequestRecord>()
  const customers = new Map<string, Customer>()
  /** The amount that each request may still take from its lease: the hold, or the cost once it is known. By lease, then by request. */
  const claims = new Map<string, Map<string, Nanos>>()
  /** When the database counted a request that it admitted. */
  const countedAtMs = new Map<string, number>()
  const admissions = new Map<string, number>()
  /** Keys with a spend limit, by customer. */
  const keysOf = new Map<string, Map<string, KeyLimit>>()
  const entrySums = new Map<string, Nanos>()
  const reclaimed = new Set<string>()
  const settled = new Set<string>()
  const presumedDead: { readonly customerId: string; readonly requestId: string }[] = []
  const deadNodes = new Set<string>()
  const losses = new Map<Volume, number>()
  const bitsFlipped = new Map<Volume, number>()
  /** Time of the last heartbeat of each process. */
  const heartbeatOf = new Map<Process, number>()
  /** The last heartbeat of each node. `outageExcessMs` is that of the server at that time. */
  const heartbeats = new Map<string, { atMs: number; process: Process; wasSilent: boolean; outageExcessMs: number }>()
  /** Since when each process is steady. */
  const steadySinceMs = new Map<Process, number>()
  const counts = { late: 0, writtenOff: 0, inMemory: 0, charged: 0, rolledBack: 0, lostCharges: 0 }
  /** Requests with a usage row that was lost in a failover. */
  const lostRows = new Set<string>()
  let rolledBackAtMs = Number.NEGATIVE_INFINITY
  const idempotencyKeys = createKeyOracle({
    world,
    serverOf,
    requests,
    lastHeartbeat: nodeId => heartbeats.get(nodeId),
  })
  const refunds = createRefundOracle(world, serverOf)
  /** Payments that were lost in a failover, by customer. */
  const creditsLost = new Map<string, Nanos>()
  let entriesSeen = 0
  let stepped = false
  let haveMachinesStepped = false
  let exactFromMs = Number.NEGATIVE_INFINITY
  let healedAtMs = Number.POSITIVE_INFINITY

  return {
    requests,
    get counts() {
      return { ...counts, ...idempotencyKeys.counts, refunded: refunds.count }
    },
    onCommit(customerIds) {
      checkEntries()
      for (const customerId of customerIds) checkCustomer(customerId)
    },
    onRollBack,
    onReclaim({ leaseId, nodeId, customerId, slots }) {
      reclaimed.add(leaseId)
      if (serverOf().model.tables.nodes.get(nodeId)?.state === 'alive')
        world.fail('live_nodes_keep_their_leases', `lease ${leaseId} was reclaimed from node ${nodeId}, which is alive`)
      if (slots === null) presumedDead.push({ customerId, requestId: leaseId })
    },
    onStatement(operation, args, result, sentAtMs, process) {
      // The operation determines the types of arguments and result, but TypeScript cannot infer that.
      const [first, second] = args as unknown[]
      if (operation === 'admit') sawAdmit(first as string, second as LeaseRequest[], result as LeaseVerdict[])
      else if (operation === 'settle')
        sawSettle(second as Settlement[], result as Map<string, SettleEffect>, sentAtMs, process)
      else if (operation === 'handBack')
        for (const { leaseId } of first as LeaseReturn[]) checkClaims(leaseId, 'a lease was handed back')
      else if (operation === 'release') sawRelease(result as Map<string, string>)
      else if (operation === 'registerNode' && !heartbeats.has(first as string)) sawHeartbeat(first as string, process)
      else if (operation === 'heartbeat') {
        // A copy that is executed late is no sign of life.
        if ((result as Heartbeat).before < (second as number)) sawHeartbeat(first as string, process)
      } else if (operation === 'retireNode') sawRetire(first as string)
      else if (operation === 'reclaim') sawReclaim(first as ReclaimOptions)
      else if (operation === 'refund') refunds.executed(first as RefundOrder, result as RefundVerdict)
      else if (operation === 'findClaim') idempotencyKeys.checkFind(first as Claim)
    },

    asked(record) {
      requests.set(record.admission.requestId, record)
      const { customerId } = record.customer
      customers.set(customerId, record.customer)
      idempotencyKeys.asked(record)
      const { keyId, keyLimit } = record.admission
      if (keyLimit === null) return
      let keys = keysOf.get(customerId)
      if (keys === undefined) {
        keys = new Map()
        keysOf.set(customerId, keys)
      }
      keys.set(keyId, keyLimit)
    },
    admitted(record, result) {
      const { requestId } = record.admission
      if (result.kind === 'refused') {
        record.state = 'refused'
        checkRefusal(record, result)
        return
      }
      countAdmission(record)
      const { minuteUsed, dayUsed } = result.windows
      const { requestsPerMinute, requestsPerDay } = record.customer.limits
      if (minuteUsed < 0 || minuteUsed > requestsPerMinute || dayUsed < 0 || dayUsed > requestsPerDay)
        world.fail(
          'window_counts_are_valid',
          `request ${requestId} received ${minuteUsed} for the minute, ${dayUsed} for the day`,
        )
      if (result.kind === 'counted') {
        record.state = 'counted'
        return
      }
      record.state = 'running'
      const { leaseId, nanos } = result.hold
      record.leaseId = leaseId
      record.heldNanos = nanos
      const { ask } = record.admission
      if (ask === null || nanos > ask.wantNanos || nanos < ask.floorNanos) {
        world.fail('holds_match_the_request', `request ${requestId} holds ${nanos}`)
      }
      claim(leaseId, requestId, nanos)
      if (leaseId === requestId) return
      counts.inMemory++
      const heartbeatMs = heartbeatOf.get(record.process) ?? Number.NEGATIVE_INFINITY
      if (world.nowMs - heartbeatMs > 12_100)
        world.fail(
          'silent_nodes_admit_nothing',
          `request ${requestId}, ${world.nowMs - heartbeatMs} ms after a heartbeat`,
        )
      const lease = serverOf().model.tables.leases.get(leaseId)
      if (lease !== undefined && !stepped && databaseMs() >= lease.slotMinute! + 60_000)
        world.fail('slots_expire_with_their_minute', `request ${requestId} by lease ${leaseId}`)
      if (lease === undefined) {
        if (!reclaimed.has(leaseId))
          world.fail('admission_needs_a_lease', `request ${requestId} was admitted by lease ${leaseId}, which is gone`)
      } else checkClaims(leaseId, 'a request was admitted')
    },
    refused(record) {
      record.state = 'failed'
    },
    claimed: idempotencyKeys.claimed,
    refunded: refunds.answered,
    settling(record, settlement, pricing, offer) {
      checkPrice(record, settlement, pricing, offer)
      record.state = 'settling'
      record.settlement = settlement
      claim(record.leaseId!, settlement.requestId, least(settlement.costNanos, record.heldNanos))
    },
    answered(record) {
      record.state = 'answered'
      record.lossesAtAnswer = losses.get(record.volume) ?? 0
    },
    voided(record) {
      record.state = 'voided'
      record.voidedAtMs = world.nowMs
      unclaim(record)
    },
    died(process) {
      for (const record of requests.values()) {
        if (record.process !== process) continue
        if (record.state !== 'running' && record.state !== 'settling' && record.state !== 'asked') continue
        record.state = 'cut'
        unclaim(record)
      }
    },
    lost(volume) {
      losses.set(volume, (losses.get(volume) ?? 0) + 1)
      for (const record of requests.values()) if (record.volume === volume) unclaim(record)
    },
    healed() {
      healedAtMs = world.nowMs
    },
    bitFlipped(volume) {
      bitsFlipped.set(volume, (bitsFlipped.get(volume) ?? 0) + 1)
    },
    clockStepped() {
      stepped = true
      // A repeated minute was counted before, and slots of the old minute stay in use until it ends.
      admissions.clear()
      exactFromMs = world.nowMs + 60_000
    },
    machineClockStepped() {
      haveMachinesStepped = true
    },
    get hasSteppedClocks() {
      return stepped || haveMachinesStepped
    },
    checkEnd,
  }

  // ---------------------------------------------------------------- transactions that are lost

  function onRollBack(rollBack: () => void, toMs: number): void {
    const { model } = serverOf()
    const { usage, leases, claims, entries } = model.tables
    const rowsBefore = [...usage.values()].flatMap(rows => [...rows.values()])
    const leasesBefore = [...leases.keys()]
    const claimsBefore = new Map(claims)
    const entriesBefore = [...entries]
    rollBack()
    counts.rolledBack++
    rolledBackAtMs = world.nowMs
    // The database knows only of earlier ones, which were not kept here.
    for (const [nodeId, { atMs }] of heartbeats) if (atMs > toMs) heartbeats.delete(nodeId)
    for (const { customerId, requestId } of rowsBefore) {
      if (usage.get(customerId)?.has(requestId)) continue
      lostRows.add(requestId)
      settled.delete(requestId)
      // Its node settles it again, perhaps after another one has ended the lease that is open again.
      const leaseId = requests.get(requestId)?.leaseId
      if (leaseId !== undefined) reclaimed.add(leaseId)
    }
    for (const leaseId of leasesBefore) {
      if (leases.has(leaseId)) continue
      reclaimed.add(leaseId)
    }
    const keys = new Set([...claimsBefore.keys(), ...claims.keys()])
    idempotencyKeys.lost([...keys].filter(key => claimsBefore.get(key) !== claims.get(key)))
    const cashTxs = new Set(
      entriesBefore
        .slice(entries.length)
        .filter(({ kind }) => kind === 'cash')
        .map(({ txId }) => txId),
    )
    for (const { txId, kind, accountId, amount } of entriesBefore.slice(entries.length))
      if (kind === 'customer' && cashTxs.has(txId))
        creditsLost.set(accountId, (creditsLost.get(accountId) ?? 0n) + amount)
    refunds.forgetLost()
    const kept = presumedDead.filter(({ customerId, requestId }) => usage.get(customerId)?.has(requestId))
    presumedDead.splice(0, presumedDead.length, ...kept)
    // Requests that were counted in the lost transactions are not counted any more.
    admissions.clear()
    exactFromMs = world.nowMs + 60_000
    entriesSeen = 0
    entrySums.clear()
    checkEntries()
    for (const customerId of model.tables.balances.keys()) checkCustomer(customerId)
  }

  // ---------------------------------------------------------------- after each transaction

  /** Every transaction sums to zero. */
  function checkEntries(): void {
    const { entries } = serverOf().model.tables
    let txId = 0
    let sum = 0n
    for (; entriesSeen < entries.length; entriesSeen++) {
      const entry = entries[entriesSeen]!
      if (entry.txId !== txId) {
        if (sum !== 0n) world.fail('transactions_sum_to_zero', `transaction ${txId} sums to ${sum}`)
        txId = entry.txId
        sum = 0n
      }
      sum += entry.amount
      if (entry.kind === 'customer')
        entrySums.set(entry.accountId, (entrySums.get(entry.accountId) ?? 0n) + entry.amount)
    }
    if (sum !== 0n) world.fail('transactions_sum_to_zero', `transaction ${txId} sums to ${sum}`)
  }

  /** The balance, the leases and the day of one customer add up. */
  function checkCustomer(customerId: string): void {
    const { balances, leasesOf } = serverOf().model.tables
    const balance = balances.get(customerId)
    if (balance === undefined) return
    let granted = 0n
    let settled = 0n
    let dayGranted = 0n
    let daySettled = 0n
    let minuteSlots = 0
    let daySlots = 0
    for (const lease of leasesOf.get(customerId)?.values() ?? []) {
      granted += lease.granted
      settled += lease.settled
      if (lease.capDay === balance.day) {
        dayGranted += lease.granted
        daySettled += lease.settled
        daySlots += lease.slots ?? 0
      }
      if (lease.slotMinute === balance.minute) minuteSlots += lease.slots ?? 0
      if (lease.settled < 0n || lease.settled > lease.granted || (lease.slots === null && lease.settled > 0n)) {
        world.fail('settled_within_granted', `lease ${lease.leaseId}`)
      }
    }
    if (balance.leased < 0n || balance.posted < balance.leased) world.fail('balances_cover_their_leases', customerId)
    if (balance.leased !== granted)
      world.fail('leased_equals_open_leases', `${customerId}: ${balance.leased} of ${granted}`)
    if (balance.dayLeased !== dayGranted)
      world.fail('day_leased_equals_open_leases', `${customerId}: ${balance.dayLeased} of ${dayGranted}`)
    const sum = entrySums.get(customerId) ?? 0n
    if (balance.posted - settled !== sum)
      world.fail('balances_equal_entries', `${customerId}: ${balance.posted - settled} of ${sum}`)
    if (balance.minuteRequests < minuteSlots || balance.dayRequests < daySlots)
      world.fail('windows_count_slots', customerId)
    checkKeys(customerId)
    const cap = customers.get(customerId)?.limits.dailySpendCapNanos
    if (cap !== undefined && balance.daySpent + balance.dayLeased > cap) world.fail('day_spend_within_cap', customerId)
    if (cap !== undefined && balance.daySpent + daySettled > cap) world.fail('day_spend_within_cap', customerId)
  }

  /** For keys with a spend limit, the held amount equals their leases, and spent plus held stays within the limit. */
  function checkKeys(customerId: string): void {
    const keys = keysOf.get(customerId)
    if (keys === undefined) return
    const { keySpend, leasesOf } = serverOf().model.tables
    const held = new Map<string, Nanos>()
    for (const { keyId, keyWindow, granted } of leasesOf.get(customerId)?.values() ?? []) {
      if (keyWindow === null) continue
      const key = `${customerId} ${keyId} ${keyWindow}`
      held.set(key, (held.get(key) ?? 0n) + granted)
    }
    for (const [key, { spent, leased }] of keySpend) {
      if (!key.startsWith(customerId)) continue
      if (leased !== (held.get(key) ?? 0n))
        world.fail('key_leased_equals_open_leases', `${key}: ${leased} of ${held.get(key) ?? 0n}`)
      const { limitNanos } = keys.get(key.split(' ')[1]!)!
      if (spent + leased > limitNanos)
        world.fail('key_spend_within_limit', `${key}: ${spent} + ${leased} of ${limitNanos}`)
    }
  }

  function sawAdmit(nodeId: string, sent: readonly LeaseRequest[], verdicts: readonly LeaseVerdict[]): void {
    if (serverOf().model.tables.nodes.get(nodeId)?.state !== 'alive')
      world.fail('dead_nodes_are_fenced', `node ${nodeId} is dead and obtained admissions`)
    const nowMs = databaseMs()
    for (const verdict of verdicts) {
      const request = sent[verdict.item]!
      if ('slots' in request || (verdict.kind !== 'granted' && verdict.kind !== 'counted')) continue
      if (!countedAtMs.has(request.requestId)) countedAtMs.set(request.requestId, nowMs)
    }
  }

  function sawSettle(
    sent: readonly Settlement[],
    effects: Map<string, SettleEffect>,
    sentAtMs: number,
    process: Process,
  ): void {
    for (const settlement of sent) {
      const { requestId, customerId } = settlement
      const effect = effects.get(requestId)
      const record = requests.get(requestId)
      const isSuperseded = idempotencyKeys.isSuperseded(requestId)
      // It will be written off, and holds nothing.
      if (effect === 'fenced' && isSuperseded) unclaim(record!)
      if (effect === 'fenced' || effect === 'locked') continue
      const row = serverOf().model.tables.usage.get(customerId)?.get(requestId)
      if (record === undefined || row === undefined) {
        world.fail('settlements_leave_a_row', requestId)
        continue
      }
      if (settlement.outcome === 'superseded' && row.outcome === 'superseded') idempotencyKeys.superseded(record)
      if (row.cost > 0n) idempotencyKeys.charged(record)
      if (effect === 'late' || (effect === 'written_off' && !isSuperseded)) {
        counts[effect === 'late' ? 'late' : 'writtenOff']++
        const lost = record.leaseId
        if (lost === undefined || !reclaimed.has(lost)) {
          world.fail(
            'live_nodes_keep_their_leases',
            `request ${requestId} found lease ${lost} gone although it was not reclaimed: ${effect}`,
          )
        }
      }
      const isNew = !settled.has(requestId)
      settled.add(requestId)
      const isVoid = record.state === 'voided' && record.process === process && sentAtMs > record.voidedAtMs
      if (isNew && isVoid && row.cost > 0n)
        world.fail('void_answers_are_free', `request ${requestId} is charged ${row.cost}`)
      unclaim(record)
    }
    for (const { leaseId } of sent) checkClaims(leaseId, 'a settlement')
  }

  function sawRelease(outcomes: Map<string, string>): void {
    for (const [leaseId, outcome] of outcomes) {
      if (outcome === 'released' && claims.get(leaseId)?.size)
        world.fail(
          'leases_in_use_stay',
          `lease ${leaseId} was released while its request was ${requests.get(leaseId)?.state}`,
        )
    }
  }

  /** Nodes with recent heartbeats are not declared dead. */
  function sawReclaim(options: ReclaimOptions): void {
    const { nodes } = serverOf().model.tables
    for (const [nodeId, { state }] of nodes) {
      if (state !== 'dead' || deadNodes.has(nodeId)) continue
      deadNodes.add(nodeId)
      const heartbeat = heartbeats.get(nodeId)
      if (heartbeat === undefined) continue
      if (options.deadNodes?.includes(nodeId)) {
        if (heartbeat.process.isAlive)
          world.fail('live_nodes_are_not_declared_dead', `node ${nodeId} of ${heartbeat.process.name} is alive`)
        continue
      }
      const silentMs = world.nowMs - heartbeat.atMs
      const countedMs = silentMs - (serverOf().outageExcessMs - heartbeat.outageExcessMs)
      // A clock may run 500 ppm fast.
      if (countedMs < DEAD_AFTER_MS * 0.999)
        world.fail(
          'live_nodes_are_not_declared_dead',
          `node ${nodeId} sent a heartbeat ${silentMs} ms ago, ${silentMs - countedMs} ms of it in outages`,
        )
    }
  }

  function databaseMs(): number {
    return serverOf().clock.epochMs + world.nowMs
  }

  function sawHeartbeat(nodeId: string, process: Process): void {
    if (serverOf().model.tables.nodes.get(nodeId)?.state !== 'alive') return
    const { outageExcessMs } = serverOf()
    const beforeMs = heartbeatOf.get(process) ?? Number.NEGATIVE_INFINITY
    heartbeatOf.set(process, world.nowMs)
    const last = heartbeats.get(nodeId)
    const wasSilent = last !== undefined && (last.wasSilent || world.nowMs - last.atMs > SURELY_ALIVE_MS)
    heartbeats.set(nodeId, { atMs: world.nowMs, process, wasSilent, outageExcessMs })
    if (world.nowMs - beforeMs > STEADY_MS) steadySinceMs.set(process, world.nowMs)
    checkDeadNodes(process)
  }

  /** Without further faults, each node makes sure that the holds of a dead node are free 75 s after its last heartbeat. */
  function checkDeadNodes(observer: Process): void {
    const fromMs = Math.max(steadySinceMs.get(observer)!, healedAtMs)
    if (world.nowMs - fromMs <= HOLDS_FREE_AFTER_MS) return
    for (const { leaseId, nodeId } of serverOf().model.tables.leases.values()) {
      const heartbeatMs = Math.max(heartbeats.get(nodeId)?.atMs ?? Number.NEGATIVE_INFINITY, rolledBackAtMs)
      if (world.nowMs - heartbeatMs > HOLDS_FREE_AFTER_MS)
        world.fail('holds_of_dead_nodes_end_in_time', `lease ${leaseId} of ${nodeId}, silent since ${heartbeatMs}`)
    }
  }

  function sawRetire(nodeId: string): void {
    heartbeats.delete(nodeId)
    for (const lease of serverOf().model.tables.leases.values()) {
      if (lease.nodeId === nodeId && claims.get(lease.leaseId)?.size)
        world.fail('leases_cover_their_holds', `node ${nodeId} left lease ${lease.leaseId} in use`)
    }
  }

  // ---------------------------------------------------------------- holds

  function claim(leaseId: string, requestId: string, nanos: Nanos): void {
    let ofLease = claims.get(leaseId)
    if (ofLease === undefined) {
      ofLease = new Map()
      claims.set(leaseId, ofLease)
    }
    ofLease.set(requestId, nanos)
  }

  function unclaim({ leaseId, admission }: RequestRecord): void {
    if (leaseId !== undefined) claims.get(leaseId)?.delete(admission.requestId)
  }

  /** A request is only refused for a limit that was reached in a window still open when the request was sent. */
  function checkRefusal(record: RequestRecord, refusal: Extract<AdmissionResult, { kind: 'refused' }>): void {
    const { admission, customer, askedAtMs } = record
    const { code, windows } = refusal
    const name = `request ${admission.requestId}: ${code}`
    const { limits } = customer
    if (code === 'rate_limit_exceeded' && windows.minuteUsed < limits.requestsPerMinute)
      world.fail('refusals_are_justified', `${name} at ${windows.minuteUsed}`)
    if (code === 'daily_limit_exceeded' && windows.dayUsed < limits.requestsPerDay)
      world.fail('refusals_are_justified', `${name} at ${windows.dayUsed}`)
    // Two drifting clocks differ by up to 60 ms after a minute.
    if (!stepped && windows.minuteEndsAtEpochMs < serverOf().clock.epochMs + askedAtMs - 100)
      world.fail('refusals_are_justified', `${name} for a minute that had ended`)
  }

  /** The rest of a lease covers all requests that were admitted on it and are not charged yet. */
  function checkClaims(leaseId: string, after: string): void {
    if (reclaimed.has(leaseId)) return
    const ofLease = claims.get(leaseId)
    if (ofLease === undefined || ofLease.size === 0) return
    const lease = serverOf().model.tables.leases.get(leaseId)
    const left = lease === undefined ? 0n : lease.granted - lease.settled
    let claimed = 0n
    for (const nanos of ofLease.values()) claimed += nanos
    if (claimed > left)
      world.fail('leases_cover_their_holds', `after ${after}: lease ${leaseId} has ${left} left for ${claimed}`)
  }

  // ---------------------------------------------------------------- prices

  /** The arithmetic of docs/money.md in other terms: the cost is rounded up once, the hoster share is rounded down, and the fee is the rest. */
  function checkPrice(
    { heldNanos }: RequestRecord,
    settlement: Settlement,
    pricing: Pricing,
    offer: Offer | null,
  ): void {
    const { requestId, startedAtEpochMs: atMs, costNanos, writeoffNanos, hosterShareNanos, feeNanos } = settlement
    const name = `request ${requestId}`
    const { offers, lists, partUse, job, share, isRaw } = pricing
    const listOf = ({ offerId }: Offer) => lists.get(offerId)!
    const isRoundedUp = (nanos: Nanos, picos: bigint) => nanos * 1_000n >= picos && (nanos - 1n) * 1_000n < picos
    const { inputTokens, outputTokens } = settlement
    const billedPicos = offer === null ? 0n : listedPicos(listOf(offer), atMs, partUse, inputTokens, outputTokens)
    const measured = costNanos + writeoffNanos
    if (!isRoundedUp(measured, billedPicos))
      world.fail('costs_are_rounded_up_once', `${name}: ${measured} for ${billedPicos}`)
    if (!isRaw && costNanos > heldNanos) world.fail('cost_within_hold', `${name}: ${costNanos} of ${heldNanos}`)
    if (!isRaw && writeoffNanos > 0n && costNanos < heldNanos)
      world.fail('charges_are_exact', `${name}: written off ${writeoffNanos}`)
    if (share <= 1_000 && measured > heldNanos)
      world.fail('holds_pay_the_worst_case', `${name}: ${measured} of ${heldNanos} within its limit of tokens`)
    const { maxTokens, wantNanos } = pricing.hold
    if (job.maxTokens !== null && maxTokens > job.maxTokens)
      world.fail('holds_pay_the_worst_case', `${name}: ${maxTokens} tokens, asked for ${job.maxTokens}`)
    if (share <= 1_000 && job.maxCostNanos !== null && measured > job.maxCostNanos)
      world.fail('costs_stay_within_max_cost', `${name}: ${measured} of ${job.maxCostNanos}`)
    let worstPicos = 0n
    for (const each of offers) {
      const { inputTokensBound, mediaTokensBound } = job
      const picos = highestPicos(listOf(each), atMs, inputTokensBound, maxTokens * job.choices, mediaTokensBound)
      if (picos > worstPicos) worstPicos = picos
    }
    if (!isRoundedUp(wantNanos, worstPicos))
      world.fail('holds_pay_the_worst_case', `${name}: asks for ${wantNanos}, not ${worstPicos} pico-USD`)
    const share10000 = costNanos * BigInt(offer?.endpoint.hosterShareBps ?? 0)
    if (hosterShareNanos * 10_000n > share10000 || (hosterShareNanos + 1n) * 10_000n <= share10000)
      world.fail('shares_are_rounded_down', `${name}: ${hosterShareNanos} of ${costNanos}`)
    if (hosterShareNanos + feeNanos !== costNanos) world.fail('cost_is_share_plus_fee', name)
  }

  // ---------------------------------------------------------------- windows

  /** Checks the limits of the minute and the day, by the clock of the database. */
  function countAdmission({ customer, admission }: RequestRecord): void {
    const { epochMs } = serverOf().clock
    const atMs = countedAtMs.get(admission.requestId) ?? epochMs + world.nowMs
    count(`${customer.customerId} m`, Math.floor(atMs / 60_000), 60_000, customer.limits.requestsPerMinute)
    count(`${customer.customerId} d`, Math.floor(atMs / 86_400_000), 86_400_000, customer.limits.requestsPerDay)
  }

  function count(what: string, window: number, lengthMs: number, limit: number): void {
    const key = `${what} ${window}`
    const used = (admissions.get(key) ?? 0) + 1
    admissions.set(key, used)
    const beganMs = window * lengthMs - serverOf().clock.epochMs
    if (used > limit && beganMs >= exactFromMs) world.fail('admissions_within_limits', `${key}: ${used} of ${limit}`)
  }

  // ---------------------------------------------------------------- the end

  function checkEnd(): void {
    const { tables } = serverOf().model
    for (const lease of tables.leases.values())
      world.fail('all_leases_end', `lease ${lease.leaseId} of ${lease.nodeId}`)
    for (const { customerId, requestId } of presumedDead) {
      if (!tables.usage.get(customerId)?.has(requestId))
        world.fail('reclaimed_requests_leave_a_row', `request ${requestId}`)
    }
    for (const { customerId, leased } of tables.balances.values())
      if (leased !== 0n) world.fail('all_leases_end', `${customerId} has ${leased} leased`)
    for (const record of requests.values())
      checkCharge(record, tables.usage.get(record.customer.customerId)?.get(record.admission.requestId))
    checkSums()
  }

  function checkCharge(record: RequestRecord, row: UsageRow | undefined): void {
    const { settlement, state, admission, heldNanos } = record
    const name = `request ${admission.requestId}, ${state}`
    const isSettled = row !== undefined && row.outcome !== 'node_died' && row.outcome !== 'superseded'
    const isSuperseded = idempotencyKeys.isSuperseded(admission.requestId)
    const cost = row?.cost ?? 0n
    // A failover may lose that the request was superseded: see docs/simulator.md.
    if (isSuperseded && cost > 0n && !lostRows.has(admission.requestId))
      world.fail('superseded_requests_are_free', `${name}: ${cost}`)
    if (settlement === undefined) {
      if (isSettled || cost > 0n) world.fail('only_answers_are_charged', `${name}: ${cost}`)
      return
    }
    const due = least(settlement.costNanos, heldNanos)
    if (cost > 0n && row!.hosterShare !== (settlement.hosterShareNanos * cost) / settlement.costNanos)
      world.fail('shares_are_rounded_down', `${name}: ${row!.hosterShare} of ${cost}`)
    if (cost > due) world.fail('charges_are_exact', `${name}: ${cost} of ${due}`)
    if (cost > 0n) counts.charged++
    if (state !== 'answered') {
      if (cost !== 0n && cost !== due) world.fail('charges_are_exact', `${name}: ${cost} of ${due}`)
      return
    }
    if (!isSettled) {
      const isDiskLost = (losses.get(record.volume) ?? 0) > record.lossesAtAnswer
      if (isDiskLost) return
      if (lostRows.has(admission.requestId)) {
        counts.lostCharges++
        // Its process lives, has sent heartbeats for five seconds since, and does not wait for the answer to an old one.
        const isSteady = world.nowMs - Math.max(steadySinceMs.get(record.process) ?? 0, rolledBackAtMs) > 5_000
        const hasJustBeaten = world.nowMs - (heartbeatOf.get(record.process) ?? 0) <= STEADY_MS
        if (record.process.isAlive && isSteady && hasJustBeaten) world.fail('lost_charges_are_made_again', name)
        return
      }
      const flips = bitsFlipped.get(record.volume) ?? 0
      if (flips === 0) world.fail('answers_are_charged_once', `${name}: no usage row`)
      bitsFlipped.set(record.volume, flips - 1)
      return
    }
    if (row.outcome === 'internal_error' && settlement.outcome !== 'internal_error')
      world.fail('delivered_answers_are_charged', `${name}: made free, although its client has the answer`)
    // A charge that arrives after its lease was reclaimed is paid as far as the free balance, the cap and the key's limit allow. When a request was
    // sent again, the second one is charged.
    if (cost !== due && !reclaimed.has(record.leaseId!) && !isSuperseded)
      world.fail('answers_are_charged_once', `${name}: ${cost} of ${due}`)
    if (row.cost + row.writeoff !== settlement.costNanos + settlement.writeoffNanos)
      world.fail('charges_are_exact', `${name}: written off ${row.writeoff}`)
  }

  /** Usage rows, charges, shares and rollups agree over the whole run. */
  function checkSums(): void {
    const { tables } = serverOf().model
    const rollups = new Map<string, { requests: number; cost: Nanos }>()
    for (const { customerId, hour, modelId, provider, requests, cost } of tables.rollups.values()) {
      const key = `${customerId} ${hour} ${modelId} ${provider}`
      const sum = rollups.get(key) ?? { requests: 0, cost: 0n }
      rollups.set(key, { requests: sum.requests + requests, cost: sum.cost + cost })
    }
    const refundedOf = refunds.sums()
    for (const [customerId, balance] of tables.balances) {
      const byDay = new Map<number, Nanos>()
      const byKey = new Map<string, Nanos>()
      let spent = 0n
      for (const row of tables.usage.get(customerId)?.values() ?? []) {
        spent += row.cost
        if (row.cost > row.hold || row.cost < 0n) world.fail('cost_within_hold', row.requestId)
        if (row.cost !== row.hosterShare + row.fee) world.fail('cost_is_share_plus_fee', row.requestId)
        const limit = keysOf.get(customerId)?.get(row.keyId ?? '')
        // A charge without its lease, and without a row of the reaper, counts for no window: the request had one when it was admitted.
        const isWindowLost =
          row.keyWindow === null && counts.rolledBack > 0 && reclaimed.has(requests.get(row.requestId)?.leaseId ?? '')
        if (limit !== undefined && !isWindowLost) {
          // A limit that never resets covers all rows, whatever window they name.
          const window = limit.reset === 'none' ? -Infinity : row.keyWindow
          const key = `${customerId} ${row.keyId} ${window}`
          byKey.set(key, (byKey.get(key) ?? 0n) + row.cost)
        }
        if (row.capDay === null && row.cost > 0n)
          world.fail('day_spend_within_cap', `${row.requestId} counts in no day`)
        if (row.capDay !== null) byDay.set(row.capDay, (byDay.get(row.capDay) ?? 0n) + row.cost)
        const key = `${customerId} ${Math.floor(row.startedAtMs / 3_600_000) * 3_600_000} ${row.modelId} ${row.provider}`
        const sum = rollups.get(key)
        if (sum !== undefined) rollups.set(key, { requests: sum.requests - 1, cost: sum.cost - row.cost })
        else world.fail('rollups_equal_usage', key)
      }
      for (const [key, cost] of byKey) {
        const spent = tables.keySpend.get(key)?.spent ?? 0n
        if (cost !== spent) world.fail('key_spend_equals_usage', `${key}: ${spent} of ${cost}`)
      }
      const customer = customers.get(customerId)
      if (customer === undefined) continue
      const refunded = refundedOf.get(customerId) ?? 0n
      const creditNanos = customer.creditNanos - (creditsLost.get(customerId) ?? 0n)
      if (balance.posted !== creditNanos - spent + refunded) {
        world.fail(
          'charges_equal_customer_entries',
          `${customerId}: ${balance.posted}, not ${creditNanos} - ${spent} + ${refunded}`,
        )
      }
      if (balance.daySpent !== (byDay.get(balance.day) ?? 0n))
        world.fail('day_spend_equals_usage', `${customerId}: ${balance.daySpent}`)
      for (const [day, cost] of byDay)
        if (cost > customer.limits.dailySpendCapNanos)
          world.fail('day_spend_within_cap', `${customerId} on day ${day}: ${cost}`)
    }
    for (const [key, { requests, cost }] of rollups)
      if (requests !== 0 || cost !== 0n) world.fail('rollups_equal_usage', `${key}: ${requests}, ${cost}`)
  }
}

function least(a: Nanos, b: Nanos): Nanos {
  return a < b ? a : b
}
