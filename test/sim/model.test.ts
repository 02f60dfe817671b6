import { beforeAll, expect, test } from 'vitest'
import { idOf } from '../../sim/id-of.ts'
import {
  createModelDatabase,
  LONGEST_ANSWER_MS,
  type ModelDatabase,
  type PaymentRow,
  type RefundVerdict,
} from '../../sim/model-database.ts'
import { createRandom, type Random } from '../../sim/random.ts'
import { splitCost } from '../../src/base/domain/money.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import type {
  Heartbeat,
  LeaseRequest,
  LeaseReturn,
  LeaseUse,
  LedgerStore,
  StoredWindows,
} from '../../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { encodeSettlements, type Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import type { Claim, ClaimStore } from '../../src/request/chat/idempotency/claim-store.ts'
import { createPostgresClaimStore } from '../../src/request/chat/idempotency/postgres-claim-store.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// The model database of the simulator behaves like PostgreSQL: random histories run in both, and after each
// step the answers and all rows of the customers are the same.

const HISTORIES = 30
const STEPS = 36
const SHARD = 3

const database = useTestDatabase()
let store: LedgerStore
let claims: ClaimStore
let model: ModelDatabase
/** The clock of the windows, for both databases. */
let windowMs = 0
/** Id 0 is the key of the customer that does not exist. */
let ids = 1

beforeAll(() => {
  store = createPostgresStore({ money: database.pool, heartbeat: database.pool, windowClock: () => windowMs })
  claims = createPostgresClaimStore(database.pool, () => LONGEST_ANSWER_MS)
  model = createModelDatabase({ epochMs: Date.now, windowMs: () => windowMs })
})

test(`${HISTORIES} random histories have the same results in the model and in PostgreSQL`, async () => {
  const kinds = new Map<string, number>()
  for (let seed = 1; seed <= HISTORIES; seed++)
    for (const kind of await runHistory(seed)) kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  // A workload that never reaches a rule does not test it.
  const reached = [
    'granted',
    'bulk',
    'no_bulk',
    'counted',
    'no_account',
    'rate_limit_exceeded',
    'daily_limit_exceeded',
    'insufficient_credits',
    'in_flight_budget',
  ]
  reached.push(
    'daily_spend_cap_reached',
    'key_spend_limit_reached',
    'held_elsewhere',
    'duplicate',
    'clamped',
    'late',
    'written_off',
    'fenced',
    'folded',
    'used',
    'released',
    'reclaimed',
    'still_alive',
    'NodeFenced',
    'refunded',
    'refunded_before',
    'above_charge',
    'free',
    'no_request',
    'taken',
    'not_taken',
    'running',
    'not_running',
    'done',
    'ended',
    'other_body',
    'taken_over',
    'not_taken_over',
    'paid',
    'paid_before',
    'spent',
    'above_payment',
    'no_payment',
    'returned',
    'not_returned',
    'account_in_debt',
  )
  expect(reached.filter(kind => !kinds.has(kind))).toEqual([])
})

/** Returns the kinds of results that occurred. */
async function runHistory(seed: number): Promise<string[]> {
  const history = createHistory(createRandom(seed))
  await history.begin()
  for (let step = 1; step <= STEPS; step++) {
    const { name, inModel, inPostgres } = history.next()
    const expected = await outcomeOf(async () => inModel())
    const actual = await outcomeOf(inPostgres)
    const where = `seed ${seed}, step ${step}: ${name}`
    expect(actual, where).toEqual(expected)
    history.note(expected)
    expect(await rowsInPostgres(history.customers), where).toEqual(rowsInModel(history.customers))
  }
  await history.end()
  expect(await sumsInPostgres(history.customers), `seed ${seed}: the sums`).toEqual(sumsInModel(history.customers))
  return history.kinds
}

interface Step {
  readonly name: string
  inModel(): unknown
  inPostgres(): Promise<unknown>
}

function createHistory(random: Random) {
  const customers = Array.from({ length: random.between(1, 4) }, () => idOf('customer', ids++))
  const stranger = idOf('customer', ids++)
  const nodes = Array.from({ length: random.between(1, 3) }, () => idOf('node', ids++))
  const keys = new Map(customers.map(customerId => [customerId, keysOf(random)]))
  const limits = new Map(customers.map(customerId => [customerId, limitsOf(random)]))
  const requests: { requestId: string; customerId: string }[] = []
  const settled: Settlement[] = []
  const superseded: { requestId: string; customerId: string }[] = []
  const keyOfRequest = new Map<string, Key>()
  const kinds: string[] = []
  windowMs = Date.UTC(
    2026,
    2,
    random.between(1, 28),
    random.between(0, 23),
    random.between(0, 59),
    random.between(0, 59),
  )

  const steps: [weight: number, step: () => Step][] = [
    [10, admitStep],
    [8, settleStep],
    [4, handBackStep],
    [3, noteUseStep],
    [1, releaseStep],
    [1, reclaimStep],
    [1, creditStep],
    [3, refundStep],
    [4, paymentStep],
    [6, claimStep],
  ]
  const urn = steps.flatMap(([weight, step]) => Array<() => Step>(weight).fill(step))

  return {
    customers,
    kinds,
    async begin() {
      for (const customerId of customers) {
        await database.pool.query('INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, $3)', [
          customerId,
          `${customerId}@example.org`,
          'free',
        ])
        for (const { keyId, keyLimit } of keys.get(customerId)!) {
          await database.pool.query(
            `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint, spend_limit_nanos, limit_reset)
            VALUES ($1::uuid, $2, 'key', sha256($1::uuid::text::bytea), 'sk', $3, $4)`,
            [keyId, customerId, keyLimit?.limitNanos ?? null, keyLimit?.reset ?? 'none'],
          )
        }
        const credit = creditOf()
        await openAccount(database.pool, customerId, credit)
        model.openAccount(customerId, credit)
      }
      for (const nodeId of nodes) {
        await store.registerNode(nodeId)
        model.registerNode(nodeId)
      }
    },
    next() {
      passTime()
      return random.pick(urn)()
    },
    note(outcome: unknown) {
      for (const [, kind] of shown(outcome).matchAll(/"(\w+)"/g)) kinds.push(kind!)
    },
    async end() {
      for (const nodeId of nodes) {
        await store.retireNode(nodeId)
        model.retireNode(nodeId)
      }
    },
  }

  function passTime(): void {
    if (random.chance(0.05))
      windowMs += random.pick([3_600_000, -3_600_000, 86_400_000, -86_400_000, 3 * 86_400_000, -3 * 86_400_000])
    else if (random.chance(0.7)) windowMs += random.between(0, 20_000)
  }

  /** A request has the same key from its admission to its settlement. */
  function keyOf(requestId: string, customerId: string): Key {
    const key =
      keyOfRequest.get(requestId) ?? random.pick(keys.get(customerId) ?? [{ keyId: idOf('key', 0), keyLimit: null }])
    keyOfRequest.set(requestId, key)
    return key
  }

  function creditOf(): bigint {
    return BigInt(Math.round(random.skewed(1_000, 2_000_000)))
  }

  function someCustomer(): string {
    return random.chance(0.02) ? stranger : random.pick(customers)
  }

  function openLeases(isBulk: boolean) {
    return [...model.tables.leases.values()].filter(
      lease => (lease.slots !== null) === isBulk && limits.has(lease.customerId),
    )
  }

  function admitStep(): Step {
    const nodeId = random.chance(0.03) ? idOf('node', ids++) : random.pick(nodes)
    const items: LeaseRequest[] = Array.from({ length: random.between(1, 6) }, () => {
      const isAgain = requests.length > 0 && random.chance(0.1)
      const { requestId, customerId } = isAgain
        ? random.pick(requests)
        : { requestId: idOf('request', ids++), customerId: someCustomer() }
      const wantNanos = BigInt(Math.round(random.skewed(10, 300_000)))
      const floorNanos = random.chance(0.5) ? wantNanos : wantNanos / 5n
      const common = { customerId, limits: limits.get(customerId) ?? limitsOf(random) }
      if (random.chance(0.3)) {
        const again = random.chance(0.1) ? openLeases(true).find(lease => lease.customerId === customerId) : undefined
        return {
          leaseId: again?.leaseId ?? idOf('lease', ids++),
          ...common,
          wantNanos,
          floorNanos,
          slots: random.between(1, 60),
        }
      }
      if (!isAgain) requests.push({ requestId, customerId })
      const ask = random.chance(0.1) ? null : { wantNanos, floorNanos }
      const modelId = random.pick(['small', 'large'])
      const again = { countedUntilEpochMs: (Math.floor(windowMs / 60_000) + random.between(0, 2)) * 60_000 }
      const counted = random.chance(0.1) ? again : {}
      return { requestId, ...common, ...keyOf(requestId, customerId), memberLimit: null, modelId, ask, ...counted }
    })
    return {
      name: `admit ${shown(items)}`,
      inModel: () => sorted(model.admit(nodeId, items)),
      inPostgres: async () => sorted(await store.admit(nodeId, items)),
    }
  }

  function settleStep(): Step {
    const drawn: Settlement[] = Array.from({ length: random.between(1, 6) }, () => {
      if (settled.length > 0 && random.chance(0.15)) return random.pick(settled)
      const bulk = openLeases(true)
      const strict = openLeases(false)
      const kind = random.pick(['strict', 'strict', 'bulk', 'bulk', 'gone', 'superseded', 'ended after all'] as const)
      if (kind === 'superseded') {
        const request = random.pick([...requests, { requestId: idOf('request', ids++), customerId: someCustomer() }])
        superseded.push(request)
        return supersededSettlement(request.requestId, request.customerId)
      }
      if (kind === 'ended after all' && superseded.length > 0) {
        const { requestId, customerId } = random.pick(superseded)
        const leases = [
          requestId,
          ...bulk.filter(lease => lease.customerId === customerId).map(({ leaseId }) => leaseId),
        ]
        return settlement(requestId, random.pick(leases), customerId, BigInt(random.between(0, 200_000)))
      }
      if (kind === 'strict' && strict.length > 0) {
        const { leaseId, customerId, granted } = random.pick(strict)
        return settlement(leaseId, leaseId, customerId, granted)
      }
      const requestId = idOf('request', ids++)
      if (kind === 'bulk' && bulk.length > 0) {
        const { leaseId, customerId, granted } = random.pick(bulk)
        const payer = random.chance(0.05) ? random.pick(customers) : customerId
        return settlement(requestId, leaseId, payer, granted / BigInt(random.between(1, 10)))
      }
      const late =
        random.chance(0.5) && requests.length > 0 ? random.pick(requests) : { requestId, customerId: someCustomer() }
      const leaseId = random.chance(0.2) ? idOf('lease', ids++) : late.requestId
      return settlement(late.requestId, leaseId, late.customerId, BigInt(random.between(0, 200_000)))
    })
    // A request ends once: if it is in a batch twice, the settlement is the same.
    const items = [...new Map(drawn.map(item => [item.requestId, item])).values()]
    if (random.chance(0.1)) items.push(items[0]!)
    settled.push(...items)
    return {
      name: `settle ${shown(items)}`,
      inModel: () => model.settle(SHARD, items),
      inPostgres: () => store.settle(SHARD, encodeSettlements(items)),
    }
  }

  function settlement(requestId: string, leaseId: string, customerId: string, holdNanos: bigint): Settlement {
    // Sometimes more than the hold.
    const costNanos =
      (holdNanos * BigInt(random.pick([0, 1_000, 1_300, random.between(0, 1_000), random.between(0, 1_000)]))) / 1_000n
    return {
      requestId,
      leaseId,
      customerId,
      keyId: keyOf(requestId, customerId).keyId,
      label: null,
      // Some end in an hour by the real clock, so their claims can still be finished.
      startedAtEpochMs: random.chance(0.2) ? Date.now() + 3_600_000 : Math.floor(windowMs - random.between(0, 10_000)),
      modelId: random.pick(['small', 'large']),
      provider: costNanos > 0n ? 'hoster' : 'none',
      endpointId: null,
      hosterId: costNanos > 0n ? idOf('hoster', random.between(0, 2)) : null,
      inputTokens: random.between(0, 5_000),
      outputTokens: random.between(0, 5_000),
      reportedInputTokens: null,
      reportedOutputTokens: null,
      countedInputTokens: null,
      countedOutputTokens: null,
      usageSource: 'gateway',
      price: { inputPicoPerToken: 1_000n, outputPicoPerToken: 2_000n },
      parts: random.chance(0.3) ? [{ kind: 'cache_read', tokens: random.between(1, 5_000), picoPerToken: 100n }] : null,
      reasoningTokens: null,
      priceVersion: null,
      priceGroup: null,
      upstreamCostNanos: random.chance(0.5) ? BigInt(random.between(0, 9_999)) : null,
      holdNanos,
      costNanos,
      ...splitCost(costNanos, random.pick([0, 7_777, 10_000])),
      writeoffNanos: BigInt(random.pick([0, 0, 17])),
      latencyMs: random.between(0, 5_000),
      firstTokenMs: null,
      success: random.chance(0.8),
      outcome: 'served',
      finishReason: null,
      attempts: [],
      routing: null,
    }
  }

  /** As a node writes it before it runs the request again. */
  function supersededSettlement(requestId: string, customerId: string): Settlement {
    const free = {
      provider: 'none',
      hosterId: null,
      inputTokens: 0,
      outputTokens: 0,
      parts: null,
      latencyMs: 0,
    } as const
    return {
      ...settlement(requestId, requestId, customerId, 0n),
      ...free,
      writeoffNanos: 0n,
      success: false,
      outcome: 'superseded',
    }
  }

  function handBackStep(): Step {
    const returns: LeaseReturn[] = []
    for (const lease of [...openLeases(true), ...openLeases(false).slice(0, 1)]) {
      if (random.chance(0.5)) continue
      const keepNanos = BigInt(random.between(0, Number(lease.granted - lease.settled) + 10))
      const slotsUsed = random.between(0, (lease.slots ?? 0) + 2)
      if (random.chance(0.5)) returns.push({ leaseId: lease.leaseId, keepNanos, slotsUsed })
      if (random.chance(0.5)) returns.push({ leaseId: lease.leaseId, keepNanos: null, slotsUsed })
    }
    if (random.chance(0.2)) returns.push({ leaseId: idOf('lease', ids++), keepNanos: null, slotsUsed: 0 })
    if (returns.length > 0) kinds.push('folded')
    return {
      name: `hand back ${shown(returns)}`,
      inModel() {
        model.handBack(returns)
        return new Set()
      },
      inPostgres: () => store.handBack(returns),
    }
  }

  function noteUseStep(): Step {
    const uses: LeaseUse[] = [...openLeases(true), ...openLeases(false).slice(0, 1)].map(({ leaseId, slots }) => ({
      leaseId,
      slotsUsed: random.between(0, (slots ?? 0) + 2),
      owedNanos: BigInt(random.between(0, 1_000)),
    }))
    if (uses.length > 0) kinds.push('used')
    return {
      name: `note use ${shown(uses)}`,
      inModel() {
        model.noteUse(uses)
        return new Set()
      },
      inPostgres: () => store.noteUse(uses),
    }
  }

  function releaseStep(): Step {
    const leaseIds = openLeases(false)
      .filter(() => random.chance(0.3))
      .map(({ leaseId }) => leaseId)
    if (leaseIds.length > 0) kinds.push('released')
    leaseIds.push(idOf('request', ids++))
    return {
      name: `release ${shown(leaseIds)}`,
      inModel: () => new Map([...model.release(leaseIds)].map(leaseId => [leaseId, 'released'])),
      inPostgres: () => store.release(leaseIds),
    }
  }

  /**
   * A node dies, or seems to: the lock on its journal proves it, or another node has seen no heartbeat of it for long.
   * Another node takes its place.
   */
  function reclaimStep(): Step {
    const index = random.between(0, nodes.length - 1)
    const nodeId = nodes[index]!
    const number = model.tables.nodes.get(nodeId)!.heartbeats + random.between(1, 3)
    // A statement that was delayed may store a lower number after a higher one.
    const delayed = number - random.between(0, 2)
    const isSilent = random.chance(0.5)
    const hasSentMore = isSilent && random.chance(0.3)
    const dead = isSilent
      ? { silentNodes: [{ nodeId, heartbeats: number - (hasSentMore ? 1 : 0) }] }
      : { deadNodes: [nodeId] }
    const options = { nodeShard: SHARD, ...dead }
    const successor = idOf('node', ids++)
    if (!hasSentMore) nodes[index] = successor
    const hasLeases = [...model.tables.leases.values()].some(lease => lease.nodeId === nodeId)
    kinds.push(hasSentMore ? 'still_alive' : hasLeases ? 'reclaimed' : 'dead')
    return {
      name: `reclaim ${shown(dead)}`,
      inModel() {
        if (!hasSentMore) model.registerNode(successor)
        const before = heartbeatOf(model.heartbeat(nodeId, number))
        model.heartbeat(nodeId, delayed)
        model.declareNodesDead(options)
        let leases = 0
        for (const customerId of model.customersOfDeadNodes()) leases += model.reclaimLeases(customerId, SHARD)
        model.forgetDeadNodes()
        return { before, after: heartbeatOf(model.heartbeat(nodeId, number + 1)), leases }
      },
      async inPostgres() {
        if (!hasSentMore) await store.registerNode(successor)
        const before = heartbeatOf(await store.heartbeat(nodeId, number))
        await store.heartbeat(nodeId, delayed)
        const leases = await store.reclaim(options)
        return { before, after: heartbeatOf(await store.heartbeat(nodeId, number + 1)), leases }
      },
    }
  }

  function creditStep(): Step {
    const customerId = random.pick(customers)
    const amountNanos = creditOf()
    const ref = `payment ${ids++}`
    return {
      name: `credit ${amountNanos}`,
      inModel: () => model.grantCredit(customerId, amountNanos),
      async inPostgres() {
        for (let time = 0; time < 2; time++)
          await grantCredit(database.pool, { customerId, amountNanos, ref, reason: 'paid' })
      },
    }
  }

  function refundStep(): Step {
    const rows = customers.flatMap(customerId => [...(model.tables.usage.get(customerId)?.values() ?? [])])
    const charged = rows.filter(({ cost }) => cost > 0n)
    const refunds = [...model.tables.refunds.values()].filter(({ customerId }) => customers.includes(customerId))
    const from: readonly { customerId: string; requestId: string }[] = random.pick([rows, charged, charged, refunds])
    const { customerId, requestId } =
      from.length > 0 && random.chance(0.95)
        ? random.pick(from)
        : { customerId: someCustomer(), requestId: idOf('request', ids++) }
    const cost = model.tables.usage.get(customerId)?.get(requestId)?.cost ?? 0n
    const amountNanos = random.pick([null, null, cost + 1n, BigInt(random.between(1, Math.max(Number(cost), 1)))])
    const order = { customerId, requestId, amountNanos, reason: 'sorry' }
    return {
      name: `refund ${shown(order)}`,
      inModel: () => model.refund(order),
      async inPostgres(): Promise<RefundVerdict> {
        const result = await refundRequest(database.pool, order)
        const refund = 'refund' in result ? result.refund : undefined
        return {
          kind: result.kind,
          amountNanos: refund?.amountNanos ?? null,
          hosterShareNanos: refund?.hosterShareNanos ?? null,
          feeNanos: refund?.feeNanos ?? null,
        }
      },
    }
  }

  /** A payment arrives, is refunded or disputed, or a dispute is won. */
  function paymentStep(): Step {
    const paid = [...model.tables.payments.values()].filter(({ customerId }) => customers.includes(customerId))
    const kind = random.pick(['pay', 'reverse', 'reverse', 'return'] as const)
    if (kind === 'pay' || paid.length === 0) {
      const isAgain = paid.length > 0 && random.chance(0.2)
      const payment = isAgain
        ? random.pick(paid)
        : { paymentId: idOf('payment', ids++), customerId: random.pick(customers), amount: creditOf() }
      return {
        name: `pay ${shown(payment)}`,
        inModel: () => [model.pay(payment)],
        inPostgres: async () => [await payInPostgres(payment)],
      }
    }
    if (kind === 'reverse') {
      const { paymentId, amount } = random.chance(0.95)
        ? random.pick(paid)
        : { paymentId: idOf('payment', ids++), amount: creditOf() }
      const again = random.chance(0.1)
        ? [...model.tables.reversals].find(([, row]) => row.paymentId === paymentId)
        : undefined
      const order = {
        reversalId: again?.[0] ?? idOf('reversal', ids++),
        paymentId,
        amount: random.pick([amount, amount, BigInt(random.between(1, Number(amount)))]),
        isDispute: random.chance(0.7),
      }
      return {
        name: `reverse ${shown(order)}`,
        inModel: () => [model.reversePayment(order)],
        async inPostgres() {
          const { rows } = await database.pool.query<{ verdict: string }>(
            "SELECT reverse_payment($1, $2, $3, NULL, $4, 'charged back') AS verdict",
            [order.reversalId, order.paymentId, order.amount, order.isDispute],
          )
          return [rows[0]!.verdict]
        },
      }
    }
    const taken = [...model.tables.reversals].filter(([, { paymentId }]) =>
      paid.some(row => row.paymentId === paymentId),
    )
    const reversalId = taken.length > 0 && random.chance(0.9) ? random.pick(taken)[0] : idOf('reversal', ids++)
    const resultOf = (isReturned: boolean) => [isReturned ? 'returned' : 'not_returned']
    return {
      name: `return ${reversalId}`,
      inModel: () => resultOf(model.returnReversal(reversalId)),
      async inPostgres() {
        const { rows } = await database.pool.query<{ done: boolean }>('SELECT return_reversal($1) AS done', [
          reversalId,
        ])
        return resultOf(rows[0]!.done)
      },
    }
  }

  async function payInPostgres({ paymentId, customerId, amount }: PaymentRow): Promise<string> {
    await database.pool.query("SELECT start_payment($1, $2, 'manual', $3, 1, 'usd', true, $4, $4, NULL, NULL, NULL)", [
      paymentId,
      customerId,
      amount,
      paymentId,
    ])
    const { rows } = await database.pool.query<{ verdict: string }>('SELECT book_manual_payment($1) AS verdict', [
      paymentId,
    ])
    return rows[0]!.verdict
  }

  /** The operations of requests with an Idempotency-Key, in any order. */
  function claimStep(): Step {
    const own = [...model.tables.claims.values()].filter(({ customerId }) => customers.includes(customerId))
    const existing = own.length > 0 && random.chance(0.8) ? random.pick(own) : undefined
    const known = [...requests, ...settled]
    const { customerId, requestId } =
      known.length > 0 && random.chance(0.8)
        ? random.pick(known)
        : { customerId: random.pick(customers), requestId: idOf('request', ids++) }
    const claim: Claim = {
      customerId: existing?.customerId ?? customerId,
      keyId: idOf('key', 0),
      key: existing?.key ?? `key ${random.between(1, 3)}`,
      bodyHash: Buffer.alloc(32, random.pick([1, 1, 1, 2])),
      requestId: existing !== undefined && random.chance(0.6) ? existing.requestId : requestId,
      modelId: 'small',
    }
    const nodeId = random.chance(0.2) ? idOf('node', 0) : random.pick(nodes)
    const kind = random.pick(['take', 'take', 'find', 'find', 'find', 'takeOver', 'finish', 'release', 'age'] as const)
    const name = `${kind} ${shown({ ...claim, bodyHash: claim.bodyHash[0], nodeId })}`
    switch (kind) {
      case 'take': {
        const resultOf = (isTaken: boolean) => (isTaken ? ['taken'] : ['not_taken'])
        return {
          name,
          inModel: () => resultOf(model.takeClaim(claim, nodeId)),
          inPostgres: async () => resultOf(await claims.take(claim, nodeId)),
        }
      }
      case 'find': {
        const resultOf = (found: Awaited<ReturnType<typeof claims.find>>) => [
          found,
          found && [
            found.isRunning ? 'running' : 'not_running',
            found.done && 'done',
            found.row && 'ended',
            !found.isSameBody && 'other_body',
          ],
        ]
        return {
          name,
          inModel: () => resultOf(model.findClaim(claim)),
          inPostgres: async () => resultOf(await claims.find(claim)),
        }
      }
      case 'takeOver': {
        const earlier = existing === undefined || random.chance(0.3) ? requestId : existing.requestId
        const resultOf = (isTaken: boolean) => (isTaken ? ['taken_over'] : ['not_taken_over'])
        return {
          name: `${name} from ${earlier}`,
          inModel: () => resultOf(model.takeOverClaim(claim, earlier, nodeId)),
          inPostgres: async () => resultOf(await claims.takeOver(claim, earlier, nodeId)),
        }
      }
      case 'finish': {
        const answerSealed = random.chance(0.5) ? Buffer.from(`answer ${ids++}`) : null
        const ending = { costNanos: BigInt(random.between(0, 1_000)), answerSealed }
        return {
          name: `${name} ${shown(ending.costNanos)}`,
          inModel: () => model.finishClaim(claim, ending),
          inPostgres: () => claims.finish(claim, ending),
        }
      }
      case 'release':
        return { name, inModel: () => model.releaseClaim(claim), inPostgres: () => claims.release(claim) }
      case 'age': {
        const hours = random.pick([2, 2, 25])
        return {
          name: `${hours} hours pass for the keys`,
          inModel() {
            for (const row of own as { heartbeats: number; expiresAtMs: number }[]) {
              row.heartbeats -= hours * 3_600
              row.expiresAtMs -= hours * 3_600_000
            }
          },
          async inPostgres() {
            await database.pool.query(
              `UPDATE idempotency SET heartbeats = heartbeats - $2 * 3600, expires_at = expires_at - $2 * interval '1 hour'
               WHERE customer_id = ANY ($1)`,
              [customers, hours],
            )
          },
        }
      }
    }
  }
}

type Key = Pick<Admission, 'keyId' | 'keyLimit'>

function keysOf(random: Random): Key[] {
  const limitNanos = BigInt(Math.round(random.skewed(100, 1_000_000)))
  const reset = random.pick(['none', 'daily', 'weekly', 'monthly'] as const)
  return [
    { keyId: idOf('key', ids++), keyLimit: null },
    { keyId: idOf('key', ids++), keyLimit: { limitNanos, reset } },
  ]
}

function limitsOf(random: Random) {
  return {
    requestsPerMinute: random.pick([1_000_000, random.between(1, 10), random.between(20, 60)]),
    requestsPerDay: random.pick([1_000_000, 1_000_000, random.between(1, 15), random.between(20, 300)]),
    dailySpendCapNanos: random.chance(0.6) ? 1_000_000_000_000n : BigInt(Math.round(random.skewed(100, 1_000_000))),
  }
}

async function outcomeOf(work: () => Promise<unknown>): Promise<unknown> {
  try {
    return { done: await work() }
  } catch (error) {
    const { name, code } = error as { name: string; code?: string }
    if (name === 'NodeFenced') return { refused: name }
    if (code === undefined) throw error
    return { refused: code }
  }
}

function sorted<Verdict extends { readonly item: number }>(verdicts: readonly Verdict[]): unknown[] {
  return [...verdicts]
    .sort((a, b) => a.item - b.item)
    .map(verdict =>
      'windows' in verdict ? { ...verdict, windows: sortedLeases(verdict.windows as StoredWindows) } : verdict,
    )
    .map(verdict =>
      'slots' in verdict && verdict.slots !== null
        ? { ...verdict, note: 'bulk' }
        : 'isHeldElsewhere' in verdict && verdict.isHeldElsewhere
          ? { ...verdict, note: 'held_elsewhere' }
          : verdict,
    )
}

function sortedLeases(windows: StoredWindows): StoredWindows {
  return { ...windows, ownLeases: windows.ownLeases.toSorted() }
}

function heartbeatOf({ recalled, others, ...heartbeat }: Heartbeat) {
  return { ...heartbeat, recalled: recalled.toSorted(), others: others.map(shown).sort() }
}

function shown(value: unknown): string {
  return JSON.stringify(value, (_key, part) =>
    typeof part === 'bigint' ? String(part) : part instanceof Map || part instanceof Set ? [...part.values()] : part,
  )
}

// ---------------------------------------------------------------- all rows of some customers, in the same form for both databases

function rowsInModel(customers: readonly string[]) {
  const { balances, leases, usage, entries, dayCaps, keySpend, refunds, reversals, payments, claims } = model.tables
  const isOurs = ({ customerId }: { readonly customerId: string }) => customers.includes(customerId)
  const sums = new Map<string, bigint>()
  for (const { kind, accountId, amount } of entries)
    if (customers.includes(accountId))
      sums.set(`${kind} ${accountId}`, (sums.get(`${kind} ${accountId}`) ?? 0n) + amount)
  return {
    balances: byText(
      [...balances.values()].filter(isOurs).map(row => ({ ...row, minute: finite(row.minute), day: finite(row.day) })),
    ),
    leases: byText(
      [...leases.values()]
        .filter(isOurs)
        .map(({ grantedAtMs: _, ...row }) => ({ ...row, keyWindow: windowDay(row.keyWindow) })),
    ),
    usage: byText(
      customers.flatMap(customerId =>
        [...(usage.get(customerId)?.values() ?? [])].map(({ txId, startedAtMs, ...row }) => ({
          ...row,
          isCharged: txId !== null,
          keyWindow: windowDay(row.keyWindow),
          startedAtMs: row.outcome === 'node_died' ? null : startedAtMs,
        })),
      ),
    ),
    daySpend: byText(
      customers.flatMap(customerId => {
        const spent = new Map<number, bigint>()
        const add = (day: number | null, amount: bigint) => {
          if (day !== null && day !== balances.get(customerId)?.day) spent.set(day, (spent.get(day) ?? 0n) + amount)
        }
        for (const row of usage.get(customerId)?.values() ?? []) add(row.capDay, row.cost)
        // Charges that are not folded yet.
        for (const lease of leases.values()) if (lease.customerId === customerId) add(lease.capDay, -lease.settled)
        for (const key of dayCaps.keys()) if (key.startsWith(customerId)) add(Number(key.split(' ')[1]), 0n)
        return [...spent]
          .map(([day, amount]) => ({ key: `${customerId} ${day}`, spent: amount }))
          .map(row => ({ ...row, cap: dayCaps.get(row.key) ?? null }))
          .filter(row => row.spent > 0n || row.cap !== null)
      }),
    ),
    keySpend: byText(
      [...keySpend]
        .filter(([key]) => customers.some(customerId => key.startsWith(customerId)))
        .map(([key, row]) => ({ key: key.replace('-Infinity', String(ALWAYS)), ...row })),
    ),
    refunds: byText(
      [...refunds.values()].filter(isOurs).map(({ txId, ...row }) => ({
        ...row,
        entries: entries
          .filter(entry => entry.txId === txId)
          .map(({ kind, accountId, amount }) => `${kind} ${accountId} ${amount}`)
          .sort(),
      })),
    ),
    reversals: byText(
      [...reversals.values()].filter(({ paymentId }) => isOurs(payments.get(paymentId)!)).map(row => ({ ...row })),
    ),
    claims: byText(
      [...claims.values()].filter(isOurs).map(({ expiresAtMs: _, bodyHash, done, ...row }) => ({
        ...row,
        body: bodyHash[0],
        cost: done?.costNanos ?? null,
        answer: done?.answerSealed?.toString() ?? null,
      })),
    ),
    entries: byText([...sums].filter(([, amount]) => amount !== 0n).map(([account, amount]) => ({ account, amount }))),
  }
}

async function rowsInPostgres(customers: readonly string[]) {
  const [balances, leases, usage, entries, daySpend, keySpend, refunds, reversals, claims] = await Promise.all(
    [BALANCES, LEASES, USAGE, ENTRIES, DAY_SPEND, KEY_SPEND, REFUNDS, REVERSALS, CLAIMS].map(
      async text => (await database.pool.query<object>(text, [customers])).rows,
    ),
  )
  return {
    balances: byText(balances!),
    leases: byText(leases!),
    usage: byText(usage!),
    entries: byText(entries!),
    daySpend: byText(daySpend!),
    keySpend: byText(keySpend!),
    refunds: byText(refunds!),
    reversals: byText(reversals!),
    claims: byText(claims!),
  }
}

const ALWAYS = -1_000_000

function windowDay(window: number | null): number | null {
  return window === -Infinity ? ALWAYS : window
}

const BALANCES = `
SELECT customer_id AS "customerId", posted_nanos AS posted, leased_nanos AS leased, debt_nanos AS debt,
  CASE WHEN isfinite(minute) THEN (extract(epoch FROM minute) * 1000)::float8 END AS minute, minute_requests AS "minuteRequests",
  CASE WHEN isfinite(day) THEN day - date '1970-01-01' END AS day, day_requests AS "dayRequests",
  day_spent_nanos AS "daySpent", day_leased_nanos AS "dayLeased", day_cap_nanos AS "dayCap"
FROM balance WHERE customer_id = ANY ($1)`

/** The window of a key's limit in days since the epoch. A limit that never starts again began at -infinity. */
const WINDOW_DAY = `CASE WHEN isfinite(key_window) THEN key_window - date '1970-01-01' WHEN key_window IS NOT NULL THEN ${ALWAYS} END AS "keyWindow"`

const LEASES = `
SELECT lease_id AS "leaseId", customer_id AS "customerId", node_id AS "nodeId", key_id AS "keyId", model_id AS "modelId",
  granted_nanos AS granted, settled_nanos AS settled, slots, slots_used AS "slotsUsed", owed_nanos AS owed, (extract(epoch FROM slot_minute) * 1000)::float8 AS "slotMinute", recalled,
  cap_day - date '1970-01-01' AS "capDay", ${WINDOW_DAY}
FROM lease WHERE customer_id = ANY ($1)`

const USAGE = `
SELECT customer_id AS "customerId", request_id AS "requestId", model_id AS "modelId", provider, hoster_id AS "hosterId",
  input_tokens AS "inputTokens", output_tokens AS "outputTokens", coalesce(cache_read_tokens, 0) AS "cachedTokens", hold_nanos AS hold, cost_nanos AS cost, hoster_share_nanos AS "hosterShare",
  fee_nanos AS fee, writeoff_nanos AS writeoff, latency_ms AS "latencyMs", success, outcome, cap_day - date '1970-01-01' AS "capDay",
  key_id AS "keyId", ${WINDOW_DAY}, tx_id IS NOT NULL AS "isCharged", CASE WHEN outcome <> 'node_died' THEN (extract(epoch FROM started_at) * 1000)::float8 END AS "startedAtMs"
FROM usage_event WHERE customer_id = ANY ($1)`

const DAY_SPEND = `
SELECT customer_id || ' ' || day - date '1970-01-01' AS key, spent_nanos AS spent, cap_nanos AS cap FROM day_spend WHERE customer_id = ANY ($1)`

const KEY_SPEND = `
SELECT customer_id || ' ' || key_id || ' ' || CASE WHEN isfinite(window_start) THEN window_start - date '1970-01-01' ELSE ${ALWAYS} END AS key,
  spent_nanos AS spent, leased_nanos AS leased
FROM key_spend WHERE customer_id = ANY ($1)`

const REFUNDS = `
SELECT customer_id AS "customerId", request_id AS "requestId", amount_nanos AS amount, hoster_share_nanos AS "hosterShare", fee_nanos AS fee,
  ARRAY(SELECT account_kind || ' ' || account_id || ' ' || amount_nanos FROM ledger_entry e WHERE e.tx_id = r.tx_id ORDER BY account_kind) AS entries
FROM refund r WHERE customer_id = ANY ($1)`

const REVERSALS = `
SELECT payment_id AS "paymentId", taken_nanos AS taken, returned_nanos AS returned FROM payment_reversal WHERE customer_id = ANY ($1)`

const CLAIMS = `
SELECT customer_id AS "customerId", key, request_id AS "requestId", node_id AS "nodeId", heartbeats, get_byte(body_hash, 0) AS body, cost_nanos AS cost,
  convert_from(answer_sealed, 'UTF8') AS answer
FROM idempotency WHERE customer_id = ANY ($1)`

const ENTRIES = `
SELECT account_kind || ' ' || account_id AS account, sum(amount_nanos)::bigint AS amount
FROM ledger_entry WHERE account_id = ANY ($1) GROUP BY 1 HAVING sum(amount_nanos) <> 0`

/**
 * The sums by hour and by day. Rows of the reaper begin at the real time, which the two databases read at
 * different moments.
 */
function sumsInModel(customers: readonly string[]) {
  const hours = new Map<string, bigint[]>()
  const days = new Map<string, bigint[]>()
  for (const row of model.tables.rollups.values()) {
    if (!customers.includes(row.customerId)) continue
    const {
      customerId,
      hour,
      modelId,
      provider,
      nodeShard,
      requests,
      successes,
      inputTokens,
      outputTokens,
      cost,
      hosterShare,
      fee,
      latencyMsSum,
      cachedTokens,
    } = row
    const [wholeHour, day] = hour < REAL_FROM_MS ? [hour, Math.floor(hour / 86_400_000)] : [null, null]
    add(hours, `${customerId} ${wholeHour} ${nodeShard}`, [
      requests,
      successes,
      inputTokens,
      outputTokens,
      cost,
      latencyMsSum,
    ])
    add(days, `${customerId} ${day} ${modelId} ${provider} ${nodeShard}`, [
      requests,
      successes,
      inputTokens,
      outputTokens,
      cost,
      hosterShare,
      fee,
      latencyMsSum,
      cachedTokens,
    ])
  }
  return { hours: table(hours), days: table(days) }
}

async function sumsInPostgres(customers: readonly string[]) {
  const hours = new Map<string, bigint[]>()
  const days = new Map<string, bigint[]>()
  type Row = { readonly key: string } & Record<string, string | bigint>
  for (const [sums, text] of [
    [hours, HOURS],
    [days, DAYS],
  ] as const) {
    const { rows } = await database.pool.query<Row>(text, [customers, new Date(REAL_FROM_MS)])
    for (const { key, ...amounts } of rows) add(sums, key, Object.values(amounts) as bigint[])
  }
  return { hours: table(hours), days: table(days) }
}

const REAL_FROM_MS = Date.UTC(2026, 5, 1)

const HOURS = `
SELECT customer_id || ' ' || CASE WHEN hour < $2 THEN (extract(epoch FROM hour)::bigint * 1000)::text ELSE 'null' END || ' ' || node_shard AS key,
  requests, successes, input_tokens, output_tokens, cost_nanos, latency_ms_sum
FROM usage_hour WHERE customer_id = ANY ($1)`

const DAYS = `
SELECT customer_id || ' ' || CASE WHEN day < $2::timestamptz::date THEN (day - date '1970-01-01')::text ELSE 'null' END || ' ' || model_id || ' ' || provider || ' ' || node_shard AS key,
  requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, cached_tokens
FROM usage_day WHERE customer_id = ANY ($1)`

function add(sums: Map<string, bigint[]>, key: string, amounts: readonly (number | bigint)[]): void {
  const before = sums.get(key)
  sums.set(
    key,
    amounts.map((amount, index) => BigInt(amount) + (before?.[index] ?? 0n)),
  )
}

function table(sums: Map<string, bigint[]>): [string, bigint[]][] {
  return [...sums].filter(([, amounts]) => amounts.some(amount => amount !== 0n)).sort(([a], [b]) => (a < b ? -1 : 1))
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null
}

/** Sorts rows, and their columns, in an order that depends only on their content. */
function byText(rows: readonly object[]): object[] {
  const texts = rows.map(row => {
    const sortedRow = Object.fromEntries(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)))
    return { row: sortedRow, text: shown(sortedRow) }
  })
  return texts.sort((a, b) => (a.text < b.text ? -1 : 1)).map(({ row }) => row)
}
