import type { LimitReset } from '../src/base/domain/caller.ts'
import type { Nanos } from '../src/base/domain/money.ts'
import type { RefundOrder } from '../src/money/ledger/accounts/refund-request.ts'
import type { KeySpend, RefusalCode } from '../src/money/ledger/leases/admission.ts'
import {
  type BulkRequest,
  HEARTBEAT_MS,
  type Heartbeat,
  type LeaseRequest,
  type LeaseReturn,
  type LeaseUse,
  type LeaseVerdict,
  NodeFenced,
  type NodeHeartbeats,
  type OpenLease,
  type ReclaimOptions,
  type SettleEffect,
  type StoredWindows,
} from '../src/money/ledger/ledger-store.ts'
import type { Settlement } from '../src/money/ledger/settlement/settlement.ts'
import type { Claim, StoredClaim } from '../src/request/chat/idempotency/claim-store.ts'

/**
 * An in-memory model of sql/functions/money (without the alerts) and postgres-claim-store.ts. Each call is one atomic transaction; a
 * call that throws changes nothing. test/sim/model.test.ts compares the model with PostgreSQL.
 */
export interface ModelDatabase {
  readonly tables: Tables
  /** Undoes all transactions that were committed after `toMs`, as a failover to a standby does that lacks them. */
  rollBack(toMs: number): void
  openAccount(customerId: string, creditNanos: Nanos): void
  grantCredit(customerId: string, amountNanos: Nanos): void
  registerNode(nodeId: string): void
  heartbeat(nodeId: string, number: number): Heartbeat
  retireNode(nodeId: string): void
  // The transactions that make up LedgerStore.reclaim.
  declareNodesDead(options: ReclaimOptions): void
  customersOfDeadNodes(): string[]
  reclaimLeases(customerId: string, nodeShard: number): number
  forgetDeadNodes(): void
  admit(nodeId: string, requests: readonly LeaseRequest[]): LeaseVerdict[]
  settle(nodeShard: number, settlements: readonly Settlement[]): Map<string, SettleEffect>
  handBack(returns: readonly LeaseReturn[]): void
  noteUse(uses: readonly LeaseUse[]): void
  windowsOf(nodeId: string, customerIds: readonly string[]): Map<string, StoredWindows>
  areSettled(requests: readonly { readonly customerId: string; readonly requestId: string }[]): boolean
  leasesOf(nodeId: string): OpenLease[]
  release(leaseIds: readonly string[]): Set<string>
  refund(order: RefundOrder): RefundVerdict
  /** Books a payment, once. */
  pay(payment: Pick<PaymentRow, 'paymentId' | 'customerId' | 'amount'>): 'paid' | 'paid_before'
  /** Takes a payment back: as a refund, only from free credit; as a dispute, as a debt too. */
  reversePayment(order: ReversalOrder): 'taken' | 'duplicate' | 'above_payment' | 'spent' | 'no_payment'
  /** Gives back what a reversal took. Returns whether it had taken something. */
  returnReversal(reversalId: string): boolean
  // The calls of ClaimStore.
  takeClaim(claim: Claim, nodeId: string): boolean
  findClaim(claim: Claim): StoredClaim | undefined
  takeOverClaim(claim: Claim, earlierRequestId: string, nodeId: string): boolean
  finishClaim(claim: Claim, ending: { readonly costNanos: Nanos; readonly answerSealed: Buffer | null }): void
  releaseClaim(claim: Claim): void
}

export interface Tables {
  readonly balances: ReadonlyMap<string, Readonly<BalanceRow>>
  readonly nodes: ReadonlyMap<string, Readonly<NodeRow>>
  readonly leases: ReadonlyMap<string, Readonly<LeaseRow>>
  readonly leasesOf: ReadonlyMap<string, ReadonlyMap<string, Readonly<LeaseRow>>>
  /** By customer, then by request. */
  readonly usage: ReadonlyMap<string, ReadonlyMap<string, Readonly<UsageRow>>>
  readonly entries: readonly Readonly<EntryRow>[]
  readonly rollups: ReadonlyMap<string, Readonly<RollupRow>>
  /** The caps of days other than the balance's current day, by customer and day. */
  readonly dayCaps: ReadonlyMap<string, Nanos>
  /** By customer, key and window. */
  readonly keySpend: ReadonlyMap<string, Readonly<KeySpendRow>>
  /** By customer and request. */
  readonly refunds: ReadonlyMap<string, Readonly<RefundRow>>
  readonly payments: ReadonlyMap<string, Readonly<PaymentRow>>
  readonly reversals: ReadonlyMap<string, Readonly<ReversalRow>>
  /** By customer and Idempotency-Key. */
  readonly claims: ReadonlyMap<string, Readonly<ClaimRow>>
}

export interface PaymentRow {
  paymentId: string
  customerId: string
  amount: Nanos
}

export interface ReversalOrder {
  readonly reversalId: string
  readonly paymentId: string
  readonly amount: Nanos
  readonly isDispute: boolean
}

export interface ReversalRow {
  paymentId: string
  taken: Nanos
  returned: Nanos
}

export interface RefundRow {
  customerId: string
  requestId: string
  amount: Nanos
  hosterShare: Nanos
  fee: Nanos
  txId: number
}

/** The outcome of a refund order, with the amounts of this or of the earlier refund. */
export interface RefundVerdict {
  readonly kind: 'refunded' | 'duplicate' | 'refunded_before' | 'above_charge' | 'free' | 'no_request'
  readonly amountNanos: Nanos | null
  readonly hosterShareNanos: Nanos | null
  readonly feeNanos: Nanos | null
}

export interface ClaimRow {
  customerId: string
  key: string
  bodyHash: Buffer
  requestId: string
  nodeId: string
  done: StoredClaim['done']
  /** The heartbeats of the node when it took the key. */
  heartbeats: number
  expiresAtMs: number
}

export interface BalanceRow {
  customerId: string
  posted: Nanos
  leased: Nanos
  debt: Nanos
  /** Start of the minute, epoch ms. */
  minute: number
  minuteRequests: number
  /** Days since the epoch. */
  day: number
  dayRequests: number
  daySpent: Nanos
  dayLeased: Nanos
  /** The highest cap of the day; null before its first admission. */
  dayCap: Nanos | null
}

export interface NodeRow {
  state: 'alive' | 'dead'
  heartbeats: number
}

export interface LeaseRow {
  leaseId: string
  customerId: string
  nodeId: string
  keyId: string | null
  modelId: string | null
  granted: Nanos
  settled: Nanos
  /** Start of the window of the key's spend limit, days since the epoch. */
  keyWindow: number | null
  /** Null marks a strict lease. */
  slots: number | null
  slotMinute: number | null
  slotsUsed: number
  owed: Nanos
  recalled: boolean
  capDay: number
  grantedAtMs: number
}

export interface UsageRow {
  customerId: string
  requestId: string
  startedAtMs: number
  modelId: string
  provider: string
  hosterId: string | null
  inputTokens: number
  outputTokens: number
  /** Inside `inputTokens`. */
  cachedTokens: number
  hold: Nanos
  cost: Nanos
  hosterShare: Nanos
  fee: Nanos
  writeoff: Nanos
  latencyMs: number
  success: boolean
  outcome: string
  txId: number | null
  capDay: number | null
  keyId: string | null
  keyWindow: number | null
}

export interface KeySpendRow {
  spent: Nanos
  leased: Nanos
}

export interface EntryRow {
  txId: number
  kind: 'customer' | 'hoster_payable' | 'platform_revenue' | 'platform_promo' | 'cash' | 'customer_debt'
  accountId: string
  amount: Nanos
}

export interface RollupRow {
  customerId: string
  hour: number
  modelId: string
  provider: string
  nodeShard: number
  requests: number
  successes: number
  inputTokens: number
  outputTokens: number
  cachedTokens: number
  cost: Nanos
  hosterShare: Nanos
  fee: Nanos
  latencyMsSum: number
}

export interface ModelDatabaseDeps {
  /** The clock of the server, epoch ms. */
  readonly epochMs: () => number
  /** Replaces `epochMs` for the windows of minute and day, as `p_now` does. */
  readonly windowMs?: () => number
  /** Called after each transaction that changed rows of customers. */
  readonly onCommit?: (customerIds: ReadonlySet<string>) => void
  /** Called for each lease that is reclaimed from a dead node. */
  readonly onReclaim?: (lease: Readonly<LeaseRow>) => void
  /** The clock of commits, for `rollBack`. Never steps. */
  readonly commitMs?: () => number
  /** Called when a constraint fails a transaction. */
  readonly onViolation?: (constraint: string) => void
}

export function createModelDatabase(deps: ModelDatabaseDeps): ModelDatabase {
  const { epochMs, windowMs = epochMs } = deps
  const balances = new Map<string, BalanceRow>()
  const nodes = new Map<string, NodeRow>()
  const leases = new Map<string, LeaseRow>()
  const leasesOf = new Map<string, Map<string, LeaseRow>>()
  const usage = new Map<string, Map<string, UsageRow>>()
  const entries: EntryRow[] = []
  const rollups = new Map<string, RollupRow>()
  const keySpend = new Map<string, KeySpendRow>()
  /** The limits of `api_key`, taken from the admissions. */
  const keyLimits = new Map<string, Nanos>()
  const dayCaps = new Map<string, Nanos>()
  const refunds = new Map<string, RefundRow>()
  const payments = new Map<string, PaymentRow>()
  const reversals = new Map<string, ReversalRow>()
  const claims = new Map<string, ClaimRow>()
  let txIds = 0
  /** Steps that roll back the running transaction. */
  const undo: (() => void)[] = []
  const touched = new Set<string>()
  /** The last transactions, oldest first. */
  const committed: { readonly atMs: number; readonly undo: readonly (() => void)[] }[] = []

  return {
    rollBack(toMs) {
      while (committed.length > 0 && committed.at(-1)!.atMs > toMs)
        for (const step of committed.pop()!.undo.toReversed()) step()
    },
    tables: {
      balances,
      nodes,
      leases,
      leasesOf,
      usage,
      entries,
      rollups,
      dayCaps,
      keySpend,
      refunds,
      payments,
      reversals,
      claims,
    },

    openAccount: (customerId, creditNanos) =>
      transaction(() => {
        if (balances.has(customerId)) return
        putBalance({
          customerId,
          posted: 0n,
          leased: 0n,
          debt: 0n,
          minute: -Infinity,
          minuteRequests: 0,
          day: -Infinity,
          dayRequests: 0,
          daySpent: 0n,
          dayLeased: 0n,
          dayCap: null,
        })
        credit(customerId, creditNanos, 'platform_promo')
      }),
    grantCredit: (customerId, amountNanos) => transaction(() => credit(customerId, amountNanos, 'cash')),

    registerNode: nodeId =>
      transaction(() => {
        if (!nodes.has(nodeId)) putNode(nodeId, { state: 'alive', heartbeats: 0 })
      }),
    heartbeat: (nodeId, number) => transaction(() => heartbeat(nodeId, number)),
    retireNode: nodeId => transaction(() => declareDead(nodeId)),

    declareNodesDead: options => transaction(() => declareNodesDead(options)),
    customersOfDeadNodes() {
      const owners = new Set<string>()
      for (const lease of leases.values()) if (!isAlive(lease.nodeId)) owners.add(lease.customerId)
      return [...owners]
    },
    reclaimLeases: (customerId, nodeShard) => transaction(() => reclaimLeases(customerId, nodeShard)),
    forgetDeadNodes: () =>
      transaction(() => {
        for (const [nodeId, { state }] of nodes) {
          const isForgotten = state === 'dead' && ![...leases.values()].some(lease => lease.nodeId === nodeId)
          if (isForgotten) putNode(nodeId, undefined)
        }
      }),

    admit: (nodeId, requests) => transaction(() => admit(nodeId, requests)),
    settle: (nodeShard, settlements) => transaction(() => settle(nodeShard, settlements)),
    handBack: returns => transaction(() => handBack(returns)),
    noteUse: uses => transaction(() => noteUse(uses)),
    windowsOf,
    areSettled: requests =>
      requests.every(({ customerId, requestId }) => {
        const row = usage.get(customerId)?.get(requestId)
        return row !== undefined && row.outcome !== 'node_died'
      }),
    leasesOf: nodeId =>
      [...leases.values()]
        .filter(lease => lease.nodeId === nodeId)
        .map(({ leaseId, slots }) => ({ leaseId, isBulk: slots !== null })),
    release: leaseIds => transaction(() => release(leaseIds)),
    refund: order => transaction(() => refund(order)),
    pay: payment => transaction(() => pay(payment)),
    reversePayment: order => transaction(() => reversePayment(order)),
    returnReversal: reversalId => transaction(() => moveReversal(reversalId, 0n)),
    takeClaim: (claim, nodeId) => transaction(() => takeClaim(claim, nodeId)),
    findClaim,
    takeOverClaim: (claim, earlierRequestId, nodeId) =>
      transaction(() => takeOverClaim(claim, earlierRequestId, nodeId)),
    finishClaim: (claim, done) =>
      transaction(() => {
        const row = runningClaim(claim, claim.requestId)
        if (row !== undefined) putClaim({ ...row, done })
      }),
    releaseClaim: claim =>
      transaction(() => {
        if (runningClaim(claim, claim.requestId) !== undefined) put(claims, claimKey(claim), undefined)
      }),
  }

  // ---------------------------------------------------------------- transactions

  function transaction<T>(work: () => T): T {
    undo.length = 0
    touched.clear()
    try {
      const result = work()
      for (const customerId of touched) {
        payDebt(customerId)
        checkBalance(customerId)
      }
      if (deps.commitMs !== undefined && undo.length > 0) committed.push({ atMs: deps.commitMs(), undo: [...undo] })
      if (touched.size > 0) deps.onCommit?.(touched)
      return result
    } catch (error) {
      for (let step = undo.length - 1; step >= 0; step--) undo[step]!()
      throw error
    }
  }

  function put<Row>(table: Map<string, Row>, key: string, row: Row | undefined): void {
    const before = table.get(key)
    undo.push(() => {
      if (before === undefined) table.delete(key)
      else table.set(key, before)
    })
    if (row === undefined) table.delete(key)
    else table.set(key, row)
  }

  function putNode(nodeId: string, row: NodeRow | undefined): void {
    put(nodes, nodeId, row)
  }

  function putBalance(row: BalanceRow): void {
    touched.add(row.customerId)
    put(balances, row.customerId, row)
  }

  function putLease(row: LeaseRow): void {
    check(row.settled >= 0n && row.granted >= row.settled, 'never_overspent')
    check(row.slots === null || row.slots >= 0, 'lease_slots_check')
    touched.add(row.customerId)
    put(leases, row.leaseId, row)
    put(of(leasesOf, row.customerId), row.leaseId, row)
  }

  function dropLease({ leaseId, customerId, keyId, keyWindow, granted }: LeaseRow): void {
    touched.add(customerId)
    addToKeySpend(customerId, keyId, keyWindow, 0n, -granted)
    put(leases, leaseId, undefined)
    put(of(leasesOf, customerId), leaseId, undefined)
  }

  /** Changes the spent and held amounts of a key in a window; `window` is null for keys without a spend limit. */
  function addToKeySpend(customerId: string, keyId: string | null, window: number | null, spent: Nanos, leased: Nanos) {
    if (window === null || (spent === 0n && leased === 0n)) return
    const key = keySpendKey(customerId, keyId!, window)
    const row = keySpend.get(key) ?? { spent: 0n, leased: 0n }
    const moved = { spent: row.spent + spent, leased: row.leased + leased }
    check(moved.spent >= 0n && moved.leased >= 0n, 'key_spend_check')
    put(keySpend, key, moved)
  }

  function addEntry(entry: EntryRow): void {
    entries.push(entry)
    undo.push(() => entries.pop())
  }

  function addToRollup(row: RollupRow): void {
    const key = `${row.customerId} ${row.hour} ${row.modelId} ${row.provider} ${row.nodeShard}`
    const sum = rollups.get(key)
    put(rollups, key, sum === undefined ? row : added(sum, row))
  }

  /** The check constraints of `balance`. */
  function checkBalance(customerId: string): void {
    const row = balances.get(customerId)
    if (row === undefined) return
    check(row.leased >= 0n && row.posted >= row.leased, 'no_overdraft')
    check(row.debt >= 0n && (row.debt === 0n || row.posted === row.leased), 'debt_is_paid_first')
    check(row.minuteRequests >= 0, 'balance_minute_requests_check')
    check(row.dayRequests >= 0, 'balance_day_requests_check')
    check(row.daySpent >= 0n, 'balance_day_spent_nanos_check')
    check(row.dayLeased >= 0n, 'balance_day_leased_nanos_check')
  }

  function check(holds: boolean, constraint: string, code = '23514'): void {
    if (holds) return
    deps.onViolation?.(constraint)
    throw Object.assign(new Error(`violates constraint "${constraint}"`), { code })
  }

  function isAlive(nodeId: string): boolean {
    return nodes.get(nodeId)?.state === 'alive'
  }

  function bulkLeasesOf(customerId: string): LeaseRow[] {
    const found: LeaseRow[] = []
    for (const lease of leasesOf.get(customerId)?.values() ?? []) if (lease.slots !== null) found.push(lease)
    return found
  }

  // ---------------------------------------------------------------- accounts

  function credit(customerId: string, amount: Nanos, source: 'platform_promo' | 'cash'): void {
    const balance = balances.get(customerId)
    if (balance === undefined || amount === 0n) return
    const txId = ++txIds
    addEntry({ txId, kind: 'customer', accountId: customerId, amount })
    addEntry({ txId, kind: source, accountId: PLATFORM, amount: -amount })
    putBalance({ ...balance, posted: balance.posted + amount })
  }

  /** The trigger pay_debt: what is free pays the debt. */
  function payDebt(customerId: string): void {
    const balance = balances.get(customerId)
    if (balance === undefined) return
    const paid = least(balance.debt, balance.posted - balance.leased)
    if (paid <= 0n) return
    const txId = ++txIds
    addEntry({ txId, kind: 'customer', accountId: customerId, amount: -paid })
    addEntry({ txId, kind: 'customer_debt', accountId: customerId, amount: paid })
    putBalance({ ...balance, posted: balance.posted - paid, debt: balance.debt - paid })
  }

  // ---------------------------------------------------------------- payments

  function pay({ paymentId, customerId, amount }: PaymentRow): 'paid' | 'paid_before' {
    if (payments.has(paymentId)) return 'paid_before'
    put(payments, paymentId, { paymentId, customerId, amount })
    credit(customerId, amount, 'cash')
    return 'paid'
  }

  function reversePayment({ reversalId, paymentId, amount, isDispute }: ReversalOrder) {
    const payment = payments.get(paymentId)
    if (payment === undefined) return 'no_payment'
    if (reversals.has(reversalId)) return 'duplicate'
    const reversed = sum(
      [...reversals.values()].filter(row => row.paymentId === paymentId).map(row => row.taken - row.returned),
    )
    if (amount > payment.amount - reversed) return 'above_payment'
    const { posted, leased } = balances.get(payment.customerId)!
    if (!isDispute && amount > posted - leased) return 'spent'
    put(reversals, reversalId, { paymentId, taken: 0n, returned: 0n })
    moveReversal(reversalId, amount)
    return 'taken'
  }

  /** Moves what a reversal has taken and not returned to `target`. Returns whether something moved. */
  function moveReversal(reversalId: string, target: Nanos): boolean {
    const row = reversals.get(reversalId)
    if (row === undefined) return false
    const { customerId } = payments.get(row.paymentId)!
    const taken = target - (row.taken - row.returned)
    if (taken === 0n) return false
    if (taken < 0n) {
      credit(customerId, -taken, 'cash')
      put(reversals, reversalId, { ...row, returned: row.returned - taken })
      return true
    }
    const balance = balances.get(customerId)!
    const fromFree = least(balance.posted - balance.leased, taken)
    const owed = taken - fromFree
    const txId = ++txIds
    if (fromFree > 0n) addEntry({ txId, kind: 'customer', accountId: customerId, amount: -fromFree })
    if (owed > 0n) addEntry({ txId, kind: 'customer_debt', accountId: customerId, amount: -owed })
    addEntry({ txId, kind: 'cash', accountId: PLATFORM, amount: taken })
    putBalance({ ...balance, posted: balance.posted - fromFree, debt: balance.debt + owed })
    put(reversals, reversalId, { ...row, taken: row.taken + taken })
    if (owed > 0n)
      for (const lease of bulkLeasesOf(customerId)) if (!lease.recalled) putLease({ ...lease, recalled: true })
    return true
  }

  // ---------------------------------------------------------------- admit_batch

  function admit(nodeId: string, requests: readonly LeaseRequest[]): LeaseVerdict[] {
    if (!isAlive(nodeId)) throw new NodeFenced(nodeId)
    const nowMs = windowMs()
    let aliveNodes = 0
    for (const { state } of nodes.values()) if (state === 'alive') aliveNodes++
    // All nodes together may take half of the free amount.
    const parts = 2 * aliveNodes
    const verdicts: LeaseVerdict[] = []
    const grants: LeaseRow[] = []
    const recalled = new Set<string>()
    const order = requests.map((request, item) => ({ request, item }))
    order.sort((a, b) => compare(a.request.customerId, b.request.customerId) || a.item - b.item)
    let customerId: string | undefined
    let account: BalanceRow | undefined

    for (const { request, item } of order) {
      const { limits } = request
      if (customerId !== request.customerId) {
        if (account !== undefined) putBalance(account)
        customerId = request.customerId
        const row = balances.get(customerId)
        account = row && inWindow(row, nowMs)
      }
      if (account === undefined) {
        verdicts.push({ item, kind: 'no_account' })
        continue
      }
      const asked = askOf(request)
      const isCounted = asked.countedUntilMs === account.minute + MINUTE_MS
      const isCountedToday = asked.countedUntilMs !== null && asked.countedUntilMs > account.day * DAY_MS
      const already = leases.get(asked.leaseId)
      account.dayCap = most(account.dayCap ?? 0n, limits.dailySpendCapNanos)
      const capLeft = most(limits.dailySpendCapNanos - account.daySpent - account.dayLeased, 0n)
      const free = account.posted - account.debt - account.leased
      const key = keyOf(request, account, grants)
      const { keyWindow } = key
      const budget = key.spend === null ? least(free, capLeft) : least(free, capLeft, key.spend.leftNanos)
      let posted = account.posted - account.debt
      let code: RefusalCode | undefined
      let held: Nanos | undefined
      let slots = asked.slots
      if (already !== undefined) {
        held = already.granted
        slots = already.slots
      } else if (slots !== null) {
        const want = least(asked.want!, free / BigInt(parts), capLeft / BigInt(parts))
        slots = Math.min(
          slots,
          Math.trunc((limits.requestsPerMinute - account.minuteRequests) / parts),
          Math.trunc((limits.requestsPerDay - account.dayRequests) / parts),
        )
        if (least(free, capLeft) >= asked.floor! && (want > 0n || asked.want === 0n) && slots >= BULK_SLOTS_MIN) {
          held = want
          account.minuteRequests += slots
          account.dayRequests += slots
        } else {
          verdicts.push({ item, kind: 'no_bulk' })
          continue
        }
      } else if (!isCounted && account.minuteRequests >= limits.requestsPerMinute) {
        code = 'rate_limit_exceeded'
      } else if (!isCountedToday && account.dayRequests >= limits.requestsPerDay) {
        code = 'daily_limit_exceeded'
      } else {
        if (!isCounted) account.minuteRequests += 1
        if (!isCountedToday) account.dayRequests += 1
        if (asked.want === null) {
          verdicts.push({ item, kind: 'counted', windows: windowsIn(account, nodeId, grants) })
          continue
        }
        if (budget >= asked.floor!) {
          held = least(asked.want, budget)
        } else {
          const { day } = account
          const bulk = bulkLeasesOf(customerId)
          posted -= sum(bulk.map(lease => lease.settled))
          const unfoldedToday = sum(bulk.filter(lease => lease.capDay === day).map(lease => lease.settled))
          if (account.debt > 0n) {
            code = 'account_in_debt'
            posted = free
          } else if (posted < asked.floor!) code = 'insufficient_credits'
          else if (limits.dailySpendCapNanos - account.daySpent - unfoldedToday < asked.floor!)
            code = 'daily_spend_cap_reached'
          else if (key.spend !== null && key.limitNanos - key.spend.spentNanos < asked.floor!)
            code = 'key_spend_limit_reached'
          else code = 'in_flight_budget'
        }
      }
      const grant =
        held === undefined || already !== undefined ? undefined : grantOf(nodeId, request, account, held, slots)
      const windows = windowsIn(account, nodeId, grant === undefined ? grants : [...grants, grant])
      const databaseNowMs = Math.ceil(nowMs)
      if (already !== undefined && already.slotMinute !== null && already.slotMinute !== account.minute)
        windows.minuteEndsAtEpochMs = Math.min(already.slotMinute + MINUTE_MS, databaseNowMs)
      if (code !== undefined) {
        const isCurable =
          code === 'rate_limit_exceeded' ||
          code === 'daily_limit_exceeded' ||
          (code === 'in_flight_budget' && least(free, capLeft) < asked.floor!)
        const isHeldElsewhere = isCurable && bulkLeasesOf(customerId).some(lease => lease.nodeId !== nodeId)
        if (isHeldElsewhere) recalled.add(customerId)
        verdicts.push({
          item,
          kind: 'refused',
          code,
          postedNanos: posted,
          freeNanos: free,
          capLeftNanos: capLeft,
          key: key.spend,
          member: null,
          windows,
          databaseNowMs,
          isHeldElsewhere,
          nodes: aliveNodes,
        })
        continue
      }
      verdicts.push({
        item,
        kind: 'granted',
        heldNanos: held!,
        slots,
        freeNanos: free,
        capLeftNanos: capLeft,
        nodes: Math.max(aliveNodes, 1),
        windows,
        databaseNowMs,
      })
      if (grant === undefined) continue
      account.leased += held!
      account.dayLeased += held!
      grants.push({ ...grant, keyWindow })
    }

    if (account !== undefined) putBalance(account)
    for (const grant of grants) {
      check(!leases.has(grant.leaseId), 'lease_pkey', '23505')
      putLease(grant)
      addToKeySpend(grant.customerId, grant.keyId, grant.keyWindow, 0n, grant.granted)
    }
    for (const customer of recalled) {
      for (const lease of bulkLeasesOf(customer)) {
        if (lease.nodeId !== nodeId && !lease.recalled) putLease({ ...lease, recalled: true })
      }
    }
    return verdicts
  }

  function grantOf(
    nodeId: string,
    request: LeaseRequest,
    { customerId, minute, day }: BalanceRow,
    granted: Nanos,
    slots: number | null,
  ): LeaseRow {
    const { leaseId, keyId, modelId } = askOf(request)
    return {
      leaseId,
      customerId,
      nodeId,
      keyId,
      modelId,
      granted,
      settled: 0n,
      keyWindow: null,
      slots,
      slotMinute: slots === null ? null : minute,
      slotsUsed: 0,
      owed: 0n,
      recalled: false,
      capDay: day,
      grantedAtMs: epochMs(),
    }
  }

  /** The windows of an account as a node knows them. `grants` are leases that are not in the table yet. */
  function windowsIn(account: BalanceRow, nodeId: string, grants: readonly LeaseRow[]): Writable<StoredWindows> {
    const { customerId, minute, minuteRequests, day, dayRequests } = account
    let [minuteUsed, dayUsed] = [minuteRequests, dayRequests]
    const ownLeases: string[] = []
    const granted = grants.filter(lease => lease.customerId === customerId && lease.slots !== null)
    for (const lease of [...bulkLeasesOf(customerId), ...granted]) {
      const isOwn = lease.nodeId === nodeId
      if (isOwn) ownLeases.push(lease.leaseId)
      const reserved = isOwn ? lease.slots! : lease.slots! - lease.slotsUsed
      if (lease.slotMinute === minute) minuteUsed -= reserved
      if (lease.capDay === day) dayUsed -= reserved
    }
    return {
      minuteUsed,
      dayUsed,
      minuteCounted: minuteRequests,
      dayCounted: dayRequests,
      ownLeases,
      minuteEndsAtEpochMs: minute + MINUTE_MS,
      dayEndsAtEpochMs: (day + 1) * DAY_MS,
    }
  }

  function windowsOf(nodeId: string, customerIds: readonly string[]): Map<string, StoredWindows> {
    const found = new Map<string, StoredWindows>()
    const thisMinute = Math.floor(windowMs() / MINUTE_MS) * MINUTE_MS
    const today = Math.floor(windowMs() / DAY_MS)
    for (const customerId of customerIds) {
      const row = balances.get(customerId)
      if (row === undefined) continue
      const account = { ...row }
      if (row.minute < thisMinute) Object.assign(account, { minute: thisMinute, minuteRequests: 0 })
      if (row.day < today) Object.assign(account, { day: today, dayRequests: 0 })
      found.set(customerId, windowsIn(account, nodeId, []))
    }
    return found
  }

  function noteUse(uses: readonly LeaseUse[]): void {
    for (const { leaseId, slotsUsed, owedNanos } of uses) {
      const lease = leases.get(leaseId)
      if (lease === undefined || lease.slots === null) continue
      putLease({ ...lease, slotsUsed: Math.max(lease.slotsUsed, Math.min(slotsUsed, lease.slots)), owed: owedNanos })
    }
  }

  /** The window of the key's spend limit, and the amount left after the grants of this batch so far. */
  function keyOf(
    request: LeaseRequest,
    { customerId, day }: BalanceRow,
    grants: readonly LeaseRow[],
  ): { keyWindow: number | null; limitNanos: Nanos; spend: KeySpend | null } {
    if (isBulk(request) || request.keyLimit === null) return { keyWindow: null, limitNanos: 0n, spend: null }
    const { keyId, keyLimit } = request
    const { limitNanos, reset } = keyLimit
    const keyWindow = keyWindowStart(reset, day)
    keyLimits.set(keyId, limitNanos)
    const { spent, leased } = keySpend.get(keySpendKey(customerId, keyId, keyWindow)) ?? { spent: 0n, leased: 0n }
    const granted = grants.filter(grant => grant.keyId === keyId && grant.customerId === customerId)
    const held = leased + sum(granted.filter(grant => grant.keyWindow === keyWindow).map(grant => grant.granted))
    return {
      keyWindow,
      limitNanos,
      spend: {
        spentNanos: spent,
        leftNanos: most(limitNanos - spent - held, 0n),
        endsAtEpochMs: keyWindowEndMs(reset, keyWindow),
      },
    }
  }

  /** A copy of the row with the current minute and day. They only move forward, unless they are so far ahead that a clock must have been wrong. */
  function inWindow(row: BalanceRow, nowMs: number): BalanceRow {
    const thisMinute = Math.floor(nowMs / MINUTE_MS) * MINUTE_MS
    const today = Math.floor(nowMs / DAY_MS)
    const account = { ...row }
    const own = [...(leasesOf.get(row.customerId)?.values() ?? [])]
    if (!(row.minute >= thisMinute && row.minute <= thisMinute + 2 * MINUTE_MS)) {
      account.minute = thisMinute
      account.minuteRequests = 0
      for (const lease of own) if (lease.slotMinute === thisMinute) account.minuteRequests += lease.slots!
    }
    if (!(row.day >= today && row.day <= today + 1)) {
      if (row.dayCap !== null) put(dayCaps, capKey(row.customerId, row.day), row.dayCap)
      account.day = today
      account.dayRequests = 0
      account.daySpent = 0n
      account.dayLeased = 0n
      account.dayCap = dayCaps.get(capKey(row.customerId, today)) ?? null
      put(dayCaps, capKey(row.customerId, today), undefined)
      for (const event of usage.get(row.customerId)?.values() ?? [])
        if (event.capDay === today) account.daySpent += event.cost
      for (const lease of own) {
        if (lease.capDay !== today) continue
        account.dayRequests += lease.slots ?? 0
        account.dayLeased += lease.granted
        account.daySpent -= lease.settled
      }
    }
    return account
  }

  // ---------------------------------------------------------------- hand_back_leases

  function handBack(returns: readonly LeaseReturn[]): void {
    for (const { leaseId, keepNanos, slotsUsed } of mergeReturns(returns)) {
      const lease = leases.get(leaseId)
      if (lease === undefined || lease.slots === null) continue
      const { granted, settled } = lease
      const given = most(granted - settled - (keepNanos ?? 0n), 0n)
      const unused = Math.max(lease.slots - slotsUsed, 0)
      if (keepNanos === null) dropLease(lease)
      else
        putLease({
          ...lease,
          granted: granted - settled - given,
          settled: 0n,
          slots: lease.slots - unused,
          slotsUsed: lease.slots - unused,
          recalled: false,
        })
      const balance = balances.get(lease.customerId)!
      const isToday = lease.capDay === balance.day
      putBalance({
        ...balance,
        posted: balance.posted - settled,
        leased: balance.leased - settled - given,
        daySpent: balance.daySpent + (isToday ? settled : 0n),
        dayLeased: balance.dayLeased - (isToday ? settled + given : 0n),
        minuteRequests: balance.minuteRequests - (lease.slotMinute === balance.minute ? unused : 0),
        dayRequests: balance.dayRequests - (isToday ? unused : 0),
      })
    }
  }

  // ---------------------------------------------------------------- settle_batch

  function settle(nodeShard: number, settlements: readonly Settlement[]): Map<string, SettleEffect> {
    const effects = new Map<string, SettleEffect>()
    const skipped = new Set<string>()
    const strictCustomers = new Set<string>()
    const strictRequests: string[] = []
    for (const { requestId, leaseId, customerId } of settlements) {
      if (leaseId !== requestId) continue
      strictCustomers.add(customerId)
      strictRequests.push(requestId)
    }

    const ended = new Map<string, LeaseRow>()
    for (const requestId of strictRequests) {
      const lease = leases.get(requestId)
      if (lease === undefined || lease.slots !== null || !strictCustomers.has(lease.customerId)) continue
      dropLease(lease)
      ended.set(requestId, lease)
    }

    const asked = new Map<string, Nanos>()
    for (const { requestId, leaseId, costNanos, holdNanos } of settlements) {
      if (leaseId !== requestId) asked.set(leaseId, (asked.get(leaseId) ?? 0n) + least(costNanos, holdNanos))
    }
    const used = new Map<string, Nanos>()
    for (const { requestId, leaseId, customerId, costNanos, holdNanos } of settlements) {
      if (leaseId === requestId) continue
      const lease = leases.get(leaseId)
      const isPayer = lease !== undefined && lease.slots !== null && lease.customerId === customerId
      const room = isPayer ? lease.granted - lease.settled : undefined
      if (room !== undefined && asked.get(leaseId)! > room && usage.get(customerId)?.has(requestId)) continue
      const soFar = (used.get(leaseId) ?? 0n) + least(costNanos, holdNanos)
      used.set(leaseId, soFar)
      if (room !== undefined && soFar <= room) continue
      effects.set(requestId, 'fenced')
      skipped.add(requestId)
    }

    const late = new Set<string>()
    const lateWindows = new Map<string, number>()
    /** Charges a request without a lease to the spend limit of its key, if the limit allows it. */
    const spendLate = (done: UsageRow | undefined, cost: Nanos): boolean => {
      if (done === undefined || done.keyWindow === null) return true
      const { customerId, requestId, keyId, keyWindow } = done
      const { spent, leased } = keySpend.get(keySpendKey(customerId, keyId!, keyWindow)) ?? { spent: 0n, leased: 0n }
      // Leases that end in this batch still count as held: their charges are added after all are known.
      let ending = 0n
      for (const lease of ended.values())
        if (lease.customerId === customerId && lease.keyId === keyId && lease.keyWindow === keyWindow)
          ending += lease.granted
      if (spent + leased + ending + cost > keyLimits.get(keyId!)!) return false
      lateWindows.set(requestId, keyWindow)
      addToKeySpend(customerId, keyId, keyWindow, cost, 0n)
      return true
    }
    const lateDays = new Map<string, number>()
    /** The remaining cap, by customer and day. */
    const capLeftOf = new Map<string, Nanos>()
    const capLeft = (balance: BalanceRow, day: number): Nanos => {
      const { customerId } = balance
      if (balance.day === day) return (balance.dayCap ?? FAR_MORE) - balance.daySpent - balance.dayLeased
      const cap = dayCaps.get(capKey(customerId, day)) ?? balance.dayCap ?? FAR_MORE
      const rows = [...(usage.get(customerId)?.values() ?? [])].filter(row => row.capDay === day)
      const open = [...(leasesOf.get(customerId)?.values() ?? []), ...ended.values()].filter(
        lease => lease.customerId === customerId && lease.capDay === day,
      )
      return cap - sum(rows.map(row => row.cost)) - sum(open.map(lease => lease.granted - lease.settled))
    }
    const freeOf = new Map<string, Nanos>()
    const dayOf = ({ customerId, requestId, startedAtEpochMs }: Settlement) =>
      usage.get(customerId)?.get(requestId)?.capDay ?? Math.floor(startedAtEpochMs / DAY_MS)
    const inOrder = settlements
      .map(settlement => ({ ...settlement, day: dayOf(settlement) }))
      .sort((a, b) => compare(a.customerId, b.customerId) || a.day - b.day)
    const seen = new Set<string>()
    for (const { requestId, leaseId, customerId, costNanos, holdNanos, outcome, day } of inOrder) {
      if (leaseId !== requestId || ended.has(requestId)) continue
      const balance = balances.get(customerId)
      if (balance !== undefined && !freeOf.has(customerId)) freeOf.set(customerId, balance.posted - balance.leased)
      // The first one counts when a batch holds the same request twice.
      if (seen.has(requestId)) continue
      seen.add(requestId)
      const done = usage.get(customerId)?.get(requestId)
      const isSuperseded = done?.outcome === 'superseded' && outcome !== 'superseded'
      if (done?.outcome === 'node_died' || isSuperseded) withdrawPresumedEnd(done!, nodeShard)
      if (balance === undefined) {
        skipped.add(requestId)
        effects.set(requestId, 'no_account')
      } else if (done !== undefined && done.outcome !== 'node_died' && !isSuperseded) {
        skipped.add(requestId)
        effects.set(requestId, 'duplicate')
      } else if (isSuperseded && costNanos > 0n) {
        effects.set(requestId, 'written_off')
      } else if (costNanos > 0n) {
        const cost = least(costNanos, holdNanos)
        const free = freeOf.get(customerId)!
        const dayKey = capKey(customerId, day)
        const dayLeft = capLeftOf.get(dayKey) ?? capLeft(balance, day)
        if (cost > 0n && cost <= free && cost <= dayLeft && spendLate(done, cost)) {
          freeOf.set(customerId, free - cost)
          capLeftOf.set(dayKey, dayLeft - cost)
          lateDays.set(requestId, day)
          if (balance.day !== day && balance.dayCap !== null && !dayCaps.has(dayKey))
            put(dayCaps, dayKey, balance.dayCap)
          late.add(requestId)
          effects.set(requestId, 'late')
        } else {
          effects.set(requestId, 'written_off')
        }
      }
    }

    const txId = ++txIds
    const written: { row: UsageRow; settlement: Settlement }[] = []
    for (const settlement of settlements) {
      const { requestId, customerId, leaseId, costNanos, holdNanos } = settlement
      if (skipped.has(requestId)) continue
      const strict = ended.get(requestId)
      const bulk = leaseId === requestId ? undefined : leases.get(leaseId)
      let charge = 0n
      if (strict !== undefined && strict.customerId === customerId) charge = least(costNanos, strict.granted)
      else if (bulk !== undefined || late.has(requestId)) charge = least(costNanos, holdNanos)
      const row = usageRow(settlement, charge, {
        hold: strict?.granted ?? holdNanos,
        capDay: strict?.capDay ?? bulk?.capDay ?? lateDays.get(requestId) ?? null,
        keyWindow: strict?.keyWindow ?? lateWindows.get(requestId) ?? null,
        txId: charge > 0n ? txId : null,
      })
      if (strict !== undefined && costNanos > strict.granted) effects.set(requestId, 'clamped')
      const before = usage.get(customerId)?.get(requestId)
      if (before?.outcome === 'superseded' && settlement.outcome !== 'superseded') effects.set(requestId, 'fenced')
      if (before !== undefined) continue
      check(row.cost >= 0n && row.cost <= row.hold, 'usage_event_cost_check')
      check(row.cost === row.hosterShare + row.fee, 'usage_event_shares_check')
      put(of(usage, customerId), requestId, row)
      touched.add(customerId)
      written.push({ row, settlement })
    }

    const moved = new Map<string, { cost: Nanos; granted: Nanos; dayCost: Nanos; dayGranted: Nanos }>()
    const movedOf = (customerId: string) => {
      let move = moved.get(customerId)
      if (move === undefined) {
        move = { cost: 0n, granted: 0n, dayCost: 0n, dayGranted: 0n }
        moved.set(customerId, move)
      }
      return move
    }
    for (const { row, settlement } of written) {
      if (settlement.leaseId === settlement.requestId) {
        const move = movedOf(row.customerId)
        move.cost += row.cost
        if (ended.has(row.requestId)) addToKeySpend(row.customerId, row.keyId, row.keyWindow, row.cost, 0n)
        if (row.capDay === balances.get(row.customerId)?.day) move.dayCost += row.cost
      } else if (row.cost > 0n) {
        const lease = leases.get(settlement.leaseId)!
        putLease({ ...lease, settled: lease.settled + row.cost })
      }
    }
    for (const lease of ended.values()) {
      const move = movedOf(lease.customerId)
      move.granted += lease.granted
      if (lease.capDay === balances.get(lease.customerId)?.day) move.dayGranted += lease.granted
    }
    for (const [customerId, move] of moved) {
      const balance = balances.get(customerId)
      if (balance === undefined) continue
      putBalance({
        ...balance,
        posted: balance.posted - move.cost,
        leased: balance.leased - move.granted,
        daySpent: balance.daySpent + move.dayCost,
        dayLeased: balance.dayLeased - move.dayGranted,
      })
    }
    post(
      txId,
      written.map(({ row }) => row),
    )
    for (const { row } of written) {
      addToRollup({
        ...rollupKey(row, nodeShard),
        requests: 1,
        successes: row.success ? 1 : 0,
        inputTokens: row.inputTokens,
        outputTokens: row.outputTokens,
        cachedTokens: row.cachedTokens,
        cost: row.cost,
        hosterShare: row.hosterShare,
        fee: row.fee,
        latencyMsSum: row.success ? row.latencyMs : 0,
      })
    }
    return effects
  }

  /** Adds the entries of one settlement batch: one for each customer, each hoster and the platform. */
  function post(txId: number, rows: readonly UsageRow[]): void {
    const amounts = new Map<string, EntryRow>()
    const add = (kind: EntryRow['kind'], accountId: string, amount: Nanos) => {
      const key = `${kind} ${accountId}`
      const before = amounts.get(key)
      amounts.set(key, { txId, kind, accountId, amount: (before?.amount ?? 0n) + amount })
    }
    for (const { customerId, hosterId, cost, hosterShare, fee } of rows) {
      add('customer', customerId, -cost)
      if (hosterShare > 0n) add('hoster_payable', hosterId!, hosterShare)
      add('platform_revenue', PLATFORM, fee)
    }
    for (const entry of amounts.values()) if (entry.amount !== 0n) addEntry(entry)
  }

  /** Removes a row that only presumes how a request ended. */
  function withdrawPresumedEnd(row: UsageRow, nodeShard: number): void {
    touched.add(row.customerId)
    put(of(usage, row.customerId), row.requestId, undefined)
    addToRollup({ ...rollupKey(row, nodeShard), ...nothing, requests: -1 })
  }

  // ---------------------------------------------------------------- refund_request

  function refund({ customerId, requestId, amountNanos }: RefundOrder): RefundVerdict {
    const charge = usage.get(customerId)?.get(requestId)
    if (charge === undefined) return verdictOf('no_request')
    const amount = amountNanos ?? charge.cost
    if (charge.cost === 0n) return verdictOf('free')
    const earlier = refunds.get(`${customerId} ${requestId}`)
    if (earlier !== undefined) return verdictOf(earlier.amount === amount ? 'duplicate' : 'refunded_before', earlier)
    if (amount > charge.cost) return verdictOf('above_charge')
    const hosterShare = (charge.hosterShare * amount) / charge.cost
    const txId = ++txIds
    const row = { customerId, requestId, amount, hosterShare, fee: amount - hosterShare, txId }
    put(refunds, `${customerId} ${requestId}`, row)
    addEntry({ txId, kind: 'customer', accountId: customerId, amount })
    if (row.hosterShare > 0n)
      addEntry({ txId, kind: 'hoster_payable', accountId: charge.hosterId!, amount: -row.hosterShare })
    if (row.fee > 0n) addEntry({ txId, kind: 'platform_revenue', accountId: PLATFORM, amount: -row.fee })
    const balance = balances.get(customerId)!
    putBalance({ ...balance, posted: balance.posted + amount })
    return verdictOf('refunded', row)
  }

  // ---------------------------------------------------------------- Idempotency-Keys

  function takeClaim({ customerId, key, bodyHash, requestId }: Claim, nodeId: string): boolean {
    const row = claims.get(claimKey({ customerId, key }))
    const isInUse = row !== undefined && (row.expiresAtMs > epochMs() || (row.done === null && isAlive(row.nodeId)))
    if (isInUse) return false
    putClaim({ customerId, key, bodyHash, requestId, nodeId, done: null, ...claimTimes(nodeId) })
    return true
  }

  function findClaim(claim: Claim): StoredClaim | undefined {
    const row = claims.get(claimKey(claim))
    if (row === undefined) return undefined
    const node = nodes.get(row.nodeId)
    const event = usage.get(row.customerId)?.get(row.requestId)
    return {
      requestId: row.requestId,
      nodeId: row.nodeId,
      isSameBody: row.bodyHash.equals(claim.bodyHash),
      done: row.done,
      isRunning:
        node?.state === 'alive' &&
        node.heartbeats <= row.heartbeats + CLAIM_FORGOTTEN_MS / HEARTBEAT_MS &&
        (event === undefined || event.startedAtMs + event.latencyMs > epochMs() - FINISHED_WITHIN_MS),
      row: event === undefined ? null : { outcome: event.outcome, success: event.success, costNanos: event.cost },
    }
  }

  function takeOverClaim(claim: Claim, earlierRequestId: string, nodeId: string): boolean {
    const row = runningClaim(claim, earlierRequestId)
    if (row === undefined) return false
    putClaim({ ...row, requestId: claim.requestId, nodeId, ...claimTimes(nodeId) })
    return true
  }

  function runningClaim(claim: Claim, requestId: string): ClaimRow | undefined {
    const row = claims.get(claimKey(claim))
    return row?.requestId === requestId && row.done === null ? row : undefined
  }

  function claimTimes(nodeId: string) {
    const heartbeats = isAlive(nodeId) ? nodes.get(nodeId)!.heartbeats : -1
    return { heartbeats, expiresAtMs: epochMs() + DAY_MS }
  }

  function putClaim(row: ClaimRow): void {
    put(claims, claimKey(row), row)
  }

  // ---------------------------------------------------------------- leases that end without a settlement

  function release(leaseIds: readonly string[]): Set<string> {
    const released = new Set<string>()
    for (const leaseId of leaseIds) {
      const lease = leases.get(leaseId)
      if (lease === undefined) continue
      dropLease(lease)
      released.add(leaseId)
      const balance = balances.get(lease.customerId)!
      putBalance({
        ...balance,
        leased: balance.leased - lease.granted,
        dayLeased: balance.dayLeased - (lease.capDay === balance.day ? lease.granted : 0n),
      })
    }
    return released
  }

  // ---------------------------------------------------------------- nodes

  function heartbeat(nodeId: string, number: number): Heartbeat {
    const node = nodes.get(nodeId)
    if (node?.state !== 'alive') return { isAlive: false, before: 0, recalled: [], others: [], hasDeadNodes: false }
    const before = node.heartbeats
    putNode(nodeId, { ...node, heartbeats: Math.max(before, number) })
    const recalled = [...leases.values()].filter(lease => lease.nodeId === nodeId && lease.recalled)
    const others: NodeHeartbeats[] = []
    let hasDeadNodes = false
    for (const [otherId, { state, heartbeats }] of nodes) {
      if (state === 'dead') hasDeadNodes = true
      else if (otherId !== nodeId) others.push({ nodeId: otherId, heartbeats })
    }
    return { isAlive: true, before, recalled: recalled.map(lease => lease.leaseId), others, hasDeadNodes }
  }

  function declareNodesDead({ silentNodes = [], deadNodes = [], onlyNodeAlive }: ReclaimOptions): void {
    for (const { nodeId, heartbeats } of silentNodes)
      if (nodes.get(nodeId)?.heartbeats === heartbeats) declareDead(nodeId)
    for (const nodeId of deadNodes) declareDead(nodeId)
    if (onlyNodeAlive !== undefined)
      for (const nodeId of nodes.keys()) if (nodeId !== onlyNodeAlive) declareDead(nodeId)
  }

  function declareDead(nodeId: string): void {
    const node = nodes.get(nodeId)
    if (node !== undefined) putNode(nodeId, { ...node, state: 'dead' })
  }

  // ---------------------------------------------------------------- leases of dead nodes

  function reclaimLeases(customerId: string, nodeShard: number): number {
    let reclaimed = 0
    for (const lease of [...(leasesOf.get(customerId)?.values() ?? [])]) {
      if (isAlive(lease.nodeId)) continue
      reclaimed++
      dropLease(lease)
      deps.onReclaim?.(lease)
      const balance = balances.get(customerId)!
      const isToday = lease.capDay === balance.day
      putBalance({
        ...balance,
        posted: balance.posted - lease.settled,
        leased: balance.leased - lease.granted,
        daySpent: balance.daySpent + (isToday ? lease.settled : 0n),
        dayLeased: balance.dayLeased - (isToday ? lease.granted : 0n),
      })
      if (lease.slots !== null || usage.get(customerId)?.has(lease.leaseId)) continue
      const row: UsageRow = {
        customerId,
        requestId: lease.leaseId,
        startedAtMs: lease.grantedAtMs,
        modelId: lease.modelId ?? '',
        provider: 'none',
        hosterId: null,
        inputTokens: 0,
        outputTokens: 0,
        cachedTokens: 0,
        hold: lease.granted,
        cost: 0n,
        hosterShare: 0n,
        fee: 0n,
        writeoff: 0n,
        latencyMs: 0,
        success: false,
        outcome: 'node_died',
        txId: null,
        capDay: lease.capDay,
        keyId: lease.keyId,
        keyWindow: lease.keyWindow,
      }
      put(of(usage, customerId), lease.leaseId, row)
      addToRollup({ ...rollupKey(row, nodeShard), ...nothing, requests: 1 })
    }
    return reclaimed
  }
}

/** The longest answer that the simulated endpoints allow. */
export const LONGEST_ANSWER_MS = 600_000
/** Fewer requests than this are not worth a bulk lease. */
const BULK_SLOTS_MIN = 2
/** More than any balance: PostgreSQL's largest bigint. */
const FAR_MORE = 9_223_372_036_854_775_807n
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** An hour after the longest answer. */
const CLAIM_FORGOTTEN_MS = LONGEST_ANSWER_MS + HOUR_MS
/** A claim may still be finished this long after its usage row. */
const FINISHED_WITHIN_MS = 10_000
const PLATFORM = '00000000-0000-0000-0000-000000000000'
const nothing = {
  successes: 0,
  inputTokens: 0,
  outputTokens: 0,
  cachedTokens: 0,
  cost: 0n,
  hosterShare: 0n,
  fee: 0n,
  latencyMsSum: 0,
}

/** The columns that bulk requests and admissions share. */
function askOf(request: LeaseRequest) {
  if (isBulk(request)) {
    const { leaseId, wantNanos, floorNanos, slots } = request
    return { leaseId, keyId: null, modelId: null, want: wantNanos, floor: floorNanos, slots, countedUntilMs: null }
  }
  const { requestId, keyId, modelId, ask, countedUntilEpochMs } = request
  return {
    leaseId: requestId,
    keyId,
    modelId,
    want: ask?.wantNanos ?? null,
    floor: ask?.floorNanos ?? null,
    slots: null,
    countedUntilMs: countedUntilEpochMs ?? null,
  }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

function isBulk(request: LeaseRequest): request is BulkRequest {
  return 'slots' in request
}

/** The usage row of a settlement that is charged `charge`. The hoster share of a reduced charge is rounded down. */
function usageRow(
  settlement: Settlement,
  charge: Nanos,
  of: Pick<UsageRow, 'hold' | 'capDay' | 'keyWindow' | 'txId'>,
): UsageRow {
  const { costNanos, hosterShareNanos, feeNanos } = settlement
  const hosterShare = charge === costNanos ? hosterShareNanos : (hosterShareNanos * charge) / costNanos
  return {
    customerId: settlement.customerId,
    requestId: settlement.requestId,
    startedAtMs: settlement.startedAtEpochMs,
    modelId: settlement.modelId,
    provider: settlement.provider,
    hosterId: settlement.hosterId,
    inputTokens: settlement.inputTokens,
    outputTokens: settlement.outputTokens,
    cachedTokens: settlement.parts?.find(({ kind }) => kind === 'cache_read')?.tokens ?? 0,
    hold: of.hold,
    cost: charge,
    hosterShare,
    fee: charge === costNanos ? feeNanos : charge - hosterShare,
    writeoff: settlement.writeoffNanos + costNanos - charge,
    latencyMs: settlement.latencyMs,
    success: settlement.success,
    outcome: settlement.outcome,
    txId: of.txId,
    capDay: of.capDay,
    keyId: settlement.keyId,
    keyWindow: of.keyWindow,
  }
}

export function claimKey({ customerId, key }: Pick<Claim, 'customerId' | 'key'>): string {
  return `${customerId} ${key}`
}

function verdictOf(kind: RefundVerdict['kind'], row?: RefundRow): RefundVerdict {
  return {
    kind,
    amountNanos: row?.amount ?? null,
    hosterShareNanos: row?.hosterShare ?? null,
    feeNanos: row?.fee ?? null,
  }
}

function keySpendKey(customerId: string, keyId: string, window: number): string {
  return `${customerId} ${keyId} ${window}`
}

function capKey(customerId: string, day: number): string {
  return `${customerId} ${day}`
}

/** The UTC day on which the spend limit window containing `day` began. Both are days since the epoch, which was a Thursday. */
function keyWindowStart(reset: LimitReset, day: number): number {
  if (reset === 'daily') return day
  if (reset === 'weekly') return day - ((day + 3) % 7)
  if (reset === 'monthly') return day - (new Date(day * DAY_MS).getUTCDate() - 1)
  return -Infinity
}

function keyWindowEndMs(reset: LimitReset, start: number): number | null {
  if (reset === 'daily') return (start + 1) * DAY_MS
  if (reset === 'weekly') return (start + 7) * DAY_MS
  if (reset === 'none') return null
  const date = new Date(start * DAY_MS)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)
}

function rollupKey({ customerId, startedAtMs, modelId, provider }: UsageRow, nodeShard: number) {
  return { customerId, hour: Math.floor(startedAtMs / HOUR_MS) * HOUR_MS, modelId, provider, nodeShard }
}

function added(a: RollupRow, b: RollupRow): RollupRow {
  return {
    ...a,
    requests: a.requests + b.requests,
    successes: a.successes + b.successes,
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    cost: a.cost + b.cost,
    hosterShare: a.hosterShare + b.hosterShare,
    fee: a.fee + b.fee,
    latencyMsSum: a.latencyMsSum + b.latencyMsSum,
  }
}

function of<Row>(table: Map<string, Map<string, Row>>, key: string): Map<string, Row> {
  let inner = table.get(key)
  if (inner === undefined) {
    inner = new Map()
    table.set(key, inner)
  }
  return inner
}

/** Merges the returns of each lease. A lease that both shrinks and closes is closed. */
function mergeReturns(returns: readonly LeaseReturn[]): Iterable<LeaseReturn> {
  const byLease = new Map<string, LeaseReturn>()
  for (const lease of returns) {
    const { leaseId, keepNanos, slotsUsed } = byLease.get(lease.leaseId) ?? lease
    byLease.set(leaseId, {
      leaseId,
      keepNanos: keepNanos === null || lease.keepNanos === null ? null : least(keepNanos, lease.keepNanos),
      slotsUsed: Math.max(slotsUsed, lease.slotsUsed),
    })
  }
  return byLease.values()
}

/** The order in which PostgreSQL sorts ids, which are lower-case. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function least(first: Nanos, ...more: Nanos[]): Nanos {
  return more.reduce((a, b) => (b < a ? b : a), first)
}

function most(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b
}

function sum(amounts: readonly Nanos[]): Nanos {
  return amounts.reduce((a, b) => a + b, 0n)
}
