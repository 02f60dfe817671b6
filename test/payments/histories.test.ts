import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { encodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settlementOf, useLedgerWorld, useNode } from '../ledger/ledger-world.ts'

// Random histories of payments, their reversals, disputes, vouchers, grants, automatic top-ups and requests, against an oracle in
// memory. The steps of a wave run at the same time. What each step achieved is known from its result, so the oracle knows what
// the customer owns, whatever the order: credit given, less what was taken back, less what requests cost.

const world = useLedgerWorld()
const node = useNode(world)
const CENT = 10_000_000n
const AUTO_AMOUNT = 7n
const AUTO_MAX = 20n

/** What the provider reports about a payment, and what it would report now. */
interface Payment {
  readonly id: string
  readonly driver: 'manual' | 'stripe'
  readonly cents: bigint
  /** Taxes on top, in cents. */
  readonly tax: bigint
  readonly isAuto: boolean
  state: 'open' | 'failed' | 'paid'
  /** Cents that went back to the payer, by name; 0 when they came back. */
  readonly reversals: Map<string, { readonly kind: 'refund' | 'dispute'; cents: bigint }>
  /** What the books have: given, and taken less returned. */
  givenNanos: bigint
  takenNanos: bigint
  bookedVersion: bigint
}

class Oracle {
  readonly customerId: string
  readonly payments: Payment[] = []
  readonly leases = new Map<string, bigint>()
  readonly vouchers: string[] = []
  readonly reversals: { id: string; payment: Payment; nanos: bigint; isReturned: boolean }[] = []
  grantedNanos = 0n
  spentNanos = 0n

  constructor(customerId: string) {
    this.customerId = customerId
  }

  /** The balance less the debt. */
  get ownedNanos(): bigint {
    const paid = this.payments.reduce((sum, { givenNanos, takenNanos }) => sum + givenNanos - takenNanos, 0n)
    return this.grantedNanos + paid - this.spentNanos
  }

  get heldNanos(): bigint {
    return [...this.leases.values()].reduce((sum, nanos) => sum + nanos, 0n)
  }
}

type Step = (oracle: Oracle, pick: number, cents: bigint) => Promise<void>

const call = async <T>(sql: string, values: unknown[]): Promise<T> =>
  (await world.pool.query<{ result: T }>(`SELECT ${sql} AS result`, values)).rows[0]!.result

/** All steps do nothing when what they need does not exist yet. */
const steps: Record<string, Step> = {
  async grant(oracle, pick, cents) {
    const grant = { customerId: oracle.customerId, amountNanos: cents * CENT, ref: randomUUID(), reason: `${pick}` }
    // The same payment of a customer is noted twice at once.
    await Promise.all([grantCredit(world.pool, grant), grantCredit(world.pool, grant)])
    oracle.grantedNanos += cents * CENT
  },
  async start(oracle, pick, cents) {
    const driver = pick % 3 === 0 ? 'manual' : 'stripe'
    const payment = newPayment(driver, cents, pick % 2 === 0 ? cents / 5n : 0n)
    await world.pool.query(
      "SELECT start_payment($1, $2, $3, $4, $5, 'usd', false, $1::uuid::text, NULL, NULL, NULL, NULL)",
      [payment.id, oracle.customerId, driver, cents * CENT, cents],
    )
    oracle.payments.push(payment)
  },
  async confirm(oracle, pick) {
    const payment = one(
      oracle.payments.filter(({ driver }) => driver === 'manual'),
      pick,
    )
    if (payment === undefined) return
    const book = () => call<string>('book_manual_payment($1)', [payment.id])
    const results = await Promise.all([book(), book()])
    if (results.includes('paid')) payment.givenNanos = payment.cents * CENT
  },
  async pay(oracle, pick) {
    const payment = one(
      oracle.payments.filter(({ driver }) => driver === 'stripe'),
      pick,
    )
    if (payment !== undefined) payment.state = payment.state === 'open' && pick % 5 === 0 ? 'failed' : 'paid'
  },
  async reverseAtProvider(oracle, pick, cents) {
    const payment = one(
      oracle.payments.filter(({ state }) => state === 'paid'),
      pick,
    )
    if (payment === undefined) return
    const [name, reversal] = one([...payment.reversals], pick) ?? []
    // It comes back: a dispute is won, or a refund fails.
    if (reversal !== undefined && pick % 2 === 0) reversal.cents = 0n
    else if (name === undefined || payment.reversals.size < 3) {
      const most = payment.cents + payment.tax
      payment.reversals.set(`re_${payment.reversals.size}`, {
        kind: pick % 3 === 0 ? 'dispute' : 'refund',
        cents: pick % 3 === 0 || cents > most ? most : cents,
      })
    }
  },
  report: (oracle, pick) => report(oracle, pick, 1),
  doubledReport: (oracle, pick) => report(oracle, pick, 3),
  async forgedReport(oracle, pick) {
    const payment = one(oracle.payments, pick)
    if (payment === undefined) return
    const lie = [{ amount_minor: 1 }, { currency: 'jpy' }, { is_live: true }, { payment_id: 'other' }][pick % 4]!
    const fact = { ...factOf(payment), state: 'paid', ...lie }
    // Another report may have been booked since the version was read; a lie is booked in no case.
    expect(['mismatch', 'stale']).toContain(await book(payment, await versionOf(payment), fact))
    if (payment.driver === 'manual') {
      const honest = { ...factOf(payment), state: 'paid' }
      expect(['mismatch', 'stale']).toContain(await book(payment, await versionOf(payment), honest))
    }
  },
  async reverse(oracle, pick, cents) {
    const payment = one(
      oracle.payments.filter(({ driver, givenNanos }) => driver === 'manual' && givenNanos > 0n),
      pick,
    )
    if (payment === undefined) return
    const id = randomUUID()
    const isDispute = pick % 2 === 0
    const take = () =>
      call<string>('reverse_payment($1, $2, $3, NULL, $4, $5)', [id, payment.id, cents * CENT, isDispute, 'a test'])
    const results = await Promise.all([take(), take()])
    for (const result of results) expect(['taken', 'duplicate', 'above_payment', 'spent']).toContain(result)
    if (!results.includes('taken')) return
    payment.takenNanos += cents * CENT
    oracle.reversals.push({ id, payment, nanos: cents * CENT, isReturned: false })
  },
  async returnReversal(oracle, pick) {
    const reversal = one(oracle.reversals, pick)
    if (reversal === undefined) return
    const results = await Promise.all([1, 2].map(() => call<boolean>('return_reversal($1)', [reversal.id])))
    if (!results.includes(true)) return
    // Once, and exactly what was taken.
    expect(reversal.isReturned).toBe(false)
    reversal.isReturned = true
    reversal.payment.takenNanos -= reversal.nanos
  },
  async redeem(oracle, pick, cents) {
    const code = Buffer.from(randomUUID())
    await world.pool.query(
      "SELECT make_voucher($1, sha256($2), 'hint', $3, 'a test', false, NULL, now() + interval '1 day')",
      [randomUUID(), code, cents * CENT],
    )
    const redeem = async () =>
      (
        await world.pool.query<{ verdict: string }>(
          'SELECT verdict FROM redeem_voucher($1, $2, sha256($3), $1::uuid::text, NULL)',
          [randomUUID(), oracle.customerId, code],
        )
      ).rows[0]!.verdict
    const verdicts = await Promise.all(Array.from({ length: 1 + (pick % 3) }, redeem))
    expect(verdicts.filter(verdict => verdict === 'redeemed')).toHaveLength(1)
    oracle.grantedNanos += cents * CENT
  },
  async autoTopUp(oracle) {
    const ids = [randomUUID(), randomUUID()]
    const start = (id: string) =>
      call<boolean>('start_auto_top_up($1, $2, false, $1::uuid::text, NULL, now())', [id, oracle.customerId])
    const started = await Promise.all(ids.map(start))
    ids.forEach((id, i) => {
      if (started[i]) oracle.payments.push({ ...newPayment('stripe', AUTO_AMOUNT, 0n, true), id })
    })
  },
  async admit(oracle, _, cents) {
    const admission = admissionOf(oracle.customerId, cents * CENT)
    const [verdict] = await storeOf(world.pool).admit(node.nodeId, [admission])
    if (verdict!.kind === 'granted') oracle.leases.set(admission.requestId, cents * CENT)
  },
  async settle(oracle, pick) {
    const lease = one([...oracle.leases], pick)
    if (lease === undefined) return
    const [requestId, heldNanos] = lease
    oracle.leases.delete(requestId)
    const costNanos = (heldNanos * BigInt(pick % 101)) / 100n
    const admission = { ...admissionOf(oracle.customerId, heldNanos), requestId }
    const records = encodeSettlements([settlementOf(admission, heldNanos, costNanos)])
    await Promise.all([storeOf(world.pool).settle(1, records), storeOf(world.pool).settle(2, records)])
    oracle.spentNanos += costNanos
  },
}

function newPayment(driver: Payment['driver'], cents: bigint, tax: bigint, isAuto = false): Payment {
  const booked = { givenNanos: 0n, takenNanos: 0n, bookedVersion: -1n }
  return { id: randomUUID(), driver, cents, tax, isAuto, state: 'open', reversals: new Map(), ...booked }
}

/** The provider is asked, and this many nodes book what it said at the same time. */
async function report(oracle: Oracle, pick: number, nodes: number): Promise<void> {
  const payment = one(
    oracle.payments.filter(({ driver }) => driver === 'stripe'),
    pick,
  )
  if (payment === undefined) return
  const version = await versionOf(payment)
  const fact = factOf(payment)
  const booked = bookedBy(payment)
  const results = await Promise.all(Array.from({ length: nodes }, () => book(payment, version, fact)))
  // An older report than the last one is not booked.
  expect(results.filter(result => result !== 'stale').length).toBeLessThanOrEqual(1)
  // An answer that arrives late may be of a report that was booked before the last one.
  if (results.every(result => result === 'stale') || version < payment.bookedVersion) return
  payment.bookedVersion = version
  payment.givenNanos = fact.state === 'paid' ? payment.cents * CENT : payment.givenNanos
  if (payment.givenNanos > 0n) payment.takenNanos = booked
}

const versionOf = ({ id }: Payment) => call<bigint>('(SELECT version FROM payment WHERE payment_id = $1)', [id])

const book = ({ id }: Payment, version: bigint, fact: object) =>
  call<string>("book_payment_report($1, 'stripe', $2, $3, NULL)", [id, version, JSON.stringify(fact)])

function factOf({ id, cents, tax, state, reversals }: Payment) {
  return {
    state,
    payment_id: id,
    amount_minor: Number(cents),
    currency: 'usd',
    is_live: false,
    total_minor: Number(cents + tax),
    reversals: [...reversals].map(([ref, { kind, cents: minor }]) => ({
      ref,
      kind,
      minor: Number(minor),
      reason: 'a test',
    })),
  }
}

/** What reversals take of the credit: their part without taxes, each rounded down, and never more than was given. */
function bookedBy({ cents, tax, reversals }: Payment): bigint {
  const taken = [...reversals.values()].reduce((sum, each) => sum + (cents * CENT * each.cents) / (cents + tax), 0n)
  return taken < cents * CENT ? taken : cents * CENT
}

function one<T>(list: readonly T[], pick: number): T | undefined {
  return list[pick % list.length]
}

async function newOracle(): Promise<Oracle> {
  const customerId = await world.addCustomer(0n)
  const [personId, methodId] = [randomUUID(), randomUUID()]
  await world.pool.query(
    `INSERT INTO payment_method (method_id, customer_id, driver, provider_ref, brand, last4, expires) VALUES ($1, $2, 'stripe', $1::uuid::text, 'visa', '4242', '')`,
    [methodId, customerId],
  )
  await world.pool.query(
    `INSERT INTO auto_top_up (customer_id, method_id, threshold_nanos, amount_nanos, monthly_max_nanos, consented_by, consented_at)
     VALUES ($1, $2, $3, $4, $5, $6, now())`,
    [customerId, methodId, 500n * CENT, AUTO_AMOUNT * CENT, AUTO_MAX * CENT, personId],
  )
  return new Oracle(customerId)
}

async function check(oracle: Oracle): Promise<void> {
  const { rows } = await world.pool.query<{ posted: bigint; leased: bigint; debt: bigint }>(
    'SELECT posted_nanos AS posted, leased_nanos AS leased, debt_nanos AS debt FROM balance WHERE customer_id = $1',
    [oracle.customerId],
  )
  const { posted, leased, debt } = rows[0]!
  expect({ owned: posted - debt, leased }).toEqual({ owned: oracle.ownedNanos, leased: oracle.heldNanos })
  expect(posted).toBeGreaterThanOrEqual(leased)
  // Debt is paid first: with a debt, nothing is free.
  if (debt > 0n) expect(posted).toBe(leased)
  const auto = oracle.payments.filter(({ isAuto, givenNanos }) => isAuto && givenNanos > 0n)
  expect(BigInt(auto.length) * AUTO_AMOUNT).toBeLessThanOrEqual(AUTO_MAX)
}

const wave = fc.array(
  fc.record({
    step: fc.constantFrom(...Object.keys(steps)),
    pick: fc.nat(1_000),
    cents: fc.bigInt(1n, 30n),
  }),
  { minLength: 1, maxLength: 4 },
)

test('random histories of payments and requests agree with an oracle: no balance below zero, debt first, books that balance', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(wave, { minLength: 5, maxLength: 30 }), async waves => {
      const oracle = await newOracle()
      for (const planned of waves) {
        // Steps that look at the same payment or lease would not know what the others have done to it.
        const names = new Set<string>()
        const together = planned.filter(({ step }) => !names.has(step) && names.add(step))
        await Promise.all(together.map(({ step, pick, cents }) => steps[step]!(oracle, pick, cents)))
        await check(oracle)
      }
      // In the end, the books have what the provider says.
      for (let pick = 0; pick < oracle.payments.length; pick++) await report(oracle, pick, 1)
      await check(oracle)
    }),
    { numRuns: 20 },
  )
  expect(await world.violations()).toEqual([])
})
