import { randomUUID } from 'node:crypto'
import { inspect, isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { commandLine } from '../../src/base/domain/acting.ts'
import { splitCost } from '../../src/base/domain/money.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { foldHosterDays, listFunds, moveEarnings } from '../../src/money/payouts/earnings.ts'
import { setHosterCustomer } from '../../src/money/payouts/payout-accounts.ts'
import {
  approvePayouts,
  cancelPayouts,
  clawBack,
  freezePayouts,
  returnClawback,
  settleBankPayout,
} from '../../src/money/payouts/payout-batches.ts'
import { createPayoutSync } from '../../src/money/payouts/payout-sync.ts'
import { rounds } from '../harness/rounds.ts'
import { HOSTER_SHARE_BPS } from '../ledger/ledger-world.ts'
import {
  apply,
  balanceOf,
  type Command,
  DISPUTED,
  HOLD_DAYS,
  heldOf,
  MINIMUM,
  type Seen,
  type State,
} from './oracle.ts'
import { createPayoutWorld, csv, DAY_MS, noWait, type PayoutWorld, rules, START_MS, USD } from './payout-world.ts'

const DATABASES = 2
const HISTORIES_EACH = rounds(40)

/**
 * Sends random commands, up to three at once, to PostgreSQL and to the oracle. There must be an order in which the oracle gives
 * each command the answer that its caller saw, and ends with the same money. The audit passes after each history.
 */
test(`the oracle explains ${DATABASES * HISTORIES_EACH} random histories of payouts`, async () => {
  await Promise.all(
    Array.from({ length: DATABASES }, async (_, database) => {
      const world = await createPayoutWorld()
      try {
        await fc.assert(
          fc.asyncProperty(histories, history => explain(world, history)),
          { numRuns: HISTORIES_EACH, seed: 20_261_125 + database, endOnFailure: true, examples: [[everyBankResult]] },
        )
      } finally {
        await world.drop()
      }
    }),
  )
  expect([...reached].sort()).toEqual(expect.arrayContaining(everyOutcome))
  // A busy machine takes more than two minutes.
}, 400_000)

/** Answers and states that the histories came across, so that no part of them is skipped unnoticed. */
const reached = new Set<string>()
const everyOutcome = [
  ...['approved', 'sending', 'paid', 'failed', 'returned', 'cancelled', 'prepared'].map(state => `payout ${state}`),
  ...['prepared', 'frozen', 'below_minimum'].map(verdict => `prepare ${verdict}`),
  ...['moved', 'frozen', 'not_enough'].map(verdict => `move ${verdict}`),
  ...['taken', 'above_dispute', 'above_earnings'].map(verdict => `clawback ${verdict}`),
  ...['booked', 'unchanged', 'not_sent'].map(verdict => `bank ${verdict}`),
  ...['refund refunded', 'refund duplicate', 'return true', 'return false', 'a hoster owes something'],
]

function noteReached(commands: readonly Command[], seen: readonly Seen[], state: State): void {
  for (const [i, { kind }] of commands.entries()) {
    const { answer } = seen[i]!
    const words = Array.isArray(answer)
      ? answer.map(line => String(line).split(' ')[1]!)
      : [String(answer).split(' ')[0]!]
    for (const word of words) reached.add(`${kind} ${word}`)
  }
  for (const payout of state.payouts.values()) reached.add(`payout ${payout.state}`)
  for (const each of state.hosters.values()) if (balanceOf(each) < 0n) reached.add('a hoster owes something')
}

const hoster = fc.integer({ min: 0, max: 1 })
const pick = fc.nat(1_000)
const amount = fc.constantFrom(5_000_000n, 123_456_789n, USD, 1_700_000_001n)

/** A command that is made before the ids are known: `pick` chooses one of what exists. */
const operation = fc.oneof(
  {
    weight: 7,
    arbitrary: fc.record({
      kind: fc.constant('charge' as const),
      hoster,
      daysAgo: fc.constantFrom(0, 3, 14, 15, 20, 30),
      amount,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('refund' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('freeze' as const), hoster, isFrozen: fc.boolean() }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('clawback' as const), hoster, amount, isDispute: fc.boolean() }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('return' as const), pick }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('move' as const), hoster, amount: fc.option(amount, { nil: null }) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('prepare' as const) }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constantFrom('approve' as const, 'settle' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), pick }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('bank' as const), pick, isPaid: fc.boolean() }) },
)
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never

const histories = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant('burst' as const),
        operations: fc.array(operation, { minLength: 1, maxLength: 3, size: 'max' }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('days' as const), days: fc.integer({ min: 1, max: 15 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('fold' as const) }) },
  ),
  { minLength: 15, maxLength: 40, size: 'max' },
)
type History = typeof histories extends fc.Arbitrary<infer T> ? T : never

/** A transfer that fails, is reported twice, arrives after all and is returned. Random histories do not always reach each of these. */
const bankSteps: readonly Operation[] = [
  { kind: 'charge', hoster: 0, daysAgo: 20, amount: 1_700_000_001n },
  { kind: 'prepare' },
  { kind: 'approve', pick: 1 },
  { kind: 'settle', pick: 1 },
  { kind: 'bank', pick: 1, isPaid: false },
  { kind: 'bank', pick: 1, isPaid: false },
  { kind: 'bank', pick: 1, isPaid: true },
  { kind: 'bank', pick: 1, isPaid: false },
]
const everyBankResult: History = bankSteps.map(step => ({ kind: 'burst', operations: [step] }))

interface Run {
  readonly world: PayoutWorld
  readonly payer: string
  readonly earner: string
  readonly hosters: readonly string[]
  readonly dispute: string
  readonly requests: { request: string; hoster: string; day: number; share: bigint }[]
  nowMs: number
}

async function explain(world: PayoutWorld, history: History): Promise<void> {
  const run = await startRun(world)
  let states: State[] = [
    {
      hosters: new Map(run.hosters.map(id => [id, { days: new Map(), movements: 0n, isFrozen: false }])),
      payouts: new Map(),
      refunded: new Set(),
      clawbacks: new Map(),
      credit: 0n,
    },
  ]
  for (const step of history) {
    if (step.kind === 'days') run.nowMs += step.days * DAY_MS
    else if (step.kind === 'fold') await foldHosterDays(world.pool)
    else {
      const commands = commandsFor(run, states[0]!, step.operations)
      const seen = await Promise.all(commands.map(command => carryOut(run, command)))
      const explained = states.flatMap(state => ordersThatExplain(state, commands, seen))
      const money = await moneyOf(run)
      states = distinct(explained.filter(state => isDeepStrictEqual(expectedMoney(run, state), money)))
      if (states.length > 0) noteReached(commands, seen, states[0]!)
      else {
        const expected = distinct(explained).map(state => expectedMoney(run, state))
        throw new Error(
          `no order explains what happened: ${inspect({ commands, seen, money, expected }, { depth: 6 })}`,
        )
      }
    }
  }
  expect(await world.violations()).toEqual([])
}

async function startRun(world: PayoutWorld): Promise<Run> {
  // The hosters of earlier histories are in no batch of this one.
  await world.pool.query('UPDATE hoster SET payout_frozen_at = now()')
  const hosters = [await world.addHoster(), await world.addHoster()]
  const payer = await world.addCustomer(1_000n * USD)
  const earner = await world.addCustomer()
  await openAccount(world.pool, earner, 0n)
  for (const id of hosters) await setHosterCustomer(world.pool, id, earner, commandLine, noWait)
  const paymentId = randomUUID()
  await world.pool.query("SELECT start_payment($1, $2, 'manual', $3, 150, 'usd', true, $4, NULL, NULL, NULL, NULL)", [
    paymentId,
    payer,
    DISPUTED,
    paymentId,
  ])
  await world.pool.query('SELECT book_manual_payment($1)', [paymentId])
  const dispute = randomUUID()
  await world.pool.query("SELECT reverse_payment($1, $2, $3, NULL, true, 'stolen card')", [
    dispute,
    paymentId,
    DISPUTED,
  ])
  return { world, payer, earner, hosters, dispute, requests: [], nowMs: START_MS }
}

const dayOf = (ms: number) => Math.floor(ms / DAY_MS)

function commandsFor(run: Run, state: State, operations: readonly Operation[]): Command[] {
  /** Chooses, three times out of four, a payout on which the command has an effect, if there is one. */
  const payoutIn = (index: number, wanted: readonly string[]) => {
    const all = [...state.payouts]
    const fitting = all.filter(([, payout]) => wanted.includes(payout.state))
    return all.length === 0 ? undefined : chosen(index % 4 === 0 || fitting.length === 0 ? all : fitting, index)
  }
  const clawbacks = [...state.clawbacks.keys()]
  const chosen = <T>(list: readonly T[], index: number) => list[index % list.length]!
  return operations.flatMap((operation): Command[] => {
    switch (operation.kind) {
      case 'charge': {
        const { hosterShareNanos: share } = splitCost(operation.amount, HOSTER_SHARE_BPS)
        const { hoster, daysAgo, amount: nanos } = operation
        return [{ kind: 'charge', hoster: run.hosters[hoster]!, day: dayOf(run.nowMs) - daysAgo, nanos, share }]
      }
      case 'refund':
        return run.requests.length === 0 ? [] : [{ kind: 'refund', ...chosen(run.requests, operation.pick) }]
      case 'freeze':
      case 'clawback':
      case 'move':
        return [{ ...operation, hoster: run.hosters[operation.hoster]! }]
      case 'return':
        return clawbacks.length === 0 ? [] : [{ kind: 'return', clawback: chosen(clawbacks, operation.pick) }]
      case 'prepare':
        return [{ kind: 'prepare', day: dayOf(run.nowMs) }]
      case 'bank': {
        const found = payoutIn(operation.pick, ['sending', 'paid', 'failed'])
        return found === undefined ? [] : [{ kind: 'bank', payout: found[0], isPaid: operation.isPaid }]
      }
      default: {
        const found = payoutIn(operation.pick, [operation.kind === 'approve' ? 'prepared' : 'approved'])
        return found === undefined ? [] : [{ kind: operation.kind, batch: found[1].batch }]
      }
    }
  })
}

async function carryOut(run: Run, command: Command): Promise<Seen> {
  const { pool } = run.world
  switch (command.kind) {
    case 'charge': {
      const request = await run.world.charge(run.payer, command.hoster, command.day * DAY_MS, command.nanos)
      run.requests.push({ request, hoster: command.hoster, day: command.day, share: command.share })
      return { answer: 'charged' }
    }
    case 'refund': {
      const order = { customerId: run.payer, requestId: command.request, amountNanos: null, reason: 'a test' }
      return { answer: (await refundRequest(pool, order)).kind }
    }
    case 'freeze': {
      const { hoster: hosterId, isFrozen } = command
      return { answer: await freezePayouts(pool, null, { hosterId, isFrozen, reason: 'a test' }) }
    }
    case 'clawback': {
      const id = randomUUID()
      const { hoster: hosterId, amount: amountNanos, isDispute } = command
      const reversalId = isDispute ? run.dispute : null
      return {
        id,
        answer: await clawBack(pool, null, { clawbackId: id, hosterId, amountNanos, reversalId, reason: 'x' }),
      }
    }
    case 'return':
      return { answer: await returnClawback(pool, null, command.clawback, 'a test') }
    case 'move': {
      const order = { moveId: randomUUID(), hosterId: command.hoster, amountNanos: command.amount }
      const { verdict, amount } = await moveEarnings(pool, order, commandLine, run.nowMs)
      return { answer: `${verdict} ${amount}` }
    }
    case 'prepare': {
      const { batchId, hosters } = await run.world.prepare(run.nowMs, { holdDays: HOLD_DAYS, minNanos: MINIMUM })
      const own = hosters.filter(({ hosterId }) => run.hosters.includes(hosterId))
      const payouts = new Map(
        own.flatMap(({ hosterId, payoutId }) => (payoutId === null ? [] : [[hosterId, payoutId]])),
      )
      const answer = own
        .toSorted((a, b) => (a.hosterId < b.hosterId ? -1 : 1))
        .map(each => `${each.hosterId} ${each.verdict} ${each.amountNanos} ${each.payableNanos}`)
      return { answer, payouts, ...(batchId !== null && { id: batchId }) }
    }
    case 'approve':
      return { answer: await approvePayouts(pool, null, command.batch) }
    case 'settle': {
      const log = { warn: () => {} }
      await createPayoutSync({ pool, clock: systemClock, drivers: [csv], rules, log }).settle(command.batch)
      return { answer: 'settled' }
    }
    case 'bank':
      return { answer: await settleBankPayout(pool, null, command.payout, command.isPaid ? null : 'account closed') }
    case 'cancel':
      return { answer: await cancelPayouts(pool, null, command.batch) }
  }
}

/** The states that the oracle reaches by carrying out the commands in an order that gives each its answer. */
function ordersThatExplain(state: State, commands: readonly Command[], seen: readonly Seen[]): State[] {
  if (commands.length === 0) return [state]
  return commands.flatMap((command, i) => {
    const outcome = apply(state, command, seen[i]!)
    if (!isDeepStrictEqual(outcome.answer, seen[i]!.answer)) return []
    return ordersThatExplain(outcome.state, commands.toSpliced(i, 1), seen.toSpliced(i, 1))
  })
}

async function moneyOf(run: Run) {
  const { pool } = run.world
  const funds = (await listFunds(pool, HOLD_DAYS, run.nowMs)).filter(({ hosterId }) => run.hosters.includes(hosterId))
  const payouts = await pool.query<{ id: string; state: string }>(
    'SELECT payout_id AS id, state FROM payout WHERE hoster_id = ANY ($1) ORDER BY payout_id',
    [run.hosters],
  )
  const credit = await pool.query<{ posted: bigint }>(
    'SELECT posted_nanos AS posted FROM balance WHERE customer_id = $1',
    [run.earner],
  )
  return {
    funds: new Map(funds.map(each => [each.hosterId, `${each.balanceNanos} ${each.heldNanos} ${each.payableNanos}`])),
    payouts: payouts.rows.map(({ id, state }) => `${id} ${state}`),
    credit: credit.rows[0]!.posted,
  }
}

function expectedMoney(run: Run, state: State) {
  const today = dayOf(run.nowMs)
  return {
    funds: new Map(
      [...state.hosters].map(([id, each]) => {
        const [balance, held] = [balanceOf(each), heldOf(each, today)]
        return [id, `${balance} ${held} ${balance - held}`]
      }),
    ),
    payouts: [...state.payouts].map(([id, payout]) => `${id} ${payout.state}`).sort(),
    credit: state.credit,
  }
}

function distinct(states: readonly State[]): State[] {
  return states.filter((state, i) => states.findIndex(other => isDeepStrictEqual(state, other)) === i)
}
