import { randomUUIDv7 } from 'node:crypto'
import { inspect, isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Pool } from '../../src/base/db/pool.ts'
import type { AccountLimits, KeyLimit } from '../../src/base/domain/caller.ts'
import { type Scheduler, systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { reclaimDeadLeases } from '../../src/money/ledger/leases/reclaim-dead-leases.ts'
import { createLedger, type Ledger } from '../../src/money/ledger/ledger.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { rounds } from '../harness/rounds.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, createLedgerWorld, type LedgerWorld, settle, settlementOf } from './ledger-world.ts'
import {
  type Account,
  type Command,
  dayLeased,
  isRateRefusal,
  keyLeased,
  leased,
  newAccount,
  outcomes,
  refusedOnce,
  type Seen,
} from './oracle.ts'

const DATABASES = 4
const SEQUENCES_EACH = rounds(80)
const COMMANDS_MAX = 60

/**
 * Sends random commands, up to four at once from two nodes, to PostgreSQL and to the oracle. Whatever the
 * order in which they took effect, there must be an order in which the oracle answers each of them as the
 * ledger did and ends with the same balance, to the nano-USD.
 */
test(`the oracle explains ${DATABASES * SEQUENCES_EACH} random concurrent sequences`, async () => {
  await Promise.all(
    Array.from({ length: DATABASES }, async (_, database) => {
      const world = await createLedgerWorld()
      try {
        await fc.assert(
          fc.asyncProperty(sequences, steps => explain(world, steps)),
          { numRuns: SEQUENCES_EACH, seed: 20_261_121 + database, endOnFailure: true },
        )
      } finally {
        await world.drop()
      }
    }),
  )
  // A busy machine takes more than two minutes.
}, 400_000)

/** A command that is made before the existing requests are known: `pick` chooses one of them. */
type Operation =
  | { kind: 'open'; credit: bigint }
  | { kind: 'credit'; ref: number; amount: bigint }
  | { kind: 'admit'; node: number; want: bigint; floor: bigint; isLimited: boolean }
  | { kind: 'count'; node: number }
  | { kind: 'admitAgain'; node: number; pick: number }
  | { kind: 'settle'; node: number; pick: number; percent: bigint }
  | { kind: 'release'; pick: number }
  | { kind: 'refund'; pick: number; percent: bigint | null }
  | { kind: 'nodeDies'; node: number }

type Step = { kind: 'clock'; byMs: number } | { kind: 'burst'; operations: Operation[] }

const node = fc.integer({ min: 0, max: 1 })
const pick = fc.nat(1_000)
const amount = fc.bigInt(1n, 1_000n)
const percent = fc.constantFrom(0n, 30n, 99n, 100n, 100n, 150n)

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('open' as const), credit: fc.constantFrom(0n, 500n, 5_000n) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('credit' as const),
      ref: fc.nat(3),
      amount: fc.constantFrom(100n, 2_000n),
    }),
  },
  {
    weight: 6,
    arbitrary: amount.chain(want =>
      fc.record({
        kind: fc.constant('admit' as const),
        node,
        want: fc.constant(want),
        floor: fc.constant(want),
        isLimited: fc.boolean(),
      }),
    ),
  },
  {
    weight: 3,
    arbitrary: amount.chain(want =>
      fc.record({
        kind: fc.constant('admit' as const),
        node,
        want: fc.constant(want),
        floor: fc.bigInt(0n, want),
        isLimited: fc.boolean(),
      }),
    ),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('count' as const), node }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('admitAgain' as const), node, pick }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('settle' as const), node, pick, percent }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const), pick }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('refund' as const),
      pick,
      percent: fc.constantFrom(null, null, 1n, 33n, 100n, 101n),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('nodeDies' as const), node }) },
)

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('burst' as const),
      operations: fc.array(operation, { minLength: 1, maxLength: 4, size: 'max' }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('clock' as const),
      byMs: fc.constantFrom(-40_000, 1_000, 25_000, 60_000, 3_600_000, 86_400_000),
    }),
  },
)

const sequences = fc.record({
  steps: fc.array(step, { minLength: 4, maxLength: 30, size: 'max' }),
  opensWith: fc.option(fc.constantFrom(0n, 300n, 5_000n), { nil: undefined }),
  limits: fc.constantFrom(
    { requestsPerMinute: 1_000, requestsPerDay: 1_000, dailySpendCapNanos: 1_000_000n },
    { requestsPerMinute: 4, requestsPerDay: 1_000, dailySpendCapNanos: 1_500n },
    { requestsPerMinute: 1_000, requestsPerDay: 9, dailySpendCapNanos: 800n },
  ),
  keyLimit: fc.record({
    limitNanos: fc.constantFrom(0n, 600n, 1_500n),
    reset: fc.constantFrom('none' as const, 'daily' as const, 'weekly' as const, 'monthly' as const),
  }),
})

type Sequence = typeof sequences extends fc.Arbitrary<infer T> ? T : never

async function explain(world: LedgerWorld, { steps, opensWith, limits, keyLimit }: Sequence): Promise<void> {
  const run = await startRun(world, limits, keyLimit)
  let accounts = [newAccount()]
  if (opensWith !== undefined) {
    await openAccount(world.pool, run.customerId, opensWith)
    accounts = outcomes(accounts[0]!, { kind: 'open', credit: opensWith }).map(({ account }) => account)
  }
  let commandsLeft = COMMANDS_MAX
  for (const step of steps) {
    if (step.kind === 'clock') {
      run.nowMs += step.byMs
      run.monotonicMs += Math.max(step.byMs, 0)
      continue
    }
    const commands = commandsFor(run, step.operations.slice(0, commandsLeft))
    commandsLeft -= commands.length
    const seen = await Promise.all(commands.map(command => carryOut(run, command)))
    const explanations = accounts.flatMap(account => ordersThatExplain(account, commands, seen))
    const balance = await balanceRow(world.pool, run.customerId)
    accounts = distinct(explanations.filter(account => isDeepStrictEqual(balanceOf(account), balance)))
    if (accounts.length === 0) {
      const facts = { before: accounts, commands, seen, balance, expected: distinct(explanations).map(balanceOf) }
      throw new Error(`no order of the commands explains what happened: ${inspect(facts, { depth: 6 })}`)
    }
  }
  const rows = await leasesAndUsage(world.pool, run.customerId)
  const expected = accounts.map(leasesAndUsageOf)
  if (!expected.some(candidate => isDeepStrictEqual(candidate, rows))) expect(rows).toEqual(expected[0])
  // A request that is admitted again after its charge has a lease, and no living node ends it here. On a busy machine the leases of earlier
  // sequences become older than the audit allows.
  await world.pool.query("UPDATE lease SET granted_at = now() + interval '1 hour'")
  expect(await world.violations()).toEqual([])
}

interface Run {
  readonly world: LedgerWorld
  readonly customerId: string
  readonly limits: AccountLimits
  /** A key with a spend limit. Some of the requests use it. */
  readonly keyId: string
  readonly keyLimit: KeyLimit
  readonly nodes: readonly { nodeId: string }[]
  readonly ledgers: readonly Ledger[]
  /** The clock of the windows, which may step back, and the clock that may not. */
  nowMs: number
  monotonicMs: number
  /** Every request that ever held money, with the hold it was given. */
  readonly requests: Map<string, { admission: Admission; heldNanos: bigint; isAgain: boolean }>
}

async function startRun(world: LedgerWorld, limits: AccountLimits, keyLimit: KeyLimit): Promise<Run> {
  const customerId = await world.addCustomer()
  const { keyId } = await issueKey(world.pool, { customerId, name: 'limited', limit: keyLimit })
  const nodes = [0, 1].map(() => ({ nodeId: randomUUIDv7(), mayAdmit: () => true, hasPeers: () => false }))
  for (const { nodeId } of nodes) await storeOf(world.pool).registerNode(nodeId)
  const scheduler: Scheduler = { ...systemScheduler, epochMs: () => run.nowMs, monotonicMs: () => run.monotonicMs }
  const store = createPostgresStore({ money: world.pool, heartbeat: world.pool, windowClock: () => run.nowMs })
  const run: Run = {
    world,
    limits,
    keyId,
    keyLimit,
    nodes,
    customerId,
    ledgers: nodes.map((node, nodeShard) =>
      createLedger({ store, node, nodeShard, scheduler, newId: randomUUIDv7, journal: null, bulkLeases: false }),
    ),
    nowMs: Date.UTC(2026, 10, 21, 22, 58, 30),
    monotonicMs: 0,
    requests: new Map(),
  }
  return run
}

function commandsFor(run: Run, operations: readonly Operation[]): Command[] {
  const requests = [...run.requests.values()]
  const commands = operations.flatMap((operation): Command[] => {
    if (operation.kind === 'open' || operation.kind === 'nodeDies') return [operation]
    if (operation.kind === 'credit') return [{ ...operation, ref: `${run.customerId} ${operation.ref}` }]
    if (operation.kind === 'admit' || operation.kind === 'count') {
      const ask = operation.kind === 'count' ? null : { wantNanos: operation.want, floorNanos: operation.floor }
      const key = operation.kind === 'admit' && operation.isLimited ? { keyId: run.keyId, keyLimit: run.keyLimit } : {}
      const admission = admissionOf(run.customerId, null, { limits: run.limits, ask, ...key })
      return [{ kind: 'admit', node: operation.node, admission, nowMs: run.nowMs }]
    }
    if (requests.length === 0) return []
    const { admission, heldNanos } = requests[operation.pick % requests.length]!
    const { requestId } = admission
    if (operation.kind === 'admitAgain') return [{ kind: 'admit', node: operation.node, admission, nowMs: run.nowMs }]
    if (operation.kind === 'release') return [{ kind: 'release', requestId }]
    if (operation.kind === 'refund') {
      const amount = operation.percent === null ? null : (heldNanos * operation.percent) / 100n + 1n
      return [{ kind: 'refund', requestId, amount }]
    }
    const chargeNanos = (heldNanos * operation.percent) / 100n + (operation.percent > 100n ? 1n : 0n)
    const settlement = settlementOf(admission, heldNanos, chargeNanos, { startedAtEpochMs: run.nowMs })
    return [{ kind: 'settle', node: operation.node, settlement, keyLimit: admission.keyLimit }]
  })
  // Leaves out what never happens, and what has another effect in one batch than in sequence: a repeated
  // admission together with the first one, two concurrent settlements of a request that is admitted again,
  // perhaps after its node was declared dead, and two deaths of a node.
  const admitted = commands.filter(command => command.kind === 'admit').map(idOf)
  const isAgain = (id: string) => run.requests.get(id)?.isAgain === true || admitted.includes(id)
  return commands.filter((command, i) => {
    const twin = commands.slice(0, i).find(earlier => earlier.kind === command.kind && idOf(earlier) === idOf(command))
    if (twin === undefined || command.kind === 'nodeDies') return twin === undefined
    return !(command.kind === 'admit' || (command.kind === 'settle' && isAgain(idOf(command))))
  })
}

function idOf(command: Command): string {
  if (command.kind === 'admit') return command.admission.requestId
  if (command.kind === 'nodeDies') return String(command.node)
  return command.kind === 'settle' ? command.settlement.requestId : ''
}

async function carryOut(run: Run, command: Command): Promise<Seen> {
  const { pool } = run.world
  switch (command.kind) {
    case 'open':
      return (await openAccount(pool, run.customerId, command.credit)) ? 'credited' : 'not credited'
    case 'credit': {
      const result = await grantCredit(pool, {
        customerId: run.customerId,
        amountNanos: command.amount,
        ref: command.ref,
        reason: 'a test',
      })
      return 'postedNanos' in result ? `${result.kind} ${result.postedNanos}` : result.kind
    }
    case 'admit': {
      const result = await run.ledgers[command.node]!.admit(command.admission).catch(noAccount)
      if (typeof result === 'object' && result.kind === 'granted') {
        const { requestId } = command.admission
        const isAgain = run.requests.has(requestId)
        run.requests.set(requestId, { admission: command.admission, heldNanos: result.hold.nanos, isAgain })
      }
      return result
    }
    case 'settle':
      return settle(run.ledgers[command.node]!, command.settlement).then(done, noAccount)
    case 'release':
      // A node tries again each second while another session has locked the balance.
      while ((await storeOf(pool).release([command.requestId])).get(command.requestId) === 'locked');
      return 'done'
    case 'refund': {
      const order = { customerId: run.customerId, requestId: command.requestId, reason: 'a test' }
      const result = await refundRequest(pool, { ...order, amountNanos: command.amount })
      return 'refund' in result ? `${result.kind} ${result.refund.amountNanos}` : result.kind
    }
    case 'nodeDies':
      await killNode(pool, run.nodes[command.node]!)
      return 'done'
  }
}

/** Registers the node again under a new id, as a fenced node does. */
async function killNode(pool: Pool, node: { nodeId: string }): Promise<void> {
  const store = storeOf(pool)
  await store.retireNode(node.nodeId)
  await reclaimDeadLeases(pool, { nodeShard: 9 })
  // Admissions in between are fenced and tried again until the new id is registered.
  const newId = randomUUIDv7()
  await store.registerNode(newId)
  node.nodeId = newId
}

const done = () => 'done'

function noAccount(error: Error): string {
  if (!error.message.includes('has no account')) throw error
  return 'no account'
}

/**
 * The states that the oracle can reach by running the commands in an order that gives each command its actual
 * answer.
 */
function ordersThatExplain(account: Account, commands: readonly Command[], seen: readonly Seen[]): Account[] {
  if (commands.length === 0) return [account]
  return commands.flatMap((command, i) => {
    const again = refusedOnce(account, command)
    const accounts = outcomes(account, command)
      .filter(outcome => isSame(outcome.seen, seen[i]!))
      .flatMap(outcome => ordersThatExplain(outcome.account, commands.toSpliced(i, 1), seen.toSpliced(i, 1)))
    if (again) accounts.push(...ordersThatExplain(again.account, commands.with(i, again.command), seen))
    return accounts
  })
}

function isSame(expected: Seen, seen: Seen): boolean {
  // The amounts in a refusal by a request limit may be from earlier in the minute.
  if (isRateRefusal(expected) && isRateRefusal(seen)) {
    return isDeepStrictEqual({ ...(expected as object), ...noAmounts }, { ...(seen as object), ...noAmounts })
  }
  return isDeepStrictEqual(expected, seen)
}

const noAmounts = { postedNanos: 0n, freeNanos: 0n, capLeftNanos: 0n, key: null }

async function balanceRow(pool: Pool, customerId: string) {
  const { rows } = await pool.query(
    `SELECT posted_nanos AS posted, leased_nanos AS leased, day_spent_nanos AS "daySpent", day_leased_nanos AS "dayLeased",
      minute_requests AS "minuteRequests", day_requests AS "dayRequests"
    FROM balance WHERE customer_id = $1`,
    [customerId],
  )
  const keys = await pool.query<{ spent: bigint; leased: bigint }>(
    `SELECT spent_nanos AS spent, leased_nanos AS leased FROM key_spend
    WHERE customer_id = $1 AND (spent_nanos, leased_nanos) <> (0, 0) ORDER BY window_start`,
    [customerId],
  )
  return rows[0] && { ...rows[0], keys: keys.rows }
}

function balanceOf(account: Account) {
  if (!account.open) return undefined
  const { posted, daySpent, minuteRequests, dayRequests } = account
  const windows = new Set([...account.keySpent.keys(), ...[...account.leases.values()].map(lease => lease.keyWindow)])
  const keys = [...windows]
    .filter(window => window !== null)
    .sort((a, b) => (a < b ? -1 : 1))
    .map(window => ({ spent: account.keySpent.get(window) ?? 0n, leased: keyLeased(account, window) }))
    .filter(({ spent, leased }) => spent > 0n || leased > 0n)
  return { posted, leased: leased(account), daySpent, dayLeased: dayLeased(account), minuteRequests, dayRequests, keys }
}

async function leasesAndUsage(pool: Pool, customerId: string) {
  const leases = await pool.query<{ id: string; granted: bigint }>(
    'SELECT lease_id AS id, granted_nanos AS granted FROM lease WHERE customer_id = $1 ORDER BY lease_id',
    [customerId],
  )
  const usage = await pool.query<{ id: string }>(
    `SELECT u.request_id AS id, u.outcome, u.hold_nanos AS hold, u.cost_nanos AS cost, u.hoster_share_nanos AS share,
      u.writeoff_nanos AS writeoff, coalesce(r.amount_nanos, 0) AS refunded, coalesce(r.hoster_share_nanos, 0) AS "refundedShare",
      u.cap_day - date '1970-01-01' AS "capDay"
    FROM usage_event u LEFT JOIN refund r USING (customer_id, request_id) WHERE u.customer_id = $1 ORDER BY u.request_id`,
    [customerId],
  )
  return { leases: leases.rows, usage: usage.rows }
}

function leasesAndUsageOf(account: Account) {
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)
  return {
    leases: [...account.leases].map(([id, { granted }]) => ({ id, granted })).sort(byId),
    usage: [...account.usage].map(([id, { keyWindow: _, ...row }]) => ({ id, ...row })).sort(byId),
  }
}

function distinct(accounts: readonly Account[]): Account[] {
  return accounts.filter((account, i) => accounts.findIndex(other => isDeepStrictEqual(account, other)) === i)
}
